//! Calls that a signal for the hook has ended, and that are issued again.
//!
//! # Safety
//! The kernel writes only to a local set of signals.
#![allow(unsafe_code)]

use crate::call::Call;
use crate::deliver::park;
use crate::hook::hook;
use crate::mask::{BYTES, LAST, bit, is_owned};
use crate::thread::Thread;
use crate::x86_64::frame::{CALL_BYTES, Context};
use crate::x86_64::instructions::{Stage, raw_syscall, stage};

const RESTART: isize = libc::SYS_restart_syscall as isize;
const EINTR: isize = -(libc::EINTR as isize);

/// Returns whether the kernel restarts a call after a handler with SA_RESTART.
fn is_restarted(call: &Call) -> bool {
    match call.number() as i64 {
        libc::SYS_read
        | libc::SYS_readv
        | libc::SYS_write
        | libc::SYS_writev
        | libc::SYS_recvfrom
        | libc::SYS_recvmsg
        | libc::SYS_sendto
        | libc::SYS_connect
        | libc::SYS_accept
        | libc::SYS_accept4
        | libc::SYS_wait4
        | libc::SYS_waitid
        | libc::SYS_flock => true,
        // The kernel restarts these calls only without a timeout.
        libc::SYS_futex | libc::SYS_futex_waitv => call.args()[3] == 0,
        _ => false,
    }
}

/// Continues a call that a signal for the hook has interrupted. `was_parked` is true if the thread
/// was at a safepoint.
pub(crate) fn go_on(thread: &Thread, context: &mut Context, call: &mut Call, was_parked: bool) {
    if was_parked {
        park(call);
    }
    if call.is_repeated() {
        repeat(thread, context, call);
    }
}

/// Reissues a call that a signal for the hook has ended, unless a pending signal for the program
/// ends the call as well.
fn repeat(thread: &Thread, context: &mut Context, call: &mut Call) {
    let number = call.number();
    let at = stage(context.instruction());
    let is_ended = at == Some(Stage::Answered) && context.result() == EINTR;
    let is_rewound = stage(context.instruction() + CALL_BYTES) == Some(Stage::Answered);
    match (is_ended, thread.has_pending(context.mask, call)) {
        (true, false) => {
            hook().repeats(call);
            context.rewind(number);
        }
        // The kernel has rewound the call to restart it, but the pending signal must end the call.
        (false, true) if is_rewound => {
            context.set_instruction(context.instruction() + CALL_BYTES);
            context.set_result(EINTR);
        }
        // The process was stopped during the call, and the return from the handler discards the
        // kernel's state for the rest of the call.
        (false, false) if is_rewound && context.result() == RESTART => {
            hook().repeats(call);
            context.set_result(number as isize);
        }
        _ => {}
    }
}

impl Thread {
    /// Returns whether a signal is pending that will end a call with EINTR when `mask` is the
    /// thread's mask.
    fn has_pending(&self, mask: u64, call: &Call) -> bool {
        let mut pending = 0u64;
        let args = [(&raw mut pending).addr(), BYTES, 0, 0, 0, 0];
        // SAFETY: the kernel writes only to the local set.
        unsafe { raw_syscall(libc::SYS_rt_sigpending as usize, args) };
        let ends = |signal: i32| {
            let action = self.actions().get(signal);
            action.is_handler() && !(action.has(libc::SA_RESTART) && is_restarted(call))
        };
        let ready = pending & !mask;
        (1..=LAST).any(|signal| bit(signal) & ready != 0 && !is_owned(signal) && ends(signal))
    }
}
