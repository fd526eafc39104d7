//! Objects of pools where they lie.
//!
//! # Safety
//! Names that C calls are the library's alone. A pin holds its pool, which so outlives it.
#![allow(unsafe_code)]

use crate::answer::{answer, end};
use crate::border::{given, put};
use crate::pool::{Pool, of};
use std::ffi::{c_int, c_void};
use std::mem::{MaybeUninit, transmute};
use std::sync::Arc;
use uzram::{Handle, ReadGuard};

/// What C has as `uzram_pool_pinned`.
pub struct PoolPinned {
    /// Dropped before the pool, which it borrows.
    _guard: ReadGuard<'static>,
    _pool: Arc<uzram::Pool>,
}

/// Pins an object, and tells where it lies and its length.
#[unsafe(no_mangle)]
pub extern "C" fn uzram_pool_pin(
    pool: Option<&Pool>,
    handle: u64,
    start: Option<&mut MaybeUninit<*const c_void>>,
    object_bytes: Option<&mut u64>,
    out: Option<&mut MaybeUninit<Box<PoolPinned>>>,
) -> c_int {
    answer(|| {
        put(out, "the place of the new pin", || {
            let start = given(start, "the place of the address")?;
            let pool = of(pool)?.clone();
            let handle = Handle::from_raw(handle)?;
            let guard = pool.read(&handle)?;
            start.write(guard.as_ptr().cast());
            if let Some(object_bytes) = object_bytes {
                *object_bytes = guard.len() as u64;
            }
            // SAFETY: the `Arc` beside it keeps the pool where it is for as long as the guard is.
            // Of the handle, a number, the guard keeps nothing: what a number names is the guard's
            // until it ends, whoever frees it (`Pool::free` waits).
            let guard = unsafe { transmute::<ReadGuard<'_>, ReadGuard<'static>>(guard) };
            Ok(Box::new(PoolPinned { _guard: guard, _pool: pool }))
        })
    })
}

/// Ends a pin; NULL is none.
#[unsafe(no_mangle)]
pub extern "C" fn uzram_pool_unpin(pinned: Option<Box<PoolPinned>>) {
    end(pinned);
}
