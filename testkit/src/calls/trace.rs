//! `ptrace` of a stopped child.

use super::trial::{Case, Need, Trial, must};
use libc::*;

/// Returns a traced child that has stopped. The child exits when the call has returned.
fn stopped(trial: &mut Trial) -> usize {
    // SAFETY: the child makes only system calls, and never returns.
    let child = unsafe {
        let child = fork();
        if child == 0 {
            ptrace(PTRACE_TRACEME, 0, 0, 0);
            raise(SIGSTOP);
            _exit(0);
        }
        child as usize
    };
    must(SYS_wait4, &[child, 0, 0, 0]);
    trial.after(move || {
        must(SYS_kill, &[child, SIGKILL as usize]);
        must(SYS_wait4, &[child, 0, 0, 0]);
    });
    child
}

pub const CASES: &[Case] = &[
    ("ptrace PEEKDATA", |t| vec![2, stopped(t), CASES.as_ptr() as usize, t.output(8)]),
    ("ptrace PEEKUSER", |t| vec![3, stopped(t), 0, t.output(8)]),
    ("ptrace GETREGS", |t| vec![12, stopped(t), 0, t.output(216)]),
    ("ptrace SETREGS", |t| {
        let child = stopped(t);
        let mut registers = [0_u8; 216];
        must(SYS_ptrace, &[12, child, 0, registers.as_mut_ptr() as usize]);
        vec![13, child, 0, t.input(&registers)]
    }),
    ("ptrace GETFPREGS", |t| vec![14, stopped(t), 0, t.output(512)]),
    ("ptrace GETEVENTMSG", |t| vec![0x4201, stopped(t), 0, t.output(8)]),
    ("ptrace GETSIGINFO", |t| vec![0x4202, stopped(t), 0, t.output(128)]),
    ("ptrace SETSIGINFO", |t| vec![0x4203, stopped(t), 0, t.place(&[0; 128], Need::Part)]),
    ("ptrace GETREGSET", |t| {
        let registers = t.output(216);
        vec![0x4204, stopped(t), 1, t.words(&[registers, 216])]
    }),
    ("ptrace GETSIGMASK", |t| vec![0x420a, stopped(t), 8, t.output(8)]),
    ("ptrace SETSIGMASK", |t| vec![0x420b, stopped(t), 8, t.zeros(8)]),
    ("ptrace GET_SYSCALL_INFO", |t| vec![0x420e, stopped(t), 24, t.output(24)]),
    ("ptrace PEEKSIGINFO", |t| vec![0x4209, stopped(t), t.zeros(16), 0]),
];
