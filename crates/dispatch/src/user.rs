//! Memory of the program, which may not be mapped.
//!
//! # Safety
//! A copy from the program's memory is written to a local value, and a copy to it is written where
//! the program lets the kernel write. Only types of plain numbers are copied.
#![allow(unsafe_code)]

use crate::x86_64::instructions::copy;
use std::mem::MaybeUninit;

/// The result of a system call for memory that is not mapped.
pub(crate) const EFAULT: isize = -(libc::EFAULT as isize);

/// Types that consist of numbers: all bytes are values of them.
pub(crate) trait Plain: Copy {}
impl Plain for u32 {}
impl Plain for u64 {}
impl<T: Plain, const N: usize> Plain for [T; N] {}
impl Plain for usize {}
impl Plain for crate::x86_64::frame::Stack {}
impl Plain for crate::x86_64::frame::Frame {}
impl Plain for crate::x86_64::frame::Info {}
impl Plain for crate::actions::Action {}

/// Reads a value from the program.
///
/// # Errors
/// EFAULT
pub(crate) fn read<T: Plain>(address: usize) -> Result<T, isize> {
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: the value is local, has the copied length, and is read only after all of it was
    // copied.
    unsafe {
        if !copy(value.as_mut_ptr().addr(), address, size_of::<T>()) {
            return Err(EFAULT);
        }
        Ok(value.assume_init())
    }
}

/// Writes a value to the program.
///
/// # Errors
/// EFAULT
pub(crate) fn write<T: Plain>(address: usize, value: &T) -> Result<(), isize> {
    copy_out(address, (&raw const *value).addr(), size_of::<T>())
}

/// Copies bytes to the program.
///
/// # Errors
/// EFAULT
pub(crate) fn copy_out(to: usize, from: usize, bytes: usize) -> Result<(), isize> {
    // SAFETY: the program has named `to` as memory to which the kernel writes, or it is the unused
    // part of its stack.
    if unsafe { copy(to, from, bytes) } { Ok(()) } else { Err(EFAULT) }
}

/// Copies bytes from the program's memory, for a hook. Returns false if some are not accessible;
/// then a part of `into` may have been written.
pub fn read_memory(address: usize, into: &mut [u8]) -> bool {
    // SAFETY: `into` is the caller's, and has this length.
    unsafe { copy(into.as_mut_ptr().addr(), address, into.len()) }
}

/// Copies bytes to the program's memory, for a hook that answers a call in the kernel's place.
/// Returns false if some of it is not accessible; then a part may have been written.
pub fn write_memory(address: usize, from: &[u8]) -> bool {
    copy_out(address, from.as_ptr().addr(), from.len()).is_ok()
}

/// Copies bytes from one place of the program's memory to another, for a hook that answers a call
/// in the kernel's place. Returns false if some of either is not accessible; then a part may have
/// been copied.
pub fn copy_memory(to: usize, from: usize, bytes: usize) -> bool {
    copy_out(to, from, bytes).is_ok()
}

/// Copies `bytes` bytes from the program's memory to memory of this crate.
///
/// # Errors
/// EFAULT
///
/// # Safety
/// `to` is this thread's own memory, of `bytes` bytes.
pub(crate) unsafe fn copy_in(to: usize, from: usize, bytes: usize) -> Result<(), isize> {
    // SAFETY: the caller vouches for `to`.
    if unsafe { copy(to, from, bytes) } { Ok(()) } else { Err(EFAULT) }
}
