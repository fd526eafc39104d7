//! LRU caches.
//!
//! # Safety
//! No other library defines the exported names. C callers keep the rules for memory in [`border`].
//! The function for evicted values may be called on any thread, with the context from the options.
#![allow(unsafe_code)]

use crate::answer::{ENOENT, Failure, answer, end};
use crate::border::{self, given, put};
use crate::device::refuse_unknown;
use crate::structs::{LRU_NO_DICTIONARY, LruOptions, LruStat, OnEvict};
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use uzram::{Dictionary, DictionarySource, LruCache};

/// The type that `uzram.h` declares as `uzram_lru`.
pub struct Lru(LruCache<Box<[u8]>>);

fn of(lru: Option<&Lru>) -> Result<&LruCache<Box<[u8]>>, Failure> {
    given(lru, "the cache").map(|Lru(cache)| cache)
}

fn found<T>(found: Option<T>) -> Result<T, Failure> {
    found.ok_or_else(|| Failure::new(ENOENT, "the cache has no value of this key; put one"))
}

/// The C program's function for evicted values, and its context.
struct Evicted {
    call: OnEvict,
    context: *mut c_void,
}

// SAFETY: the C caller allows calls of the function with its context on any thread.
unsafe impl Send for Evicted {}
// SAFETY: as above. Several threads can call it at the same time.
unsafe impl Sync for Evicted {}

impl Evicted {
    fn call(&self, key: &[u8], value: &[u8]) {
        let (key, key_bytes) = (key.as_ptr().cast(), key.len() as u64);
        // SAFETY: the C caller passed the function with this context, and the two slices live until
        // the call returns.
        unsafe {
            (self.call)(self.context, key, key_bytes, value.as_ptr().cast(), value.len() as u64);
        }
    }
}

/// Creates a cache.
///
/// # Safety
/// The C caller keeps the rules for structs in [`border`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uzram_lru_new(
    options: *const LruOptions,
    out: Option<&mut MaybeUninit<Box<Lru>>>,
) -> c_int {
    answer(|| {
        put(out, "the place of the new cache", || {
            // SAFETY: the C caller keeps the rules in `border`.
            let options = unsafe { border::options(options)? };
            refuse_unknown(options.flags.into(), LRU_NO_DICTIONARY.into())?;
            let limit = usize::try_from(options.limit).unwrap_or(usize::MAX);
            let mut how = uzram::LruOptions::new(limit);
            // SAFETY: as above.
            if let Some(name) = unsafe { border::text(options.algorithm)? } {
                how.algorithm = uzram::by_name(name)?;
            }
            how.level = (options.level != 0).then_some(options.level);
            // SAFETY: as above.
            let given = unsafe { border::bytes(options.dictionary, options.dictionary_bytes)? };
            if options.flags & LRU_NO_DICTIONARY != 0 {
                how.dictionary = DictionarySource::None;
            } else if !given.is_empty() {
                how.dictionary = DictionarySource::Given(Dictionary::new(given)?);
            }
            let mut cache = LruCache::new(how)?;
            if let Some(call) = options.on_evict {
                let evicted = Evicted { call, context: options.context };
                cache = cache.on_evict(move |key: Box<[u8]>, value| evicted.call(&key, &value));
            }
            Ok(Box::new(Lru(cache)))
        })
    })
}

/// Destroys a cache; NULL is ignored.
#[unsafe(no_mangle)]
pub extern "C" fn uzram_lru_destroy(lru: Option<Box<Lru>>) {
    end(lru);
}

/// Stores a value.
///
/// # Safety
/// The C caller keeps the rules for memory in [`border`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uzram_lru_put(
    lru: Option<&Lru>,
    key: *const c_void,
    key_bytes: u64,
    value: *const c_void,
    value_bytes: u64,
) -> c_int {
    answer(|| {
        // SAFETY: the C caller keeps the rules in `border`.
        let key = unsafe { border::bytes(key, key_bytes)? };
        // SAFETY: as above.
        let value = unsafe { border::bytes(value, value_bytes)? };
        Ok(of(lru)?.put(key.into(), value)?)
    })
}

