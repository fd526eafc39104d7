//! The interface of the code that sees every system call first.

use crate::Call;
use std::ops::Range;
#[cfg(target_arch = "x86_64")]
use std::sync::OnceLock;

/// How a call is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The call is issued, with the current contents of [`Call`].
    Issue,
    /// The call is issued, and the hook has pinned all memory that it may touch: see
    /// [`Hook::parks`].
    Wait,
    /// The call is issued. If it returns 0, the hook sees no later call of this thread, nor of its
    /// new threads and children.
    Leave,
    /// The hook sees no later call of this thread, nor of its new threads and children, because the
    /// program issues this call itself. [`Hook::returned`] is not called.
    LeaveBefore,
    /// The call returns this value, an error as its number below 0.
    Answer(isize),
}

/// How an issued call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The kernel returned this value, an error as its number below 0.
    Returned(isize),
    /// A signal arrived first: the call was not issued, or the program will make it again, which
    /// the hook sees as a new call.
    GivenUp,
}

/// Sees every system call before it is issued.
///
/// The functions run on a stack of this crate (200 KiB), with all signals blocked except SIGSEGV,
/// SIGBUS and SIGSYS. The program may be interrupted anywhere: in `malloc`, with any lock held, on
/// a thread that was cancelled, or on one that the C library did not create. So the functions use
/// no heap, no lock of the program, no cancellation points, and none of its thread-local storage.
/// System calls that they make are not dispatched. The functions leave `errno` as it was.
///
/// A signal that interrupts a waiting call never returns to the place of its issue. So nothing is
/// held on a stack during the call. Anything that has to be undone is written to [`Call::note`],
/// and undone in [`returned`](Self::returned). That is called once for each [`Step::Issue`], unless
/// the call does not return (it ends the thread, returns from a signal, or executes a program). It
/// is also called in the child of a fork, but not in a child that shares memory.
pub trait Hook: Sync {
    /// Sees a call before it is issued.
    fn call(&self, call: &mut Call) -> Step {
        let _ = call;
        Step::Issue
    }

    /// Sees how an issued call ended. The program gets the result of [`Step::Answer`], and
    /// [`Step::Issue`] issues the call again. The step returned for [`Outcome::GivenUp`] has no
    /// effect.
    fn returned(&self, call: &mut Call, outcome: Outcome) -> Step {
        let _ = call;
        match outcome {
            Outcome::Returned(result) => Step::Answer(result),
            Outcome::GivenUp => Step::Answer(0),
        }
    }

    /// Sees SIGSEGV and SIGBUS of a touch before the program does, including touches by the hook's
    /// own code. Returns whether the touch may be repeated. `context` is the interrupted context.
    fn fault(
        &self,
        signal: i32,
        info: *const libc::siginfo_t,
        context: *mut libc::ucontext_t,
    ) -> bool {
        let _ = (signal, info, context);
        false
    }

    /// Sees a SIGSYS, SIGSEGV or SIGBUS that a process has sent, before the program does. Returns
    /// whether it was meant for the hook. Unless `may_act`, it interrupted the hook's own code,
    /// which may hold any of its locks.
    fn sent(&self, info: *const libc::siginfo_t, may_act: bool) -> bool {
        let _ = (info, may_act);
        false
    }

    /// Called before a call is issued again that a signal for the hook has ended. The hook may
    /// change the memory to which its arguments point.
    fn repeats(&self, call: &mut Call) {
        let _ = call;
    }

    /// Maps memory for code of this crate, readable and executable, at addresses where nothing is
    /// mapped. Returns whether it did.
    fn map_code(&self, range: Range<usize>) -> bool {
        let _ = range;
        false
    }

    /// Called before the process is copied; only this thread continues in the copy.
    fn before_fork(&self) {}

    /// Called after [`before_fork`](Self::before_fork), whether a child was created or not.
    fn after_fork_in_parent(&self) {}

    /// Called first in a child, before any call of its program.
    fn after_fork_in_child(&self) {}

    /// Called right before a call of [`Step::Wait`] is issued, if signals may arrive during it.
    /// Until [`resumes`](Self::resumes), this thread runs no code except the kernel's for the call.
    fn parks(&self) {}

    /// Called first after that, when the call has returned or a signal has interrupted it.
    fn resumes(&self) {}

    /// Called before a thread, or a process that shares memory, is created, on the thread that
    /// creates it.
    fn thread_begins(&self) {}

    /// Called last on a thread that ends by itself, and in a process that shares memory. Called in
    /// the parent instead if that waits for the process, or if none was created. Not called for
    /// threads that end with their process.
    fn thread_ends(&self) {}
}

#[cfg(target_arch = "x86_64")]
static HOOK: OnceLock<&'static dyn Hook> = OnceLock::new();

/// Sets the hook. Returns whether there was none.
#[cfg(target_arch = "x86_64")]
pub(crate) fn set(hook: &'static dyn Hook) -> bool {
    HOOK.set(hook).is_ok()
}

#[cfg(target_arch = "x86_64")]
pub(crate) fn get() -> Option<&'static dyn Hook> {
    HOOK.get().copied()
}

/// Returns the hook, once threads are armed.
#[cfg(target_arch = "x86_64")]
pub(crate) fn hook() -> &'static dyn Hook {
    struct Nothing;
    impl Hook for Nothing {}
    get().unwrap_or(&Nothing)
}
