//! Filters of system calls that refuse calls of the runtime (pl-28).
//!
//! ```text
//!   calls of the runtime that the filter allows -> the process
//!     all                                       -> is managed as before
//!     those that evict and fill blocks          -> is managed, has no thread of the runtime, and
//!                                                  executes programs without a host
//!     fewer, or the strict mode                 -> leaves the runtime, if it has one thread
//! ```
//! A process that leaves has all of its memory, and installs the filter itself.

use crate::filter::Filter;
use crate::needs::{Effect, SET_DISPATCH};
use crate::program::Program;
use crate::say::say;
use dispatch::{Call, Step, system};
use std::ffi::c_int;

/// The first argument of `prctl(PR_SET_SECCOMP)`, and of `seccomp`, for a filter.
const PRCTL_FILTER: usize = libc::SECCOMP_MODE_FILTER as usize;
const SECCOMP_FILTER: usize = libc::SECCOMP_SET_MODE_FILTER as usize;
const PRCTL_STRICT: usize = libc::SECCOMP_MODE_STRICT as usize;
const SECCOMP_STRICT: usize = libc::SECCOMP_SET_MODE_STRICT as usize;

/// A restriction of system calls.
enum Restriction {
    Strict,
    /// The filter that is described at this address.
    Filter(usize),
}

impl Restriction {
    /// Returns the restriction that a call asks for.
    fn of(number: usize, args: &[usize; 6]) -> Option<Self> {
        let [first, second, third, ..] = *args;
        match (number as i64, first) {
            (libc::SYS_seccomp, SECCOMP_STRICT) => Some(Restriction::Strict),
            (libc::SYS_seccomp, SECCOMP_FILTER) => Some(Restriction::Filter(third)),
            (libc::SYS_prctl, option) if option as c_int == libc::PR_SET_SECCOMP => match second {
                PRCTL_STRICT => Some(Restriction::Strict),
                PRCTL_FILTER => Some(Restriction::Filter(third)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns the filter, if it can be read.
    fn filter(&self) -> Option<Filter> {
        match self {
            Restriction::Filter(address) => Filter::read(*address),
            Restriction::Strict => None,
        }
    }

    /// Returns the effect. The kernel accepts no filter of an ordinary user that may get new
    /// rights, and none that is not sound.
    fn effect(&self) -> Effect {
        if matches!(self, Restriction::Strict) {
            return Effect::Refuses;
        }
        let asked = [libc::PR_GET_NO_NEW_PRIVS as usize, 0, 0, 0, 0, 0];
        let is_permitted =
            system(libc::SYS_prctl, asked) == Ok(1) || system(libc::SYS_geteuid, [0; 6]) == Ok(0);
        let filter = self.filter().filter(|_| is_permitted);
        filter.and_then(|filter| Effect::of(&filter)).unwrap_or(Effect::None)
    }
}

/// Changes a call that installs a filter, so that the kernel dispatches the calls of new threads.
fn allow_dispatch(call: &mut Call, filter: Option<Filter>) {
    let allowed = (libc::SYS_prctl, SET_DISPATCH as u32, dispatch::raw_syscall_address());
    let address = filter.and_then(|filter| filter.allowing(allowed, call.room()));
    if let Some(address) = address {
        let [first, second, _, rest @ ..] = call.args();
        let [d, e, f] = rest;
        call.set_args([first, second, address, d, e, f]);
    }
}

/// Returns whether a call makes the kernel refuse calls of the runtime, so that it avoids them.
pub(crate) fn confines(number: usize, args: &[usize; 6]) -> bool {
    Restriction::of(number, args).is_some_and(|it| it.effect() != Effect::None)
}

impl Program {
    /// Prepares a call that restricts the calls of this process. Returns its step if the process
    /// has to leave the runtime before.
    pub(crate) fn restrict(&self, call: &mut Call) -> Option<Step> {
        let restriction = Restriction::of(call.number(), &call.args())?;
        let effect = restriction.effect();
        let process = system(libc::SYS_getpid, [0; 6]).unwrap_or(0);
        if effect == Effect::Confines(true) && self.is_heard() {
            say(&format_args!(
                "process {process} refuses itself system calls that a host needs (seccomp): \
                 programs that it executes run without a limit"
            ));
        }
        if effect != Effect::Refuses || !self.is_alone() {
            if effect != Effect::None {
                allow_dispatch(call, restriction.filter());
            }
            return None;
        }
        self.space.lock().leave_executable(&self.arena);
        dispatch::release_all_code();
        if let Err(failed) = self.make_all_plain() {
            self.manage_again();
            return Some(Step::Answer(failed));
        }
        let is_heard = self.is_heard();
        self.arena.hush(&self.figures());
        self.arena.rest();
        if is_heard {
            say(&format_args!(
                "process {process} refuses itself the system calls by which memory is compressed \
                 (seccomp): it runs without a limit from now on"
            ));
        }
        Some(Step::LeaveBefore)
    }
}
