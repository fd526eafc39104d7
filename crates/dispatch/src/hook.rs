//! The interface of the code that sees every system call first.

use crate::Call;
use std::ops::Range;
#[cfg(target_arch = "x86_64")]
use std::sync::OnceLock;

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It is issued, as it stands in [`Call`] by now.
    Issue,
    /// The same, and the hook has pinned all that it may touch: see [`Hook::parks`].
    Wait,
    /// It is issued. If it returns 0, the hook sees no later call of this thread, nor of its new
    /// threads and children.
    Leave,
    /// The hook sees no later call of this thread, nor of its new threads and children, because the
    /// program issues this call itself. [`Hook::returned`] is not called.
    LeaveBefore,
    /// It returns this, an error as its number below 0.
    Answer(isize),
}

/// How a call that was issued ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The system returned this, an error as its number below 0.
    Returned(isize),
    /// A signal came first: the system was not asked, or is asked anew, by a call that comes to the
    /// hook as any other.
    GivenUp,
}

/// Sees every system call first.
///
/// The functions run on a stack of this crate (200 KiB), with all signals blocked but SIGSEGV,
/// SIGBUS and SIGSYS. The program may be interrupted anywhere: in `malloc`, with any lock held, on
/// a thread that was cancelled, or that the C library did not make. So the functions use no heap,
/// no lock of the program, none of its cancellation points, and none of its thread-local storage.
/// System calls that they make are not dispatched; the functions keep `errno` as it was.
///
/// A signal that interrupts a call which waits never returns to where it was issued. So there is
/// nothing to be held over it on a stack: what has to be undone is written to [`Call::note`], and
/// undone in [`returned`](Self::returned), which is called once for each [`Step::Issue`] unless the
/// call does not return (it ends the thread, returns from a signal, or executes a program). In the
/// child of a fork it is called as well, in one that shares memory it is not.
pub trait Hook: Sync {
    /// Sees a call before it is issued.
    fn call(&self, call: &mut Call) -> Step {
        let _ = call;
        Step::Issue
    }

    /// Sees how a call ended that was issued: [`Step::Answer`] is what the program gets, and
    /// [`Step::Issue`] issues it once more. What it returns for [`Outcome::GivenUp`] has no effect.
    fn returned(&self, call: &mut Call, outcome: Outcome) -> Step {
        let _ = call;
        match outcome {
            Outcome::Returned(result) => Step::Answer(result),
            Outcome::GivenUp => Step::Answer(0),
        }
    }

    /// Sees SIGSEGV and SIGBUS of a touch before the program does, those within the hook's own code
    /// too; returns whether the touch may go on. `context` is what was interrupted.
    fn fault(
        &self,
        signal: i32,
        info: *const libc::siginfo_t,
        context: *mut libc::ucontext_t,
    ) -> bool {
        let _ = (signal, info, context);
        false
    }

    /// Sees a SIGSYS, SIGSEGV or SIGBUS that a process has sent, before the program does; returns
    /// whether it was meant for the hook. Unless `may_act` it comes amid the hook's own code, which
    /// may hold any lock of its own.
    fn sent(&self, info: *const libc::siginfo_t, may_act: bool) -> bool {
        let _ = (info, may_act);
        false
    }

    /// Comes before a call is issued again that a signal for the hook has ended. The hook may
    /// change the memory that its arguments point to.
    fn repeats(&self, call: &mut Call) {
        let _ = call;
    }

    /// Maps memory for code of this crate, readable and executable, where nothing is mapped.
    /// Returns whether it did.
    fn map_code(&self, range: Range<usize>) -> bool {
        let _ = range;
        false
    }

    /// Comes before a copy of the process is made, in which this thread alone goes on.
    fn before_fork(&self) {}

    /// Comes after [`before_fork`](Self::before_fork), whether there is a child or not.
    fn after_fork_in_parent(&self) {}

    /// Comes first in a child, before any call of its program.
    fn after_fork_in_child(&self) {}

    /// Comes right before a call of [`Step::Wait`] is issued, if signals may come meanwhile. No
    /// code runs on this thread until [`resumes`](Self::resumes), but what the kernel does for the
    /// call.
    fn parks(&self) {}

    /// Comes first after that, as the call has returned or a signal has interrupted it.
    fn resumes(&self) {}

    /// Comes before a thread is made, or a process that shares memory, on the thread that makes it.
    fn thread_begins(&self) {}

    /// Comes last on a thread that ends by itself, and in a process that shares memory; in the
    /// parent instead if that waits for it, or if none was made. Threads that end with their
    /// process have none.
    fn thread_ends(&self) {}
}

#[cfg(target_arch = "x86_64")]
static HOOK: OnceLock<&'static dyn Hook> = OnceLock::new();

/// Sets the hook; whether there was none.
#[cfg(target_arch = "x86_64")]
pub(crate) fn set(hook: &'static dyn Hook) -> bool {
    HOOK.set(hook).is_ok()
}

#[cfg(target_arch = "x86_64")]
pub(crate) fn get() -> Option<&'static dyn Hook> {
    HOOK.get().copied()
}

/// The hook, once threads are armed.
#[cfg(target_arch = "x86_64")]
pub(crate) fn hook() -> &'static dyn Hook {
    struct Nothing;
    impl Hook for Nothing {}
    get().unwrap_or(&Nothing)
}
