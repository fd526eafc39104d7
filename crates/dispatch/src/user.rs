//! Copies from and to the program's memory, which may be unmapped.
//!
//! # Safety
//! The program's memory is read only by copying it to memory of the caller, so no reference to the
//! program's memory exists. Data for the program are copied only to memory to which the program
//! lets the kernel write. Only types that consist of numbers are copied.
#![allow(unsafe_code)]

use crate::x86_64::instructions::copy;
use std::mem::MaybeUninit;

/// The result of a system call for memory that is not mapped.
pub(crate) const EFAULT: isize = -(libc::EFAULT as isize);

/// Types that consist of numbers, so that any bytes are a valid value.
pub(crate) trait Plain: Copy {}
impl Plain for u32 {}
impl Plain for u64 {}
impl<T: Plain, const N: usize> Plain for [T; N] {}
impl Plain for usize {}
impl Plain for crate::x86_64::frame::Stack {}
impl Plain for crate::x86_64::frame::Frame {}
impl Plain for crate::x86_64::info::Info {}
impl Plain for crate::actions::Action {}

/// Reads a value from the program's memory.
///
/// # Errors
/// EFAULT
pub(crate) fn read<T: Plain>(address: usize) -> Result<T, isize> {
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: the value is local, has the copied length, and is read only after all of its bytes
    // were copied.
    unsafe {
        if !copy(value.as_mut_ptr().addr(), address, size_of::<T>()) {
            return Err(EFAULT);
        }
        Ok(value.assume_init())
    }
}

/// Writes a value to the program's memory.
///
/// # Errors
/// EFAULT
pub(crate) fn write<T: Plain>(address: usize, value: &T) -> Result<(), isize> {
    copy_out(address, (&raw const *value).addr(), size_of::<T>())
}

/// Copies bytes to the program's memory.
///
/// # Errors
/// EFAULT
pub(crate) fn copy_out(to: usize, from: usize, bytes: usize) -> Result<(), isize> {
    // SAFETY: the program has passed `to` as memory to which the kernel writes, or `to` is in the
    // unused part of the program's stack.
    if unsafe { copy(to, from, bytes) } { Ok(()) } else { Err(EFAULT) }
}

/// Copies bytes from the program's memory, for a hook. Returns false if some of the bytes are not
/// accessible. A failed call may have written a part of `into`.
pub fn read_memory(address: usize, into: &mut [u8]) -> bool {
    // SAFETY: the caller owns `into`, which has this length.
    unsafe { copy(into.as_mut_ptr().addr(), address, into.len()) }
}

/// Copies bytes to the program's memory, for a hook that handles a call instead of the kernel.
/// Returns false if some of the memory is not accessible. A failed call may have written some of
/// the bytes.
pub fn write_memory(address: usize, from: &[u8]) -> bool {
    copy_out(address, from.as_ptr().addr(), from.len()).is_ok()
}

/// Copies bytes within the program's memory, for a hook that handles a call instead of the kernel.
/// Returns false if some of the memory is not accessible. A failed call may have copied some of the
/// bytes.
pub fn copy_memory(to: usize, from: usize, bytes: usize) -> bool {
    copy_out(to, from, bytes).is_ok()
}

/// Copies `bytes` bytes from the program's memory to memory of this crate.
///
/// # Errors
/// EFAULT
///
/// # Safety
/// `to` is memory of `bytes` bytes that only this thread uses.
pub(crate) unsafe fn copy_in(to: usize, from: usize, bytes: usize) -> Result<(), isize> {
    // SAFETY: the caller guarantees that only this thread uses `to`.
    if unsafe { copy(to, from, bytes) } { Ok(()) } else { Err(EFAULT) }
}
