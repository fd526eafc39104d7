//! Seccomp filters that refuse system calls of the runtime (pl-28).
//!
//! ```text
//!   calls of the runtime that the filter allows -> the process
//!     all                                       -> is managed as before
//!     those that evict and fill blocks          -> is managed, has no thread of the runtime, and
//!                                                  executes programs without a host
//!     fewer, or the strict mode                 -> leaves the runtime, if it has one thread
//! ```
//! A process that leaves the runtime first makes all of its memory resident, and then installs the
//! filter.

use crate::filter::Filter;
use crate::kernel::{CAP_SYS_ADMIN, SECCOMP_FLAGS};
use crate::leaving;
use crate::needs::Effect;
use crate::program::Program;
use crate::say::say;
use crate::traced;
use dispatch::{Call, Step, system};
use inject::has_capability;
use std::ffi::c_int;
use std::sync::atomic::Ordering::Relaxed;

/// The argument with which a call sets a filter or the strict mode: the second argument of `prctl`,
/// or the operation of `seccomp`.
const PRCTL_FILTER: usize = libc::SECCOMP_MODE_FILTER as usize;
const SECCOMP_FILTER: usize = libc::SECCOMP_SET_MODE_FILTER as usize;
const PRCTL_STRICT: usize = libc::SECCOMP_MODE_STRICT as usize;
const SECCOMP_STRICT: usize = libc::SECCOMP_SET_MODE_STRICT as usize;

enum Restriction {
    Strict,
    /// The filter whose description is at this address.
    Filter(usize),
}

impl Restriction {
    /// Returns the restriction that a call requests. Returns `None` for invalid arguments, which
    /// programs pass to probe the kernel.
    fn of(number: usize, args: &[usize; 6]) -> Option<Self> {
        let [first, second, third, ..] = *args;
        match (number as i64, first) {
            (libc::SYS_seccomp, SECCOMP_STRICT) if (second, third) == (0, 0) => {
                Some(Restriction::Strict)
            }
            (libc::SYS_seccomp, SECCOMP_FILTER) if second & !SECCOMP_FLAGS == 0 => {
                Some(Restriction::Filter(third))
            }
            (libc::SYS_prctl, option) if option as c_int == libc::PR_SET_SECCOMP => match second {
                PRCTL_STRICT => Some(Restriction::Strict),
                PRCTL_FILTER => Some(Restriction::Filter(third)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns the filter. Returns `None` for the strict mode, or if the filter can't be read.
    fn filter(&self) -> Option<Filter> {
        match self {
            Restriction::Filter(address) => Filter::read(*address),
            Restriction::Strict => None,
        }
    }

    /// Returns the effect of the restriction on the runtime. If `is_confined` is true, the process
    /// has installed a filter before, so it is allowed to install another filter.
    fn effect(&self, is_confined: bool) -> Effect {
        let ask = |option: c_int| system(libc::SYS_prctl, [option as usize, 0, 0, 0, 0, 0]);
        let filter = match self {
            // If a filter is installed, the kernel refuses the strict mode.
            Restriction::Strict if is_confined || ask(libc::PR_GET_SECCOMP) != Ok(0) => None,
            Restriction::Strict => return Effect::Refuses,
            Restriction::Filter(_) => self.filter(),
        };
        let is_permitted = || {
            is_confined || ask(libc::PR_GET_NO_NEW_PRIVS) == Ok(1) || has_capability(CAP_SYS_ADMIN)
        };
        let filter = filter.filter(|_| is_permitted());
        filter.and_then(|filter| Effect::of(&filter)).unwrap_or(Effect::None)
    }
}

/// Changes a call that installs a filter, so that the kernel still dispatches the calls of new
/// threads. Returns whether the call was changed.
fn allow_dispatch(call: &mut Call, filter: Option<Filter>) -> bool {
    let allowed = (
        libc::SYS_prctl,
        dispatch::PR_SET_SYSCALL_USER_DISPATCH as u32,
        dispatch::raw_syscall_address(),
    );
    let address = filter.and_then(|filter| filter.allowing(allowed, call.room()));
    if let Some(address) = address {
        let [first, second, _, d, e, f] = call.args();
        call.set_args([first, second, address, d, e, f]);
    }
    address.is_some()
}

/// Returns whether a call installs a restriction that refuses calls of the runtime.
pub(crate) fn is_confining(program: &Program, number: usize, args: &[usize; 6]) -> bool {
    let Some(restriction) = Restriction::of(number, args) else { return false };
    let effect = restriction.effect(program.is_confined.load(Relaxed));
    if let Effect::Confines { reports: false, .. } | Effect::Refuses = effect {
        program.is_silent.store(true, Relaxed);
    }
    effect != Effect::None
}

/// Prepares a call that restricts the system calls of this process: changes a filter so that
/// dispatch still works, or makes the process leave the runtime. If the process must leave before
/// the call, returns [`Step::LeaveBefore`], or a [`Step::Answer`] with the error that prevents
/// this. Otherwise returns `None`.
pub(crate) fn restrict(program: &Program, call: &mut Call) -> Option<Step> {
    let restriction = Restriction::of(call.number(), &call.args())?;
    let effect = restriction.effect(program.is_confined.load(Relaxed));
    let filter = restriction.filter();
    let may_say = program.may_say();
    let process = system(libc::SYS_getpid, [0; 6]).unwrap_or(0);
    if let Effect::Confines { executes, .. } = effect {
        if executes && may_say {
            say(&format_args!(
                "process {process} refuses itself system calls that a host needs (seccomp): \
                 programs that it executes run without a limit"
            ));
        }
        if allow_dispatch(call, filter) || !traced::is_alone(program) {
            return None;
        }
    } else if effect == Effect::None {
        return None;
    } else if !traced::is_alone(program) {
        allow_dispatch(call, filter);
        return None;
    }
    if let Err(failed) = leaving::hand_over(program) {
        return Some(Step::Answer(failed));
    }
    if may_say {
        say(&format_args!(
            "process {process} refuses itself the system calls by which memory is compressed \
             (seccomp): it runs without a limit from now on"
        ));
    }
    Some(Step::LeaveBefore)
}
