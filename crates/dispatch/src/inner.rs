//! The C library's own calls of `read` and `write`: its streams call them where no other library
//! can stand in for them, so the functions themselves lead here.
//!
//! ```text
//!   write:    cmp byte ptr [one thread], 0 ; je several
//!   alone:    mov eax, 1 ; syscall ; cmp rax, -4096 ; ja ..     <- jmp to `write` here
//!   several:  sub rsp, 0x28 ; mov [rsp + 0x18], rdx ; ..        <- jmp to `inner.s`
//! ```
//! di-7: with several threads such a call is a point of cancellation, where a thread that waits is
//! ended. It stays so: what may have to wait goes on as ever. A function of other instructions
//! stays as it is, and so does one that the system doesn't let be written.
//!
//! # Safety
//! One thread runs. What is written over are instructions that nothing leads to but the branch
//! before them, as they were compared byte by byte, and the branch leads from one place to the
//! other. So a jump to a function with the same arguments, stack and return address does what they
//! did, and `inner.s` does what is skipped where it goes back.
#![allow(unsafe_code)]

use crate::hook::is_confined;
use crate::user::read_memory;
use crate::wrappers::call;
use crate::x86_64::instructions::raw_syscall;
use std::arch::global_asm;
use std::ffi::CStr;
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

global_asm!(
    include_str!("inner.s"),
    try_read = sym try_read,
    rest_of_read = sym REST_OF_READ,
    try_write = sym try_write,
    rest_of_write = sym REST_OF_WRITE,
);

// SAFETY: the functions above, with the arguments of those that they stand in for.
unsafe extern "C-unwind" {
    fn uzram_dispatch_inner_read(fd: i32, to: usize, bytes: usize) -> isize;
    fn uzram_dispatch_inner_write(fd: i32, from: usize, bytes: usize) -> isize;
}

/// Where the functions go on with several threads.
static REST_OF_READ: AtomicUsize = AtomicUsize::new(0);
static REST_OF_WRITE: AtomicUsize = AtomicUsize::new(0);

/// The instructions are looked for in so much of a function.
const CODE: usize = 96;
/// A jump: this byte, and the address, counted from its end.
const JUMP: u8 = 0xe9;
const JUMP_BYTES: usize = 5;
/// Only the test stands before a call: `cmp`, and a branch of two bytes, `je` or `jne`.
const TEST_MAX: usize = 20;
const BRANCHES: [u8; 2] = [0x74, 0x75];
/// `xor eax, eax; syscall; cmp rax, -4096; ja`.
const READS: &[u8] = b"\x31\xc0\x0f\x05\x48\x3d\x00\xf0\xff\xff\x77";
/// `mov eax, 1; syscall; cmp rax, -4096; ja`.
const WRITES: &[u8] = b"\xb8\x01\x00\x00\x00\x0f\x05\x48\x3d\x00\xf0\xff\xff\x77";
/// `sub rsp, 0x28; mov [rsp + 0x18], rdx; mov [rsp + 0x10], rsi; mov [rsp + 8], edi; call`.
const SEVERAL: &[u8] =
    b"\x48\x83\xec\x28\x48\x89\x54\x24\x18\x48\x89\x74\x24\x10\x89\x7c\x24\x08\xe8";
/// The first two of these.
const SKIPPED: usize = 9;
/// The call would have to wait, as `inner.s` has it.
const WAITS: isize = isize::MIN;

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

/// # Safety
/// As of the C library's.
unsafe extern "C-unwind" fn try_read(fd: i32, to: usize, bytes: usize) -> isize {
    if !is_ready(fd, libc::POLLIN, |kind, length| kind == libc::S_IFREG && length > 0) {
        return WAITS;
    }
    // SAFETY: the caller vouches for the arguments.
    unsafe { read(fd, to, bytes) }
}

