//! The clock of the runtime's own code. The vDSO reads the clock. If the program has disabled the
//! time stamp counter that the vDSO uses, a system call reads the clock.
//!
//! ```text
//!   Instant::now -> clock_gettime, below -> the vDSO
//!                                       '-> a system call, if the program disabled the counter
//! ```
//! # Safety
//! The function `clock_gettime` replaces the C library's function of this name, and has the same
//! contract.
#![allow(unsafe_code)]

use dispatch::system;
use libc::{c_int, clockid_t, timespec};
use rustix::time::ClockId;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// The sizes in pages of the vDSO's data and code (Linux 6.18). The code lies above the data.
const DATA_PAGES: usize = 6;
const CODE_PAGES: usize = 2;

/// Whether a thread of the program may have disabled the time stamp counter (PR_SET_TSC).
static IS_COUNTER_OFF: AtomicBool = AtomicBool::new(false);

/// The address of the vDSO's code, or 0. The address is stored, because an injected host unmaps the
/// stack that contains the auxiliary vector.
pub(crate) static CODE: AtomicUsize = AtomicUsize::new(0);

/// Stores the address of the vDSO, and whether the time stamp counter was disabled before the
/// program started.
pub(crate) fn begin() {
    // SAFETY: the program has not begun, so the vector is unchanged since the kernel or the helper
    // wrote it.
    CODE.store(unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) } as usize, Relaxed);
    let mut state: c_int = 0;
    let args = [libc::PR_GET_TSC as usize, (&raw mut state).addr(), 0, 0, 0, 0];
    if system(libc::SYS_prctl, args).is_ok() && state == libc::PR_TSC_SIGSEGV {
        IS_COUNTER_OFF.store(true, Relaxed);
    }
}

/// If a call is PR_SET_TSC, records that the time stamp counter may be disabled.
pub(crate) fn note(number: usize, args: &[usize; 6]) {
    if number as i64 == libc::SYS_prctl && args[0] as i32 == libc::PR_SET_TSC {
        IS_COUNTER_OFF.store(true, Relaxed);
    }
}

/// Returns the time of CLOCK_MONOTONIC.
pub(crate) fn monotonic() -> Duration {
    let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
    clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Returns the address range of the vDSO, which is empty if there is no vDSO.
pub(crate) fn vdso() -> Range<usize> {
    let page = page::page_size();
    match CODE.load(Relaxed) {
        0 => 0..0,
        code => code.saturating_sub(DATA_PAGES * page)..code + CODE_PAGES * page,
    }
}

/// Stores the time of `clock` in `time`, like the C library's function.
#[unsafe(no_mangle)]
extern "C" fn clock_gettime(clock: clockid_t, time: *mut timespec) -> c_int {
    let known = match clock {
        libc::CLOCK_MONOTONIC => Some(ClockId::Monotonic),
        libc::CLOCK_REALTIME => Some(ClockId::Realtime),
        _ => None,
    };
    match known.filter(|_| !IS_COUNTER_OFF.load(Relaxed)) {
        Some(known) => {
            let now = rustix::time::clock_gettime(known);
            // SAFETY: like callers of the C library's function, the caller passes the address of a
            // `timespec`.
            unsafe { *time = timespec { tv_sec: now.tv_sec, tv_nsec: now.tv_nsec } };
            0
        }
        None => match system(libc::SYS_clock_gettime, [clock as usize, time.addr(), 0, 0, 0, 0]) {
            Ok(_) => 0,
            Err(failed) => {
                // SAFETY: the C library returns a valid address, that of this thread's `errno`.
                unsafe { *libc::__errno_location() = -failed as c_int };
                -1
            }
        },
    }
}
