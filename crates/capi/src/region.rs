//! Regions.
//!
//! # Safety
//! No other library defines the exported names. C callers keep the rules for memory in [`border`].
//! A lock keeps a reference to its region, so the region outlives the lock.
#![allow(unsafe_code)]

use crate::answer::{Failure, answer, end};
use crate::border::{self, given, put};
use crate::device::{limit, params, refuse_unknown};
use crate::structs::{
    ADVICE_COLD, ADVICE_HOT, REGION_CHECKSUMS, REGION_COPY_AT_FORK, REGION_USERFAULTFD,
    RegionOptions, RegionStat,
};
use std::ffi::{c_int, c_void};
use std::mem::{MaybeUninit, transmute};
use std::ops::Range;
use std::sync::Arc;
use uzram::zmem::{BackendKind, BlockOrder, Fork};
use uzram::{Advice, Locked, SLOT_BYTES, by_name};

/// The type that `uzram.h` declares as `uzram_region`.
pub struct Region(Arc<uzram::Region>);

/// The type that `uzram.h` declares as `uzram_region_locked`.
pub struct RegionLocked {
    /// The lock, which is dropped before the region because it borrows the region.
    _locked: Locked<'static>,
    _region: Arc<uzram::Region>,
}

fn of(region: Option<&Region>) -> Result<&Arc<uzram::Region>, Failure> {
    given(region, "the region").map(|Region(region)| region)
}

/// Returns the range of `len` bytes at `offset`. The region checks whether the range is valid.
fn range(offset: u64, len: u64) -> Result<Range<usize>, Failure> {
    let end = offset.checked_add(len).ok_or_else(|| {
        Failure::invalid(format!("{len} bytes at {offset} are not within the region"))
    })?;
    Ok(offset as usize..end as usize)
}

/// Returns the order of blocks of `bytes` bytes; 0 means 4096.
fn block_order(bytes: u32) -> Result<BlockOrder, Failure> {
    let slot = SLOT_BYTES as u32;
    match bytes {
        0 => Ok(BlockOrder::Fixed(0)),
        bytes if bytes.is_power_of_two() && bytes >= slot => {
            Ok(BlockOrder::Fixed(bytes.trailing_zeros() - slot.trailing_zeros()))
        }
        bytes => Err(Failure::invalid(format!(
            "blocks can't have {bytes} bytes; 4, 8, 16, 32 or 64 KiB are possible"
        ))),
    }
}

/// # Safety
/// The C caller keeps the rules for strings in [`border`].
unsafe fn how(options: &RegionOptions) -> Result<uzram::RegionOptions, Failure> {
    let flags = options.flags;
    refuse_unknown(flags, REGION_COPY_AT_FORK | REGION_CHECKSUMS | REGION_USERFAULTFD)?;
    let mut how = uzram::RegionOptions {
        block: block_order(options.block)?,
        params: params(options.level),
        limit: limit(options.limit),
        store_limit: limit(options.store_limit),
        checksums: flags & REGION_CHECKSUMS != 0,
        ..uzram::RegionOptions::default()
    };
    // SAFETY: the C caller keeps the rules in `border`.
    if let Some(name) = unsafe { border::text(options.algorithm)? } {
        how.codec = by_name(name)?;
    }
    if flags & REGION_COPY_AT_FORK != 0 {
        how.fork = Fork::Copied;
    }
    if flags & REGION_USERFAULTFD != 0 {
        how.backend = BackendKind::Userfaultfd;
    }
    Ok(how)
}

/// Creates a region.
///
/// # Safety
/// The C caller keeps the rules for structs in [`border`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uzram_region_new(
    options: *const RegionOptions,
    out: Option<&mut MaybeUninit<Box<Region>>>,
) -> c_int {
    answer(|| {
        put(out, "the place of the new region", || {
            // SAFETY: the C caller keeps the rules in `border`.
            let options = unsafe { border::options(options)? };
            let bytes = usize::try_from(options.bytes).unwrap_or(usize::MAX);
            // SAFETY: the C caller keeps the rules in `border`.
            let region = uzram::Region::new(bytes, unsafe { how(&options)? })?;
            Ok(Box::new(Region(Arc::new(region))))
        })
    })
}

/// Destroys a region; NULL is ignored.
#[unsafe(no_mangle)]
pub extern "C" fn uzram_region_destroy(region: Option<Box<Region>>) {
    end(region);
}

