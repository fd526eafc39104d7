//! Threads that a process with the same memory stops by ptrace, as leak sanitizers do.
//!
//! ```text
//!   PTRACE_ATTACH -> the thread has stopped -> in code of ours? -- no --> the call returns
//!                        ^                          '-- yes -> it continues, and stops again
//! ```
//! di-15: when the `ptrace` call returns, the stopped thread holds no lock or other resource of the
//! hook. The stopped thread is in the program's code, or in a system call that the hook has passed
//! to the kernel. So the tracing process can access any memory without waiting for the stopped
//! thread. The program's `wait4` still reports the stop, because the stop was left waitable.
//!
//! # Safety
//! The program's process traces the thread, so the program could make these calls itself.
#![allow(unsafe_code)]

use crate::block;
use crate::policy::{STOP_PAUSE, STOP_TRIES};
use crate::system::system;
use crate::thread::Thread;
use crate::user::read_memory;
use crate::x86_64::instructions::stage;

fn trace(request: u32, thread: usize, data: usize) -> bool {
    system(libc::SYS_ptrace, [request as usize, thread, 0, data, 0, 0]).is_ok()
}

/// Returns whether a thread has stopped in code of this crate or of the hook. Code of this crate
/// runs on the thread's dispatch block, with the thread pointer that is stored in that block.
/// Returns false for a thread in a system call that the hook has passed to the kernel.
fn is_in_runtime(thread: usize) -> bool {
    // SAFETY: zeros are a valid value of the structure.
    let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    let is_traced = trace(libc::PTRACE_GETREGS, thread, (&raw mut registers).addr());
    let block = block::base((registers.rsp as usize).wrapping_sub(1));
    let mut storage = [0; size_of::<u64>()];
    let is_read = read_memory(block + std::mem::offset_of!(Thread, storage), &mut storage);
    let is_ours = is_read && u64::from_ne_bytes(storage) == registers.fs_base;
    is_traced && is_ours && stage(registers.rip as usize).is_none()
}

/// Waits until a thread stops, and leaves the stop waitable. Returns the signal and event of the
/// stop, or `None` if the thread has ended.
fn wait(thread: usize) -> Option<i32> {
    // SAFETY: zeros are a valid value of the structure.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let options = libc::WEXITED | libc::WSTOPPED | libc::__WALL | libc::WNOWAIT;
    let at = (&raw mut info).addr();
    let args = [libc::P_PID as usize, thread, at, options as usize, 0, 0];
    let has_waited = system(libc::SYS_waitid, args).is_ok();
    // SAFETY: `waitid` succeeded, so the kernel has filled the structure for a child.
    (has_waited && info.si_code == libc::CLD_TRAPPED).then(|| unsafe { info.si_status() })
}

/// If a `ptrace` call has requested a thread's stop, waits until the thread has stopped outside of
/// code of this crate and the hook.
pub(crate) fn settle([request, thread, ..]: [usize; 6]) {
    let request = request as u32;
    // The status of the stop: a signal, with an event for some requests.
    let stop = match request {
        libc::PTRACE_ATTACH => libc::SIGSTOP,
        libc::PTRACE_INTERRUPT => libc::PTRACE_EVENT_STOP << 8 | libc::SIGTRAP,
        _ => return,
    };
    for _ in 0..STOP_TRIES {
        match wait(thread) {
            Some(seen) if seen == stop && !is_in_runtime(thread) => return,
            Some(seen) if seen == stop => {
                trace(libc::PTRACE_CONT, thread, 0);
                let _slept =
                    system(libc::SYS_nanosleep, [(&raw const STOP_PAUSE).addr(), 0, 0, 0, 0, 0]);
                if request == libc::PTRACE_INTERRUPT {
                    trace(libc::PTRACE_INTERRUPT, thread, 0);
                } else {
                    let _sent =
                        system(libc::SYS_tkill, [thread, libc::SIGSTOP as usize, 0, 0, 0, 0]);
                }
            }
            // The thread has stopped because of another signal.
            Some(signal) => _ = trace(libc::PTRACE_CONT, thread, signal as usize & 0x7f),
            None => return,
        }
    }
}
