//! Pools.
//!
//! # Safety
//! No other library defines the exported names. C callers keep the rules for memory in [`border`].
#![allow(unsafe_code)]

use crate::answer::{Failure, answer, end};
use crate::border::{self, given, put};
use crate::device::{limit, refuse_unknown};
use crate::structs::{POOL_COMPACT_IN_BACKGROUND, POOL_LEAVE_AT_FORK, PoolOptions, PoolStat};
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::Arc;
use uzram::{Handle, PageConfig, PoolConfig, page_size};

/// The type that `uzram.h` declares as `uzram_pool`.
pub struct Pool(Arc<uzram::Pool>);

pub(crate) fn of(pool: Option<&Pool>) -> Result<&Arc<uzram::Pool>, Failure> {
    given(pool, "the pool").map(|Pool(pool)| pool)
}

/// Converts a limit in bytes to a number of whole pages.
pub(crate) fn pages(bytes: u64) -> Option<usize> {
    limit(bytes).map(|bytes| bytes.div_ceil(page_size() as u64) as usize)
}

/// Creates a pool.
///
/// # Safety
/// The C caller keeps the rules for structs in [`border`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uzram_pool_new(
    options: *const PoolOptions,
    out: Option<&mut MaybeUninit<Box<Pool>>>,
) -> c_int {
    answer(|| {
        put(out, "the place of the new pool", || {
            // SAFETY: the C caller keeps the rules in `border`.
            let options = unsafe { border::options(options)? };
            refuse_unknown(options.flags, POOL_COMPACT_IN_BACKGROUND | POOL_LEAVE_AT_FORK)?;
            let in_children = options.flags & POOL_LEAVE_AT_FORK == 0;
            let pages =
                PageConfig { limit: pages(options.limit), in_children, ..PageConfig::default() };
            let pool = uzram::Pool::new(PoolConfig { pages, ..PoolConfig::default() })?;
            if options.flags & POOL_COMPACT_IN_BACKGROUND != 0 {
                pool.compact_in_background();
            }
            Ok(Box::new(Pool(Arc::new(pool))))
        })
    })
}

/// Destroys a pool; NULL is ignored.
#[unsafe(no_mangle)]
pub extern "C" fn uzram_pool_destroy(pool: Option<Box<Pool>>) {
    end(pool);
}

/// Stores an object. The handle is written after the bytes are read, so `handle` can point into the
/// bytes.
///
/// # Safety
/// The C caller keeps the rules for memory in [`border`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uzram_pool_store(
    pool: Option<&Pool>,
    start: *const c_void,
    len: u64,
    handle: Option<&Cell<u64>>,
) -> c_int {
    answer(|| {
        let handle = given(handle, "the place of the handle")?;
        // SAFETY: the C caller keeps the rules in `border`.
        handle.set(of(pool)?.store(unsafe { border::bytes(start, len)? })?.into_raw());
        Ok(())
    })
}

/// Copies at most `len` bytes of an object, and stores the length of the object.
///
/// # Safety
/// The C caller keeps the rules for memory in [`border`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uzram_pool_read(
    pool: Option<&Pool>,
    handle: u64,
    start: *mut c_void,
    len: u64,
    object_bytes: Option<&Cell<u64>>,
) -> c_int {
    answer(|| {
        let pool = of(pool)?;
        // SAFETY: the C caller keeps the rules in `border`.
        let room = unsafe { border::bytes_mut(start, len)? };
        let handle = Handle::from_raw(handle)?;
        let object = pool.read(&handle)?;
        let copied = room.len().min(object.len());
        room[..copied].copy_from_slice(&object[..copied]);
        if let Some(object_bytes) = object_bytes {
            object_bytes.set(object.len() as u64);
        }
        Ok(())
    })
}

/// Overwrites the first bytes of an object.
///
/// # Safety
/// The C caller keeps the rules for memory in [`border`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uzram_pool_write(
    pool: Option<&Pool>,
    handle: u64,
    start: *const c_void,
    len: u64,
) -> c_int {
    answer(|| {
        // SAFETY: the C caller keeps the rules in `border`.
        let bytes = unsafe { border::bytes(start, len)? };
        Ok(of(pool)?.write(&Handle::from_raw(handle)?, bytes)?)
    })
}

/// Frees an object.
#[unsafe(no_mangle)]
pub extern "C" fn uzram_pool_free(pool: Option<&Pool>, handle: u64) -> c_int {
    answer(|| Ok(of(pool)?.free(Handle::from_raw(handle)?)?))
}

/// Sets the limit on the pool's pages in bytes, or removes the limit if `bytes` is 0.
#[unsafe(no_mangle)]
pub extern "C" fn uzram_pool_set_limit(pool: Option<&Pool>, bytes: u64) -> c_int {
    answer(|| {
        of(pool)?.pages().set_limit(pages(bytes));
        Ok(())
    })
}

/// Moves objects together, and stores the number of bytes in the pages that became free.
#[unsafe(no_mangle)]
pub extern "C" fn uzram_pool_compact(pool: Option<&Pool>, freed: Option<&mut u64>) -> c_int {
    answer(|| {
        let pages = of(pool)?.compact();
        if let Some(freed) = freed {
            *freed = (pages * page_size()) as u64;
        }
        Ok(())
    })
}

/// Fills in the statistics of a pool.
///
/// # Safety
/// The C caller keeps the rules for structs in [`border`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uzram_pool_stat(pool: Option<&Pool>, out: *mut PoolStat) -> c_int {
    answer(|| {
        let pool = of(pool)?;
        let stat = PoolStat {
            size: 0,
            objects: pool.len(),
            pages_bytes: (pool.pages().used() * page_size()) as u64,
            total_bytes: pool.bytes() as u64,
            freeable_bytes: pool.freeable() as u64,
            object_bytes_max: pool.largest() as u64,
        };
        // SAFETY: the C caller keeps the rules in `border`.
        unsafe { border::fill(out, stat) }
    })
}
