//! The arguments that C passes: memory, strings, and structs that begin with their size.
//!
//! # Safety
//! The C caller keeps the rules of `uzram.h`. Memory has the length that is passed. During the call
//! no other thread writes to this memory. If the call writes to the memory, no other thread uses
//! it. A string ends with a zero. The first field of a struct holds the struct's size in bytes.
#![allow(unsafe_code)]

use crate::answer::{E2BIG, Failure};
use std::ffi::{CStr, OsStr, c_char, c_void};
use std::mem::{MaybeUninit, size_of};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::slice;

/// A struct that C fills in or reads.
///
/// # Safety
/// The type begins with its size, a `u64`, and has no padding. Zeros in all bytes are a valid
/// value.
pub(crate) unsafe trait Sized64: Copy {}

/// Returns the target of a pointer, or a failure if the pointer is NULL.
pub(crate) fn given<T>(pointer: Option<T>, what: &str) -> Result<T, Failure> {
    pointer.ok_or_else(|| Failure::invalid(format!("{what} is NULL; pass what was asked for")))
}

/// Stores a result at the address that C passes.
pub(crate) fn put<T>(
    out: Option<&mut MaybeUninit<T>>,
    what: &str,
    make: impl FnOnce() -> Result<T, Failure>,
) -> Result<(), Failure> {
    let out = given(out, what)?;
    out.write(make()?);
    Ok(())
}

fn length(start: *const c_void, len: u64) -> Result<usize, Failure> {
    if start.is_null() && len > 0 {
        return Err(Failure::invalid(format!("the address of {len} bytes is NULL; pass memory")));
    }
    let most = isize::MAX as u64;
    let len = Some(len).filter(|len| *len <= most).ok_or_else(|| {
        Failure::invalid(format!("no memory has {len} bytes; is the length negative?"))
    })?;
    Ok(len as usize)
}

/// Returns memory that the C caller passes, to be read.
///
/// # Safety
/// The conditions at the head of this file hold for the lifetime `'a`.
pub(crate) unsafe fn bytes<'a>(start: *const c_void, len: u64) -> Result<&'a [u8], Failure> {
    match length(start, len)? {
        0 => Ok(&[]),
        // SAFETY: the C caller guarantees that the memory has `len` bytes; `length` has checked the
        // address.
        len => Ok(unsafe { slice::from_raw_parts(start.cast(), len) }),
    }
}

/// Returns memory that the C caller passes, to be written.
///
/// # Safety
/// The conditions at the head of this file hold for the lifetime `'a`.
pub(crate) unsafe fn bytes_mut<'a>(start: *mut c_void, len: u64) -> Result<&'a mut [u8], Failure> {
    match length(start, len)? {
        0 => Ok(&mut []),
        // SAFETY: as in `bytes`. In addition, the C caller guarantees that no other thread uses the
        // memory.
        len => Ok(unsafe { slice::from_raw_parts_mut(start.cast(), len) }),
    }
}

/// Returns a string that the C caller passes, or `None` if it is NULL.
///
/// # Safety
/// The conditions at the head of this file hold for the lifetime `'a`.
pub(crate) unsafe fn text<'a>(start: *const c_char) -> Result<Option<&'a str>, Failure> {
    if start.is_null() {
        return Ok(None);
    }
    // SAFETY: the C caller guarantees that the string ends with a zero.
    let text = unsafe { CStr::from_ptr(start) };
    text.to_str().map(Some).map_err(|_| Failure::invalid("a name is not UTF-8; see uzram.h"))
}

/// Returns a path that the C caller passes. The path can contain any bytes.
///
/// # Safety
/// The conditions at the head of this file hold for the lifetime `'a`.
pub(crate) unsafe fn path<'a>(start: *const c_char) -> Result<&'a Path, Failure> {
    if start.is_null() {
        return Err(Failure::invalid("the path is NULL; pass the name of a file"));
    }
    // SAFETY: the C caller guarantees that the path ends with a zero.
    Ok(Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(start) }.to_bytes())))
}

/// Returns the size in the first field of a struct that the C caller passes.
///
/// # Safety
/// The conditions at the head of this file hold.
unsafe fn size_of_given<T: Sized64>(start: *const T) -> Result<usize, Failure> {
    if start.is_null() {
        return Err(Failure::invalid("a struct is NULL; pass its address"));
    }
    // SAFETY: the C caller guarantees that the struct begins with its size.
    let size = unsafe { start.cast::<u64>().read_unaligned() };
    if !(8..=1 << 16).contains(&size) {
        let remedy = "set its first field to its sizeof, and all others to zero";
        return Err(Failure::invalid(format!("a struct says it has {size} bytes; {remedy}")));
    }
    Ok(size as usize)
}

/// Returns the options that the C caller passes. Fields that the caller's struct lacks become zero.
/// Fields that the library does not know must be zero, because the library would ignore them.
///
/// # Safety
/// The conditions at the head of this file hold.
pub(crate) unsafe fn options<T: Sized64>(start: *const T) -> Result<T, Failure> {
    // SAFETY: the caller guarantees the conditions at the head of this file.
    let size = unsafe { size_of_given(start)? };
    let mut options = MaybeUninit::<T>::zeroed();
    let ours = size.min(size_of::<T>());
    // SAFETY: the C caller's struct has `size` bytes, and `T` has at least `ours` bytes. Zeros are
    // a valid `T` (Sized64), and so is a prefix of the caller's struct followed by zeros.
    let (options, beyond) = unsafe {
        options.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(start.cast(), ours);
        let beyond = slice::from_raw_parts(start.cast::<u8>().add(ours), size - ours);
        (options.assume_init(), beyond)
    };
    if beyond.iter().any(|byte| *byte != 0) {
        let message = "options were set that this version of libuzram does not know; update it";
        return Err(Failure::new(E2BIG, message));
    }
    Ok(options)
}

/// Checks that the C caller's struct can be filled in. NULL passes. A call checks the struct before
/// it does the work whose result the struct will hold.
///
/// # Safety
/// The conditions at the head of this file hold.
pub(crate) unsafe fn check_optional<T: Sized64>(out: *mut T) -> Result<(), Failure> {
    // SAFETY: the caller guarantees the conditions at the head of this file.
    if out.is_null() { Ok(()) } else { unsafe { size_of_given(out) }.map(drop) }
}

/// Copies the fields of `value` that fit into the C caller's struct. Fields that `value` lacks
/// become zero. The size field of the caller's struct does not change.
///
/// # Safety
/// The conditions at the head of this file hold.
pub(crate) unsafe fn fill<T: Sized64>(out: *mut T, value: T) -> Result<(), Failure> {
    // SAFETY: the caller guarantees the conditions at the head of this file.
    let size = unsafe { size_of_given(out)? };
    let ours = size.min(size_of::<T>());
    // SAFETY: the C caller's struct has `size` bytes, and `value` has at least `ours` bytes,
    // without padding.
    unsafe {
        let (to, from) = (out.cast::<u8>(), (&raw const value).cast::<u8>());
        to.add(8).copy_from_nonoverlapping(from.add(8), ours - 8);
        to.add(ours).write_bytes(0, size - ours);
    }
    Ok(())
}
