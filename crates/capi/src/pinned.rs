//! Pinned objects of pools.
//!
//! # Safety
//! No other library defines the exported names. A pin keeps a reference to its pool, so the pool
//! outlives the pin.
#![allow(unsafe_code)]

use crate::answer::{answer, end};
use crate::border::{given, put};
use crate::pool::{Pool, of};
use std::ffi::{c_int, c_void};
use std::mem::{MaybeUninit, transmute};
use std::sync::Arc;
use uzram::{Handle, ReadGuard};

/// The type that `uzram.h` declares as `uzram_pool_pinned`.
pub struct PoolPinned {
    /// The guard of the pin, which is dropped before the pool because it borrows the pool.
    _guard: ReadGuard<'static>,
    _pool: Arc<uzram::Pool>,
}

/// Pins an object, and stores its address and its length.
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
            // SAFETY: the `Arc` beside the guard keeps the pool in place as long as the guard
            // exists. The guard keeps no reference to the handle, which is a number. The object
            // stays valid until the guard is dropped, because `Pool::free` waits for the guard.
            let guard = unsafe { transmute::<ReadGuard<'_>, ReadGuard<'static>>(guard) };
            Ok(Box::new(PoolPinned { _guard: guard, _pool: pool }))
        })
    })
}

/// Ends a pin; NULL is ignored.
#[unsafe(no_mangle)]
pub extern "C" fn uzram_pool_unpin(pinned: Option<Box<PoolPinned>>) {
    end(pinned);
}
