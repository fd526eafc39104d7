//! Handles the program's system calls about signals. The program sees the masks, actions and signal
//! stacks that it has set. The kernel uses masks, actions and stacks of this crate.

use crate::actions::Action;
use crate::call::Call;
use crate::mask::{self, BYTES, LAST, OWNED};
use crate::system::system;
use crate::thread::Thread;
use crate::user::{self, EFAULT};
use crate::x86_64::frame::{AUTODISARM, Context, NO_STACK, Stack};

pub(crate) const EINVAL: isize = -(libc::EINVAL as isize);

/// Returns 0 if `result` is `Ok`, otherwise the negative error number.
fn number(result: Result<(), isize>) -> isize {
    result.err().unwrap_or(0)
}

/// Handles `rt_sigaction`.
pub(crate) fn sigaction(thread: &Thread, [signal, new, old, bytes, ..]: [usize; 6]) -> isize {
    let signal = signal as i32;
    if bytes != BYTES || !(1..=LAST).contains(&signal) {
        return EINVAL;
    }
    let set = || -> Result<(), isize> {
        let before = if new == 0 {
            thread.actions().get(signal)
        } else {
            let new: Action = user::read(new)?;
            if matches!(signal, libc::SIGKILL | libc::SIGSTOP) {
                return Err(EINVAL);
            }
            thread.actions().set(signal, &new)?
        };
        if old == 0 { Ok(()) } else { user::write(old, &before) }
    };
    number(set())
}

/// Handles `rt_sigprocmask`.
pub(crate) fn sigprocmask(
    thread: &Thread,
    context: &mut Context,
    [how, new, old, bytes, ..]: [usize; 6],
) -> isize {
    if bytes != BYTES {
        return EINVAL;
    }
    let before = thread.mask(context);
    if new != 0 {
        let Ok(set) = user::read::<u64>(new) else { return EFAULT };
        let Some(after) = mask::changed(before, how, set) else { return EINVAL };
        thread.set_mask(context, after);
    }
    if old == 0 { 0 } else { number(user::write(old, &before)) }
}

/// Handles `sigaltstack`.
pub(crate) fn sigaltstack(thread: &Thread, context: &Context, [new, old, ..]: [usize; 6]) -> isize {
    let before = thread.altstack.get();
    let is_there = before.is_on() && before.holds(context.stack_pointer());
    let set = || -> Result<(), isize> {
        if new != 0 {
            let given: Stack = user::read(new)?;
            if is_there {
                return Err(-(libc::EPERM as isize));
            }
            thread.altstack.set(match given.flags & !AUTODISARM {
                libc::SS_DISABLE => NO_STACK,
                0 | libc::SS_ONSTACK if given.bytes < libc::MINSIGSTKSZ => {
                    return Err(-(libc::ENOMEM as isize));
                }
                0 | libc::SS_ONSTACK => given,
                _ => return Err(EINVAL),
            });
        }
        if old == 0 {
            return Ok(());
        }
        let state = match before.is_on() {
            false => libc::SS_DISABLE,
            true if is_there => libc::SS_ONSTACK,
            true => 0,
        };
        user::write(old, &Stack { flags: state | before.flags & AUTODISARM, ..before })
    };
    number(set())
}

/// Returns the signals that are pending for this thread in the kernel.
///
/// # Errors
/// Fails if a filter of the program refuses the call.
pub(crate) fn pending_in_kernel() -> Result<u64, isize> {
    let mut pending = 0u64;
    let args = [(&raw mut pending).addr(), BYTES, 0, 0, 0, 0];
    system(libc::SYS_rt_sigpending, args).map(|_| pending)
}

/// Handles `rt_sigpending`. The result includes the signals whose delivery this crate has deferred.
pub(crate) fn sigpending(thread: &Thread, [to, bytes, ..]: [usize; 6]) -> isize {
    if bytes != BYTES {
        return EINVAL;
    }
    let pending = pending_in_kernel().map(|pending| pending | thread.pending.get());
    number(pending.and_then(|pending| user::write(to, &pending)))
}

/// Replaces a call's signal mask by a copy without the owned signals.
pub(crate) fn pass_mask(call: &mut Call) {
    let Some(place) = calls::spec(call.number()).and_then(|spec| spec.signal_mask) else { return };
    let (args, nth) = (call.args(), usize::from(place.argument));
    let (mut at, mut bytes) = (args[nth], args[usize::from(place.bytes)]);
    if place.is_behind {
        let Ok([mask, length]) = user::read::<[usize; 2]>(at) else { return };
        (at, bytes) = (mask, length);
    }
    // If the mask or its length is invalid, the kernel returns the error.
    let Some(mask) = (at != 0 && bytes == BYTES).then(|| user::read::<u64>(at).ok()).flatten()
    else {
        return;
    };
    if place.is_temporary {
        call.temporary = Some(mask::allowed(mask));
    }
    let (own, behind) = call.keep_mask(mask & !OWNED);
    call.set_arg(nth, if place.is_behind { behind } else { own });
}
