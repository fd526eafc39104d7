//! Object caches, each with a separate arena.
//!
//! # Safety
//! No other library defines the exported names. C callers keep the rules for memory in [`border`].
#![allow(unsafe_code)]

use crate::answer::{EBUSY, Failure, answer, answer_at_once};
use crate::border::{self, given, put};
use crate::device::refuse_unknown;
use crate::pool::pages;
use crate::structs::{CACHE_DEBUG, CacheOptions, CacheStat};
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use uzram::slab::Debug;
use uzram::{Arena, PageConfig, RawCache, page_size};

/// The type that `uzram.h` declares as `uzram_cache`.
pub struct Cache(RawCache);

fn of(cache: Option<&Cache>) -> Result<&RawCache, Failure> {
    given(cache, "the cache").map(|Cache(cache)| cache)
}

/// Creates a cache.
///
/// # Safety
/// The C caller keeps the rules for structs in [`border`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uzram_cache_new(
    options: *const CacheOptions,
    out: Option<&mut MaybeUninit<Box<Cache>>>,
) -> c_int {
    answer(|| {
        put(out, "the place of the new cache", || {
            // SAFETY: the C caller keeps the rules in `border`.
            let options = unsafe { border::options(options)? };
            refuse_unknown(options.flags, CACHE_DEBUG)?;
            // SAFETY: as above.
            let name = unsafe { border::text(options.name)? }.unwrap_or("unnamed");
            let mut how = uzram::CacheOptions::named(name);
            if options.flags & CACHE_DEBUG != 0 {
                how.debug = Debug::On;
            }
            let arena =
                Arena::new(PageConfig { limit: pages(options.limit), ..PageConfig::default() })?;
            let bytes = usize::try_from(options.object_bytes).unwrap_or(usize::MAX);
            let align = match options.align {
                0 => align_of::<u128>(),
                align => usize::try_from(align).unwrap_or(usize::MAX),
            };
            Ok(Box::new(Cache(RawCache::with_options(&arena, bytes, align, how)?)))
        })
    })
}

/// Destroys a cache that has no objects; NULL is ignored.
///
/// # Safety
/// C passes the result of `uzram_cache_new`. No other thread uses the cache during the call. After
/// a successful call no thread uses the cache.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uzram_cache_destroy(cache: *mut Cache) -> c_int {
    answer(|| {
        // SAFETY: C passes NULL or the result of `uzram_cache_new`.
        let Some(Cache(inner)) = (unsafe { cache.as_ref() }) else { return Ok(()) };
        let objects = inner.in_use();
        if objects > 0 {
            let message = format!(
                "the cache {} can't be ended: {objects} of its objects are in use; free them first",
                inner.name().escape_debug()
            );
            return Err(Failure::new(EBUSY, message));
        }
        // SAFETY: `uzram_cache_new` created the cache as a box, and no thread uses the cache any
        // more.
        drop(unsafe { Box::from_raw(cache) });
        Ok(())
    })
}

/// Allocates an object.
#[unsafe(no_mangle)]
pub extern "C" fn uzram_cache_alloc(
    cache: Option<&Cache>,
    out: Option<&mut MaybeUninit<NonNull<u8>>>,
) -> c_int {
    answer_at_once(|| put(out, "the place of the new object", || Ok(of(cache)?.alloc()?)))
}

/// Frees an object; NULL is ignored.
///
/// # Safety
/// No thread uses the object any more. If the object may already be free, no other thread frees
/// objects at the same time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uzram_cache_free(cache: Option<&Cache>, object: *mut c_void) -> c_int {
    answer_at_once(|| {
        let cache = of(cache)?;
        let Some(object) = NonNull::new(object.cast()) else { return Ok(()) };
        // SAFETY: the C caller keeps the conditions in this function's documentation.
        unsafe { cache.free(object)? };
        Ok(())
    })
}

/// Frees empty slabs, and stores the size of their pages in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn uzram_cache_shrink(cache: Option<&Cache>, freed: Option<&mut u64>) -> c_int {
    answer(|| {
        let cache = of(cache)?;
        let used = || cache.arena().budget().used();
        let before = used();
        cache.shrink();
        if let Some(freed) = freed {
            *freed = (before.saturating_sub(used()) * page_size()) as u64;
        }
        Ok(())
    })
}

/// Fills in the statistics of a cache.
///
/// # Safety
/// The C caller keeps the rules for structs in [`border`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uzram_cache_stat(cache: Option<&Cache>, out: *mut CacheStat) -> c_int {
    answer(|| {
        let cache = of(cache)?;
        let counts = cache.stat();
        let stat = CacheStat {
            size: 0,
            objects: counts.active_objects as u64,
            room: counts.objects as u64,
            slabs: counts.slabs as u64,
            refused: counts.refused as u64,
            total_bytes: cache.arena().bytes() as u64,
        };
        // SAFETY: the C caller keeps the rules in `border`.
        unsafe { border::fill(out, stat) }
    })
}
