//! Reissues calls that a signal for the hook has ended.

use crate::call::Call;
use crate::deliver::park;
use crate::hook::hook;
use crate::mask::{LAST, bit, is_owned};
use crate::signal_calls::pending_in_kernel;
use crate::thread::Thread;
use crate::x86_64::frame::{CALL_BYTES, Context};
use crate::x86_64::instructions::{Stage, stage};

const RESTART: isize = libc::SYS_restart_syscall as isize;
const EINTR: isize = -(libc::EINTR as isize);

/// Returns whether the kernel restarts a call after a handler with SA_RESTART.
fn is_restarted(call: &Call) -> bool {
    let wait = calls::spec(call.number()).and_then(|spec| spec.wait);
    wait.is_some_and(|wait| wait.restarts.holds(&call.args()))
}

/// Continues a call that a signal for the hook has interrupted. `was_parked` is true if the hook
/// was notified that the thread waits.
pub(crate) fn go_on(thread: &Thread, context: &mut Context, call: &mut Call, was_parked: bool) {
    if was_parked {
        park(call);
    }
    if call.is_repeated() {
        repeat(thread, context, call);
    }
}

/// Reissues a call that a signal for the hook has ended. If a pending signal for the program ends
/// the call as well, the call fails with EINTR.
fn repeat(thread: &Thread, context: &mut Context, call: &mut Call) {
    let number = call.number();
    let at = stage(context.instruction());
    let is_ended = at == Some(Stage::Answered) && context.result() == EINTR;
    let is_rewound = stage(context.instruction() + CALL_BYTES) == Some(Stage::Answered);
    match (is_ended, has_pending(thread, context.mask, call)) {
        (true, false) => {
            hook().repeats(call);
            context.rewind(number);
        }
        // The kernel has rewound the call to restart it, but the pending signal must end the call.
        (false, true) if is_rewound => {
            context.set_instruction(context.instruction() + CALL_BYTES);
            context.set_result(EINTR);
        }
        // The process was stopped during the call. The kernel's state for continuing the call is
        // lost when the handler returns.
        (false, false) if is_rewound && context.result() == RESTART => {
            hook().repeats(call);
            context.set_result(number as isize);
        }
        _ => {}
    }
}

/// Returns whether a pending signal ends a call with EINTR if the thread's mask is `mask`.
fn has_pending(thread: &Thread, mask: u64, call: &Call) -> bool {
    let ends = |signal: i32| {
        let action = thread.actions().get(signal);
        action.is_handler() && !(action.has(libc::SA_RESTART) && is_restarted(call))
    };
    let ready = pending_in_kernel().unwrap_or(0) & !mask;
    (1..=LAST).any(|signal| bit(signal) & ready != 0 && !is_owned(signal) && ends(signal))
}