/// Copies at most `len` bytes of a value, and stores the length of the value.
///
/// # Safety
/// The C caller keeps the rules for memory in [`border`].
unsafe fn read(
    (key, key_bytes): (*const c_void, u64),
    (start, len): (*mut c_void, u64),
    value_bytes: Option<&Cell<u64>>,
    get: impl FnOnce(&[u8], &mut [u8]) -> Result<Option<usize>, Failure>,
) -> Result<(), Failure> {
    // The key is copied, because it can lie in the memory to which the value is written.
    // SAFETY: the C caller keeps the rules in `border`.
    let key: Box<[u8]> = unsafe { border::bytes(key, key_bytes)? }.into();
    // SAFETY: as above. No other reference to this memory exists.
    let room = unsafe { border::bytes_mut(start, len)? };
    let bytes = found(get(&key, room)?)?;
    if let Some(value_bytes) = value_bytes {
        value_bytes.set(bytes as u64);
    }
    Ok(())
}

/// Reads a value, and makes it the most recently used.
///
/// # Safety
/// The C caller keeps the rules for memory in [`border`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uzram_lru_get(
    lru: Option<&Lru>,
    key: *const c_void,
    key_bytes: u64,
    start: *mut c_void,
    len: u64,
    value_bytes: Option<&Cell<u64>>,
) -> c_int {
    answer(|| {
        let get = |key: &[u8], room: &mut [u8]| Ok(of(lru)?.get_into(key, room)?);
        // SAFETY: the C caller keeps the rules in `border`.
        unsafe { read((key, key_bytes), (start, len), value_bytes, get) }
    })
}

/// Reads a value, without making it the most recently used.
///
/// # Safety
/// The C caller keeps the rules for memory in [`border`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uzram_lru_peek(
    lru: Option<&Lru>,
    key: *const c_void,
    key_bytes: u64,
    start: *mut c_void,
    len: u64,
    value_bytes: Option<&Cell<u64>>,
) -> c_int {
    answer(|| {
        let peek = |key: &[u8], room: &mut [u8]| Ok(of(lru)?.peek_into(key, room)?);
        // SAFETY: the C caller keeps the rules in `border`.
        unsafe { read((key, key_bytes), (start, len), value_bytes, peek) }
    })
}

/// Removes a value.
///
/// # Safety
/// The C caller keeps the rules for memory in [`border`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uzram_lru_remove(
    lru: Option<&Lru>,
    key: *const c_void,
    key_bytes: u64,
) -> c_int {
    answer(|| {
        // SAFETY: the C caller keeps the rules in `border`.
        let key = unsafe { border::bytes(key, key_bytes)? };
        found(of(lru)?.remove(key).then_some(()))
    })
}

/// Removes all values.
#[unsafe(no_mangle)]
pub extern "C" fn uzram_lru_clear(lru: Option<&Lru>) -> c_int {
    answer(|| {
        of(lru)?.clear();
        Ok(())
    })
}

/// Fills in the statistics of a cache.
///
/// # Safety
/// The C caller keeps the rules for structs in [`border`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uzram_lru_stat(lru: Option<&Lru>, out: *mut LruStat) -> c_int {
    answer(|| {
        let stats = of(lru)?.stats();
        let stat = LruStat {
            size: 0,
            entries: stats.entries as u64,
            limit: stats.limit as u64,
            held: stats.held as u64,
            stored: stats.stored,
            compressed: stats.compressed,
            dictionary_bytes: stats.dictionary as u64,
            hits: stats.hits,
            misses: stats.misses,
            evictions: stats.evictions,
        };
        // SAFETY: the C caller keeps the rules in `border`.
        unsafe { border::fill(out, stat) }
    })
}
