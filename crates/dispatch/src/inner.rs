//! The C library's own calls of `read` and `write`: its streams call them where no other library
//! can stand in for them, so the functions themselves lead here.
//!
//! ```text
//!   write:    cmp byte ptr [one thread], 0 ; je several      <- jmp to `write` here
//!             mov eax, 1 ; syscall ; cmp rax, -4096 ; ja ..
//!   several:  a point of cancellation
//! ```
//! di-7: a function of other instructions stays as it is, and so does one that the system doesn't
//! let be written.
//!
//! # Safety
//! One thread runs. What is written over is the first instruction, within which nothing leads, and
//! those behind it show that the function makes this call. So a jump to a function with the same
//! arguments, stack and return address does what it did.
#![allow(unsafe_code)]

use crate::cancel;
use crate::user::read_memory;
use crate::wrappers::call;
use std::ffi::CStr;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// The instructions are looked for in so much of a function.
const CODE: usize = 32;
/// A jump: this byte, and the address, counted from its end.
const JUMP: u8 = 0xe9;
const JUMP_BYTES: usize = 5;
/// `endbr64`, which may stand first.
const LANDING: &[u8] = b"\xf3\x0f\x1e\xfa";
/// `cmp byte ptr [rip + ?], 0; je ?`: the bytes that tell it.
const TEST: [Option<u8>; 9] =
    [Some(0x80), Some(0x3d), None, None, None, None, Some(0), Some(0x74), None];
/// `xor eax, eax; syscall; cmp rax, -4096; ja`.
const READS: &[u8] = b"\x31\xc0\x0f\x05\x48\x3d\x00\xf0\xff\xff\x77";
/// `mov eax, 1; syscall; cmp rax, -4096; ja`.
const WRITES: &[u8] = b"\xb8\x01\x00\x00\x00\x0f\x05\x48\x3d\x00\xf0\xff\xff\x77";

type Transfer = unsafe extern "C-unwind" fn(i32, usize, usize) -> isize;

/// # Safety
/// As of the C library's.
unsafe extern "C-unwind" fn read(fd: i32, to: usize, bytes: usize) -> isize {
    // SAFETY: the caller vouches for the arguments.
    unsafe { call(libc::SYS_read, [fd as usize, to, bytes, 0, 0, 0]) }
}

/// # Safety
/// As of the C library's.
unsafe extern "C-unwind" fn write(fd: i32, from: usize, bytes: usize) -> isize {
    // SAFETY: the caller vouches for the arguments.
    unsafe { call(libc::SYS_write, [fd as usize, from, bytes, 0, 0, 0]) }
}

/// Has the wrappers be points of cancellation, and the C library's own calls of `read` and `write`
/// lead to them, where that can be done.
///
/// # Safety
/// This thread alone runs, and is armed. The caller is a library that exports
/// [`crate::export_wrappers`].
pub unsafe fn begin_wrappers() {
    cancel::begin();
    let Ok(memory) = File::options().write(true).open("/proc/self/mem") else { return };
    lead(&memory, c"read", READS, read);
    lead(&memory, c"write", WRITES, write);
}

/// Writes a jump to `ours` into a function that `calls`, as a debugger does: the mapping stays as
/// it is.
fn lead(memory: &File, name: &CStr, calls: &[u8], ours: Transfer) {
    // SAFETY: the name is a string. What is found is what this library stands in for.
    let function = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) } as usize;
    let mut code = [0; CODE];
    if !read_memory(function, &mut code) {
        return;
    }
    let Some(place) = place(&code, calls).map(|place| function + place) else { return };
    let distance = (ours as usize).wrapping_sub(place + JUMP_BYTES) as isize;
    let Ok(distance) = i32::try_from(distance) else { return };
    let mut jump = [JUMP; JUMP_BYTES];
    jump[1..].copy_from_slice(&distance.to_ne_bytes());
    // Where the system refuses it nothing is written.
    let _refused = memory.write_all_at(&jump, place as u64);
}

/// Returns where the test for one thread lies, if that and the call are what a function begins
/// with.
fn place(code: &[u8], calls: &[u8]) -> Option<usize> {
    let place = if code.starts_with(LANDING) { LANDING.len() } else { 0 };
    let (test, rest) = code.get(place..)?.split_at_checked(TEST.len())?;
    let is_test = TEST.iter().zip(test).all(|(wanted, byte)| wanted.is_none_or(|it| it == *byte));
    (is_test && rest.starts_with(calls)).then_some(place)
}