/// Returns the address of the first byte, or NULL if `region` is NULL.
#[unsafe(no_mangle)]
pub extern "C" fn uzram_region_address(region: Option<&Region>) -> *mut c_void {
    region.map_or(std::ptr::null_mut(), |Region(region)| region.as_ptr().cast())
}

/// Returns the size of a region in bytes, or 0 if `region` is NULL.
#[unsafe(no_mangle)]
pub extern "C" fn uzram_region_bytes(region: Option<&Region>) -> u64 {
    region.map_or(0, |Region(region)| region.len() as u64)
}

/// Makes a range resident until it is unlocked.
#[unsafe(no_mangle)]
pub extern "C" fn uzram_region_lock(
    region: Option<&Region>,
    offset: u64,
    len: u64,
    out: Option<&mut MaybeUninit<Box<RegionLocked>>>,
) -> c_int {
    answer(|| {
        put(out, "the place of the new lock", || {
            let region = of(region)?.clone();
            let locked = region.lock(range(offset, len)?)?;
            // SAFETY: the `Arc` beside the lock keeps the region in place as long as the lock
            // exists.
            let locked = unsafe { transmute::<Locked<'_>, Locked<'static>>(locked) };
            Ok(Box::new(RegionLocked { _locked: locked, _region: region }))
        })
    })
}

/// Ends a lock; NULL is ignored.
#[unsafe(no_mangle)]
pub extern "C" fn uzram_region_unlock(locked: Option<Box<RegionLocked>>) {
    end(locked);
}

/// Makes a range resident.
#[unsafe(no_mangle)]
pub extern "C" fn uzram_region_prefetch(region: Option<&Region>, offset: u64, len: u64) -> c_int {
    answer(|| Ok(of(region)?.prefetch(range(offset, len)?)?))
}

/// Announces the expected use of a range.
#[unsafe(no_mangle)]
pub extern "C" fn uzram_region_advise(
    region: Option<&Region>,
    offset: u64,
    len: u64,
    advice: u32,
) -> c_int {
    answer(|| {
        let advice = match advice {
            ADVICE_COLD => Advice::Cold,
            ADVICE_HOT => Advice::Hot,
            other => {
                let message = format!("advice {other} means nothing; pass UZRAM_ADVICE_...");
                return Err(Failure::invalid(message));
            }
        };
        Ok(of(region)?.advise(range(offset, len)?, advice)?)
    })
}

/// Sets a range to zero.
///
/// # Safety
/// C accesses the region as plain memory. No thread accesses the range during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uzram_region_discard(
    region: Option<&Region>,
    offset: u64,
    len: u64,
) -> c_int {
    answer(|| {
        let (region, range) = (of(region)?, range(offset, len)?);
        // SAFETY: the C caller guarantees that no other thread accesses the range. No reference to
        // the range exists.
        unsafe { region.dont_need_shared(range)? };
        Ok(())
    })
}

/// Evicts the coldest blocks, and stores the number of evicted bytes.
#[unsafe(no_mangle)]
pub extern "C" fn uzram_region_reclaim(
    region: Option<&Region>,
    bytes: u64,
    evicted: Option<&mut u64>,
) -> c_int {
    answer(|| {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let gone = of(region)?.reclaim(bytes);
        if let Some(evicted) = evicted {
            *evicted = gone as u64;
        }
        Ok(())
    })
}

/// Sets the limit of the region's memory, or removes the limit if `bytes` is 0.
#[unsafe(no_mangle)]
pub extern "C" fn uzram_region_set_limit(region: Option<&Region>, bytes: u64) -> c_int {
    answer(|| Ok(of(region)?.set_limit(limit(bytes))?))
}

/// Fills in the statistics of a region.
///
/// # Safety
/// The C caller keeps the rules for structs in [`border`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uzram_region_stat(region: Option<&Region>, out: *mut RegionStat) -> c_int {
    answer(|| {
        let stats = of(region)?.stats();
        let stat = RegionStat {
            size: 0,
            held: stats.held,
            held_max: stats.held_max,
            limit: stats.limit.unwrap_or(0),
            resident: stats.resident,
            stored: stats.stored,
            compressed: stats.compressed,
            device: stats.device,
            filled: stats.filled,
            evicted: stats.evicted,
        };
        // SAFETY: the C caller keeps the rules in `border`.
        unsafe { border::fill(out, stat) }
    })
}
