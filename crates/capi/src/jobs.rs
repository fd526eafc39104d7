//! Jobs on a device's cold data, and saved devices.
//!
//! # Safety
//! No other library defines the exported names. C callers keep the rules for memory in [`border`].
#![allow(unsafe_code)]

use crate::answer::{Failure, answer};
use crate::border;
use crate::device::{Device, of, refuse_unknown};
use crate::structs::{
    RESTORE_SALVAGE, RecompressOptions, Recompressed, WHICH_ALL, WHICH_HUGE, WHICH_HUGE_IDLE,
    WHICH_IDLE, WHICH_INCOMPRESSIBLE, WrittenBack,
};
use std::ffi::{c_char, c_int};
use uzram::zram::{SaveOptions, SaveTo};
use uzram::{Damage, Recompress, Selection, Which};

fn selection(which: u32) -> Result<Selection, Failure> {
    Ok(Selection::of(match which {
        WHICH_ALL => Which::All,
        WHICH_IDLE => Which::Idle,
        WHICH_HUGE => Which::Huge,
        WHICH_HUGE_IDLE => Which::HugeIdle,
        WHICH_INCOMPRESSIBLE => Which::Incompressible,
        other => {
            let message = format!("{other} selects nothing; pass one of UZRAM_WHICH_...");
            return Err(Failure::invalid(message));
        }
    }))
}

/// Marks the slots as idle that were not used for more than `seconds` seconds.
#[unsafe(no_mangle)]
pub extern "C" fn uzram_device_mark_idle(device: Option<&Device>, seconds: u64) -> c_int {
    answer(|| {
        let device = of(device)?;
        let marked =
            if seconds == 0 { device.mark_idle() } else { device.mark_idle_older(seconds) };
        Ok(marked?)
    })
}

/// Compresses cold data again.
///
/// # Safety
/// The C caller keeps the rules for structs in [`border`]; `out` can be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uzram_device_recompress(
    device: Option<&Device>,
    options: *const RecompressOptions,
    out: *mut Recompressed,
) -> c_int {
    answer(|| {
        let device = of(device)?;
        // SAFETY: the C caller keeps the rules in `border`.
        let options = unsafe {
            border::check_optional(out)?;
            border::options(options)?
        };
        let some = |number: u64| Some(number).filter(|number| *number > 0);
        let done = device.recompress(&Recompress {
            selection: selection(options.which)?,
            priority: if options.priority == 0 { 1 } else { options.priority as usize },
            threshold: some(options.threshold).map(|bytes| bytes as usize),
            max_pages: some(options.max_pages),
        })?;
        let told = Recompressed {
            size: 0,
            tried: done.tried,
            smaller: done.smaller,
            saved_bytes: done.saved_bytes,
            touched: done.touched,
            damaged: done.damaged.count,
        };
        // SAFETY: the C caller keeps the rules in `border`.
        if out.is_null() { Ok(()) } else { unsafe { border::fill(out, told) } }
    })
}

/// Writes data to the backing file.
///
/// # Safety
/// The C caller keeps the rules for structs in [`border`]; `out` can be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uzram_device_write_back(
    device: Option<&Device>,
    which: u32,
    out: *mut WrittenBack,
) -> c_int {
    answer(|| {
        let device = of(device)?;
        // SAFETY: the C caller keeps the rules in `border`.
        unsafe { border::check_optional(out)? };
        let done = device.write_back(&selection(which)?)?;
        let told = WrittenBack {
            size: 0,
            slots: done.slots,
            bytes: done.bytes,
            blocks: done.blocks,
            touched: done.touched,
            damaged: done.damaged.count,
        };
        // SAFETY: the C caller keeps the rules in `border`.
        if out.is_null() { Ok(()) } else { unsafe { border::fill(out, told) } }
    })
}

/// Saves a device to a file, and stores the number of slots that could not be read.
///
/// # Safety
/// The C caller keeps the rules for strings in [`border`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uzram_device_save(
    device: Option<&Device>,
    path: *const c_char,
    lost_slots: Option<&mut u64>,
) -> c_int {
    answer(|| {
        // SAFETY: the C caller keeps the rules in `border`.
        let path = unsafe { border::path(path)? };
        let saved = of(device)?.save(SaveTo::File(path), &SaveOptions::default())?;
        if let Some(lost_slots) = lost_slots {
            *lost_slots = saved.lost_slots;
        }
        Ok(())
    })
}

/// Restores a device from a file.
///
/// # Safety
/// The C caller keeps the rules for strings in [`border`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uzram_device_restore(
    device: Option<&Device>,
    path: *const c_char,
    flags: u32,
    lost_bytes: Option<&mut u64>,
) -> c_int {
    answer(|| {
        let device = of(device)?;
        refuse_unknown(flags.into(), RESTORE_SALVAGE.into())?;
        let damage = if flags & RESTORE_SALVAGE != 0 { Damage::Salvage } else { Damage::Refuse };
        // SAFETY: the C caller keeps the rules in `border`.
        let restored = device.restore(unsafe { border::path(path)? }, damage)?;
        if let Some(lost_bytes) = lost_bytes {
            *lost_bytes = restored.lost.iter().map(|range| range.end - range.start).sum();
        }
        Ok(())
    })
}

/// Cancels the current job.
#[unsafe(no_mangle)]
pub extern "C" fn uzram_device_cancel_job(device: Option<&Device>) -> c_int {
    answer(|| {
        of(device)?.cancel_job();
        Ok(())
    })
}
