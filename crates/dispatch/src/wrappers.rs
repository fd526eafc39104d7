//! Functions of the C library that programs call most, without a signal: a library that is
//! preloaded exports them by [`export_wrappers`](crate::export_wrappers).
//!
//! They ask [`Hook::direct`](crate::Hook::direct), make the call, and set `errno`. Those that are
//! points of cancellation in the C library are here, and any may be unwound, as a thread that may
//! be cancelled anywhere can be there.
//!
//! # Safety
//! Each does what the C library's function of its name does, with the arguments as they are.
#![allow(unsafe_code)]

use crate::cancel::{cancellable, is_alone};
use crate::hook::{Direct, get};
use crate::x86_64::instructions::{dispatched_syscall, raw_syscall};

const EFAULT: isize = -(libc::EFAULT as isize);
/// Results from here on are errors.
const ERRORS: isize = -4095;

/// Makes a call, directly if the hook has nothing to do for it.
///
/// # Safety
/// As of the call.
#[inline]
pub unsafe fn call(number: i64, args: [usize; 6]) -> isize {
    let issue = if is_cancellation_point(number) && !is_alone() { cancellable } else { issue };
    let number = number as usize;
    let hook = get();
    let how = hook.map_or(Direct::Dispatch, |hook| hook.direct(number, &args));
    // SAFETY: the caller vouches for the call. Where memory was away nothing is lost by asking
    // once more, but what `Hook::direct` has let go on knowing so.
    let result = unsafe {
        let result = issue(number, &args, how);
        if how == Direct::Held {
            hook.inspect(|hook| hook.let_go());
        }
        let may_be_away = matches!(how, Direct::Try | Direct::Held);
        if may_be_away && result == EFAULT {
            issue(number, &args, Direct::Dispatch)
        } else {
            result
        }
    };
    if !(ERRORS..0).contains(&result) {
        return result;
    }
    // SAFETY: the C library's, of this thread.
    unsafe { *libc::__errno_location() = -result as i32 };
    -1
}

/// Whether the C library's functions that make this call are points of cancellation.
const fn is_cancellation_point(number: i64) -> bool {
    matches!(
        number,
        libc::SYS_read
            | libc::SYS_write
            | libc::SYS_pread64
            | libc::SYS_pwrite64
            | libc::SYS_readv
            | libc::SYS_writev
            | libc::SYS_recvfrom
            | libc::SYS_sendto
            | libc::SYS_poll
            | libc::SYS_openat
            | libc::SYS_close
    )
}

/// Makes a call that is none.
///
/// # Safety
/// As the call itself; it does not return twice.
unsafe fn issue(number: usize, args: &[usize; 6], how: Direct) -> isize {
    // SAFETY: the caller vouches for the call.
    unsafe {
        match how {
            Direct::Issue | Direct::Try | Direct::Held => raw_syscall(number, *args),
            Direct::Dispatch => dispatched_syscall(number, *args),
        }
    }
}

/// Defines the functions that programs call in place of the C library's. Behind the number of a
/// call stand its arguments, where they are not the function's; the others are 0.
#[macro_export]
macro_rules! export_wrappers {
    () => {
        $crate::export_wrappers! {
            read: SYS_read(fd: i32, to: *mut u8, bytes: usize);
            write: SYS_write(fd: i32, from: *const u8, bytes: usize);
            pread: SYS_pread64(fd: i32, to: *mut u8, bytes: usize, at: i64);
            pread64: SYS_pread64(fd: i32, to: *mut u8, bytes: usize, at: i64);
            pwrite: SYS_pwrite64(fd: i32, from: *const u8, bytes: usize, at: i64);
            pwrite64: SYS_pwrite64(fd: i32, from: *const u8, bytes: usize, at: i64);
            readv: SYS_readv(fd: i32, parts: *const u8, count: i32);
            writev: SYS_writev(fd: i32, parts: *const u8, count: i32);
            recvfrom: SYS_recvfrom(
                fd: i32, to: *mut u8, bytes: usize, flags: i32, from: *mut u8, length: *mut u32
            );
            sendto: SYS_sendto(
                fd: i32, from: *const u8, bytes: usize, flags: i32, to: *const u8, length: u32
            );
            recv: SYS_recvfrom(fd: i32, to: *mut u8, bytes: usize, flags: i32);
            send: SYS_sendto(fd: i32, from: *const u8, bytes: usize, flags: i32);
            poll: SYS_poll(fds: *mut u8, count: u64, milliseconds: i32);
            lseek: SYS_lseek(fd: i32, by: i64, from: i32);
            lseek64: SYS_lseek(fd: i32, by: i64, from: i32);
            close: SYS_close(fd: i32);
            access: SYS_access(path: *const u8, mode: i32);
            readlink: SYS_readlink(path: *const u8, to: *mut u8, bytes: usize);
            // Programs that make no file give no mode; what is in its place has no effect.
            openat: SYS_openat(at: i32, path: *const u8, flags: i32, mode: u32);
            openat64: SYS_openat(at: i32, path: *const u8, flags: i32, mode: u32);
            open: SYS_openat(path: *const u8, flags: i32, mode: u32)
                [libc::AT_FDCWD, path, flags, mode];
            open64: SYS_openat(path: *const u8, flags: i32, mode: u32)
                [libc::AT_FDCWD, path, flags, mode];
            fstatat: SYS_newfstatat(at: i32, path: *const u8, to: *mut u8, flags: i32);
            fstatat64: SYS_newfstatat(at: i32, path: *const u8, to: *mut u8, flags: i32);
            stat: SYS_newfstatat(path: *const u8, to: *mut u8) [libc::AT_FDCWD, path, to];
            stat64: SYS_newfstatat(path: *const u8, to: *mut u8) [libc::AT_FDCWD, path, to];
            lstat: SYS_newfstatat(path: *const u8, to: *mut u8)
                [libc::AT_FDCWD, path, to, libc::AT_SYMLINK_NOFOLLOW];
            lstat64: SYS_newfstatat(path: *const u8, to: *mut u8)
                [libc::AT_FDCWD, path, to, libc::AT_SYMLINK_NOFOLLOW];
            fstat: SYS_newfstatat(fd: i32, to: *mut u8)
                [fd, c"".as_ptr(), to, libc::AT_EMPTY_PATH];
            fstat64: SYS_newfstatat(fd: i32, to: *mut u8)
                [fd, c"".as_ptr(), to, libc::AT_EMPTY_PATH];
        }
    };
    (@given [$($given:expr),*] $($arg:ident),*) => { [$($given as usize),*] };
    (@given $($arg:ident),*) => { [$($arg as usize),*] };
    ($(
        $name:ident: $number:ident($($arg:ident: $kind:ty),*) $([$($given:expr),*])?;
    )*) => {$(
        /// As the C library's, by way of the hook.
        ///
        /// # Safety
        /// As of the C library's.
        // SAFETY: it does what the function does that it stands in for.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($arg: $kind),*) -> isize {
            let mut args = [0; 6];
            let given = $crate::export_wrappers!(@given $([$($given),*])? $($arg),*);
            args[..given.len()].copy_from_slice(&given);
            // SAFETY: the caller vouches for the arguments.
            unsafe { $crate::wrappers::call(libc::$number, args) }
        }
    )*};
}
