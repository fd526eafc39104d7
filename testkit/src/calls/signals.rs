//! System calls on signals.

use super::trial::{Case, Need, Trial, me, must};
use libc::*;

/// The set that contains SIGUSR1, as the kernel represents it.
const USER_1: [u8; 8] = (1_u64 << (SIGUSR1 - 1)).to_le_bytes();

/// Makes SIGUSR1 pending and blocked.
fn pending() {
    must(SYS_rt_sigprocmask, &[SIG_BLOCK as usize, USER_1.as_ptr() as usize, 0, 8]);
    // SAFETY: the signal is blocked, so that it becomes pending and has no other effect.
    unsafe { raise(SIGUSR1) };
}

extern "C" fn nothing(_: c_int) {}

/// Returns the data of a queued SIGCHLD: number, errno and code.
fn info(trial: &mut Trial) -> usize {
    let mut info = [0; 128];
    info[..4].copy_from_slice(&SIGCHLD.to_ne_bytes());
    info[8..12].copy_from_slice(&(-1_i32).to_ne_bytes());
    trial.place(&info, Need::Part)
}

pub const CASES: &[Case] = &[
    ("rt_sigaction", |t| vec![SIGUSR1 as usize, t.zeros(32), t.output(32), 8]),
    ("rt_sigprocmask", |t| vec![SIG_BLOCK as usize, t.zeros(8), t.output(8), 8]),
    ("rt_sigpending", |t| vec![t.output(8), 8]),
    ("rt_sigtimedwait", |t| {
        pending();
        vec![t.input(&USER_1), t.output(128), t.zeros(16), 8]
    }),
    ("rt_sigsuspend", |t| {
        // SAFETY: the handler has the type that `signal` requires, and does nothing.
        unsafe { signal(SIGUSR1, nothing as *const () as usize) };
        pending();
        vec![t.zeros(8), 8]
    }),
    ("rt_sigqueueinfo", |t| vec![me(), SIGCHLD as usize, info(t)]),
    ("rt_tgsigqueueinfo", |t| vec![me(), me(), SIGCHLD as usize, info(t)]),
    ("pidfd_send_signal", |t| vec![must(SYS_pidfd_open, &[me(), 0]), SIGCHLD as usize, info(t), 0]),
    ("sigaltstack", |t| {
        let stack = t.room(16384, Need::Maybe);
        vec![t.words(&[stack, 0, 16384]), t.output(24)]
    }),
    ("signalfd", |t| vec![usize::MAX, t.input(&USER_1), 8]),
    ("signalfd4", |t| vec![usize::MAX, t.input(&USER_1), 8, 0]),
];