/// # Safety
/// As of the C library's.
unsafe extern "C-unwind" fn try_write(fd: i32, from: usize, bytes: usize) -> isize {
    // A pipe that is ready has room for so much.
    let fits = bytes <= libc::PIPE_BUF;
    if !is_ready(fd, if fits { libc::POLLOUT } else { 0 }, |kind, _| kind == libc::S_IFREG) {
        return WAITS;
    }
    // SAFETY: the caller vouches for the arguments.
    unsafe { write(fd, from, bytes) }
}

/// Whether a call would not have to wait, if nobody else is faster: as `is_always` says of a file's
/// kind and length, or as one of `events` is there. Files of the system's own, that tell no length,
/// may wait; and a question would take what they tell once.
fn is_ready(fd: i32, events: i16, is_always: impl Fn(u32, i64) -> bool) -> bool {
    if is_confined() {
        return false;
    }
    let mut found = MaybeUninit::<libc::stat>::zeroed();
    let mut asked = libc::pollfd { fd, events, revents: 0 };
    let args = [fd as usize, found.as_mut_ptr().addr(), 0, 0, 0, 0];
    // SAFETY: both structures are here, and zeros are values of them.
    unsafe {
        if raw_syscall(libc::SYS_fstat as usize, args) != 0 {
            return false;
        }
        let found = found.assume_init();
        match found.st_mode & libc::S_IFMT {
            kind if is_always(kind, found.st_size) => true,
            libc::S_IFIFO | libc::S_IFSOCK | libc::S_IFCHR if events != 0 => {
                let args = [(&raw mut asked).addr(), 1, 0, 0, 0, 0];
                raw_syscall(libc::SYS_poll as usize, args) == 1
            }
            _ => false,
        }
    }
}

/// Has the C library's own calls of `read` and `write` ask the hook, as its exported ones do, where
/// that can be done.
///
/// # Safety
/// No other thread runs, and the caller is a library that exports [`crate::export_wrappers`].
pub unsafe fn lead_inner_calls() {
    let Ok(memory) = File::options().write(true).open("/proc/self/mem") else { return };
    let (read_several, write_several) = (uzram_dispatch_inner_read, uzram_dispatch_inner_write);
    lead_function(&memory, c"read", READS, [read, read_several], &REST_OF_READ);
    lead_function(&memory, c"write", WRITES, [write, write_several], &REST_OF_WRITE);
}

/// Leads a function of one thread, and of several, to `ours`.
fn lead_function(
    memory: &File,
    name: &CStr,
    calls: &[u8],
    ours: [Transfer; 2],
    rest: &AtomicUsize,
) {
    // SAFETY: the name is a string. What is found is what this library stands in for.
    let function = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) } as usize;
    let mut code = [0; CODE];
    if !read_memory(function, &mut code) {
        return;
    }
    let Some((alone, several)) = places(&code, calls) else { return };
    rest.store(function + several + SKIPPED, Relaxed);
    lead(memory, function + alone, ours[0]);
    lead(memory, function + several, ours[1]);
}

/// Returns where the call of one thread lies, and what several threads begin with.
fn places(code: &[u8], calls: &[u8]) -> Option<(usize, usize)> {
    let place = |part: &[u8]| code.windows(part.len()).position(|window| window == part);
    let (alone, several) = (place(calls).filter(|place| *place <= TEST_MAX)?, place(SEVERAL)?);
    let &[branch, by] = code[..alone].last_chunk()?;
    (BRANCHES.contains(&branch) && alone + usize::from(by) == several).then_some((alone, several))
}

/// Writes a jump to `ours`, as a debugger does: the mapping stays as it is.
fn lead(memory: &File, place: usize, ours: Transfer) {
    let end = place + JUMP_BYTES;
    let Ok(distance) = i32::try_from((ours as usize).wrapping_sub(end) as isize) else { return };
    let mut jump = [JUMP; JUMP_BYTES];
    jump[1..].copy_from_slice(&distance.to_ne_bytes());
    // Where the system refuses it nothing is written.
    let _refused = memory.write_all_at(&jump, place as u64);
}
