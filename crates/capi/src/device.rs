//! Devices.
//!
//! # Safety
//! No other library defines the exported names. C callers keep the rules for memory in [`border`].
#![allow(unsafe_code)]

use crate::answer::{Failure, answer, end};
use crate::backing;
use crate::border::{self, given, put};
use crate::structs::{
    DEVICE_CHECKSUMS, DEVICE_LEAVE_AT_FORK, DEVICE_TRACK_ACCESS, DeviceOptions, DeviceStat,
};
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::Arc;
use uzram::zram::Fork;
use uzram::{Algorithm, Config, Params, by_name};

/// The type that `uzram.h` declares as `uzram_device`.
pub struct Device(uzram::Device);

/// Returns the device, or a failure if the pointer is NULL.
pub(crate) fn of(device: Option<&Device>) -> Result<&uzram::Device, Failure> {
    given(device, "the device").map(|Device(device)| device)
}

/// Returns the parameters for `level`; 0 means the codec's default level.
pub(crate) fn params(level: i32) -> Params {
    Params { level: Some(level).filter(|level| *level != 0), dictionary: None }
}

/// Returns the limit in bytes, or `None` if `bytes` is 0.
pub(crate) fn limit(bytes: u64) -> Option<u64> {
    Some(bytes).filter(|bytes| *bytes > 0)
}

pub(crate) fn refuse_unknown(flags: u64, known: u64) -> Result<(), Failure> {
    match flags & !known {
        0 => Ok(()),
        unknown => Err(Failure::invalid(format!(
            "flags {unknown:#x} mean nothing here; pass those that uzram.h lists"
        ))),
    }
}

/// # Safety
/// The C caller keeps the rules for strings in [`border`].
unsafe fn config(options: &DeviceOptions) -> Result<Config, Failure> {
    let flags = options.flags;
    refuse_unknown(
        flags.into(),
        (DEVICE_TRACK_ACCESS | DEVICE_CHECKSUMS | DEVICE_LEAVE_AT_FORK).into(),
    )?;
    let mut config = Config::new(options.disksize)?;
    // SAFETY: the C caller keeps the rules in `border`.
    if let Some(name) = unsafe { border::text(options.algorithm)? } {
        config.algorithm = by_name(name)?;
    }
    config.params = params(options.level);
    if options.block > 0 {
        config.block = options.block as usize;
    }
    for (name, algorithm) in options.recompression.iter().zip(&mut config.recompression) {
        // SAFETY: the C caller keeps the rules in `border`.
        if let Some(name) = unsafe { border::text(*name)? } {
            *algorithm = Some(Algorithm::new(by_name(name)?));
        }
    }
    config.mem_limit = limit(options.mem_limit);
    config.total_limit = limit(options.total_limit);
    config.streams = Some(options.streams as usize).filter(|streams| *streams > 0);
    config.track_access = flags & DEVICE_TRACK_ACCESS != 0;
    config.checksums = flags & DEVICE_CHECKSUMS != 0;
    if flags & DEVICE_LEAVE_AT_FORK != 0 {
        config.fork = Fork::Leave;
    }
    config.check_size()?;
    if !options.backing_path.is_null() {
        // SAFETY: the C caller keeps the rules in `border`.
        let path = unsafe { border::path(options.backing_path)? };
        config.backing = Some(Arc::new(backing::opened(path, options.backing_bytes)?));
    }
    Ok(config)
}

/// Creates a device.
///
/// # Safety
/// The C caller keeps the rules for structs in [`border`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uzram_device_new(
    options: *const DeviceOptions,
    out: Option<&mut MaybeUninit<Box<Device>>>,
) -> c_int {
    answer(|| {
        put(out, "the place of the new device", || {
            // SAFETY: the C caller keeps the rules in `border`.
            let options = unsafe { border::options(options)? };
            // SAFETY: as above.
            let device = uzram::Device::new(unsafe { config(&options)? });
            // SAFETY: as above.
            let device = device.inspect_err(|_| unsafe { backing::remove_made(&options) })?;
            Ok(Box::new(Device(device)))
        })
    })
}

/// Destroys a device; NULL is ignored.
#[unsafe(no_mangle)]
pub extern "C" fn uzram_device_destroy(device: Option<Box<Device>>) {
    end(device);
}

/// Writes to a device.
///
/// # Safety
/// The C caller keeps the rules for memory in [`border`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uzram_device_write(
    device: Option<&Device>,
    offset: u64,
    start: *const c_void,
    len: u64,
) -> c_int {
    // SAFETY: the C caller keeps the rules in `border`.
    answer(|| Ok(of(device)?.write(offset, unsafe { border::bytes(start, len)? })?))
}

/// Reads from a device.
///
/// # Safety
/// The C caller keeps the rules for memory in [`border`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uzram_device_read(
    device: Option<&Device>,
    offset: u64,
    start: *mut c_void,
    len: u64,
) -> c_int {
    // SAFETY: the C caller keeps the rules in `border`.
    answer(|| Ok(of(device)?.read(offset, unsafe { border::bytes_mut(start, len)? })?))
}

/// Sets a range to zero, and frees the slots that the range covers completely.
#[unsafe(no_mangle)]
pub extern "C" fn uzram_device_discard(device: Option<&Device>, offset: u64, len: u64) -> c_int {
    answer(|| Ok(of(device)?.discard(offset, len)?))
}

/// Sets the limit on the pool's pages in bytes, or removes the limit if `bytes` is 0.
#[unsafe(no_mangle)]
pub extern "C" fn uzram_device_set_mem_limit(device: Option<&Device>, bytes: u64) -> c_int {
    answer(|| {
        of(device)?.set_mem_limit(limit(bytes));
        Ok(())
    })
}

/// Sets the limit on the device's total memory, or removes the limit if `bytes` is 0.
#[unsafe(no_mangle)]
pub extern "C" fn uzram_device_set_total_limit(device: Option<&Device>, bytes: u64) -> c_int {
    answer(|| {
        of(device)?.set_total_limit(limit(bytes));
        Ok(())
    })
}

/// Moves objects together, and stores the number of bytes in the pages that became free.
#[unsafe(no_mangle)]
pub extern "C" fn uzram_device_compact(device: Option<&Device>, freed: Option<&mut u64>) -> c_int {
    answer(|| {
        let pages = of(device)?.compact();
        if let Some(freed) = freed {
            *freed = (pages * uzram::page_size()) as u64;
        }
        Ok(())
    })
}

/// Fills in the statistics of a device.
///
/// # Safety
/// The C caller keeps the rules for structs in [`border`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uzram_device_stat(device: Option<&Device>, out: *mut DeviceStat) -> c_int {
    answer(|| {
        let device = of(device)?;
        let (mm, io) = (device.mm_stat(), device.io_stat());
        let stat = DeviceStat {
            size: 0,
            disksize: device.disksize(),
            orig_data_size: mm.orig_data_size,
            compr_data_size: mm.compr_data_size,
            mem_used: mm.mem_used_total,
            mem_used_max: mm.mem_used_max,
            mem_limit: mm.mem_limit,
            mem_total: device.mem_total(),
            same_pages: mm.same_pages,
            huge_pages: mm.huge_pages,
            pages_compacted: mm.pages_compacted,
            failed_reads: io.failed_reads,
            failed_writes: io.failed_writes,
            backing_bytes: device.bd_stat().bd_count * 4096,
        };
        // SAFETY: the C caller keeps the rules in `border`.
        unsafe { border::fill(out, stat) }
    })
}
