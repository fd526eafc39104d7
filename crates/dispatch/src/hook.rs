//! The interface of the code that is called before every system call is issued.

use crate::Call;
use std::ops::Range;
#[cfg(target_arch = "x86_64")]
use std::sync::OnceLock;

/// How a call is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The call is issued, with the current contents of [`Call`].
    Issue,
    /// The call is issued, and the hook has pinned all memory that the kernel may access for it:
    /// see [`Hook::parks`].
    Wait,
    /// The call is issued. If the call returns 0, the hook sees no later call of this thread, nor
    /// of threads and children that it creates.
    Leave,
    /// The program itself issues this call. The hook sees no later call of this thread, nor of
    /// threads and children that it creates. [`Hook::returned`] is not called.
    LeaveBefore,
    /// The call is not issued, and returns this value to the program; a negative number is an
    /// error.
    Answer(isize),
}

/// How an issued call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The kernel returned this value; a negative number is an error.
    Returned(isize),
    /// A signal arrived first: the call was not issued, or the program will make the call again,
    /// which the hook sees as a new call.
    GivenUp,
}

/// Sees every system call before it is issued.
///
/// The functions run on a stack of this crate (200 KiB), with all signals blocked except SIGSEGV,
/// SIGBUS and SIGSYS. The program may be interrupted anywhere: in `malloc`, with any lock held, on
/// a thread that was cancelled, or on a thread that the C library did not create. So the functions
/// use no heap, no lock of the program, no cancellation points, and no thread-local storage of the
/// program. System calls of the functions are not dispatched. The functions preserve `errno`.
///
/// A signal that interrupts a waiting call never returns to the instruction that issued the call.
/// So no data are held on a stack during the call. Actions to undo are recorded in [`Call::note`],
/// and undone in [`returned`](Self::returned). `returned` is called once for each [`Step::Issue`],
/// unless the call does not return (it ends the thread, returns from a signal, or executes a
/// program). `returned` is also called in the child of a fork, but not in a child that shares
/// memory.
pub trait Hook: Sync {
    /// Called before a call is issued. Returns how the call is handled.
    fn call(&self, call: &mut Call) -> Step {
        let _ = call;
        Step::Issue
    }

    /// Called when an issued call has ended. If this function returns [`Step::Answer`], the program
    /// gets that result. If this function returns [`Step::Issue`], the call is issued again. After
    /// [`Outcome::GivenUp`], the returned step has no effect.
    fn returned(&self, call: &mut Call, outcome: Outcome) -> Step {
        let _ = call;
        match outcome {
            Outcome::Returned(result) => Step::Answer(result),
            Outcome::GivenUp => Step::Answer(0),
        }
    }

    /// Called when a memory access causes SIGSEGV or SIGBUS, before the program's handler. Accesses
    /// by the hook's own code are included. Returns whether the access may be repeated. `context`
    /// is the interrupted context.
    fn fault(
        &self,
        signal: i32,
        info: *const libc::siginfo_t,
        context: *mut libc::ucontext_t,
    ) -> bool {
        let _ = (signal, info, context);
        false
    }

    /// Called for a SIGSYS, SIGSEGV or SIGBUS that a process has sent, before the program's
    /// handler. Returns whether the signal was meant for the hook. If `may_act` is false, the
    /// signal interrupted the hook's own code, which may hold any of its locks.
    fn sent(&self, info: *const libc::siginfo_t, may_act: bool) -> bool {
        let _ = (info, may_act);
        false
    }

    /// Called before a call is issued again because a signal for the hook has ended it. The hook
    /// may change the memory to which the call's arguments point.
    fn repeats(&self, call: &mut Call) {
        let _ = call;
    }

    /// Maps memory for code of this crate, readable and executable, at addresses where no memory is
    /// mapped. Returns whether the memory was mapped.
    fn map_code(&self, range: Range<usize>) -> bool {
        let _ = range;
        false
    }

    /// Called before a fork; only this thread continues in the child.
    fn before_fork(&self) {}

    /// Called after [`before_fork`](Self::before_fork), whether a child was created or not.
    fn after_fork_in_parent(&self) {}

    /// Called first in a child of fork, before the child's program makes any call.
    fn after_fork_in_child(&self) {}

    /// Called right before a call of [`Step::Wait`] is issued, if signals may arrive during the
    /// call. Until [`resumes`](Self::resumes), this thread runs only the kernel's code.
    fn parks(&self) {}

    /// Called when the call that [`parks`](Self::parks) announced has returned or was interrupted
    /// by a signal, before any other function of the hook.
    fn resumes(&self) {}

    /// Called before a thread, or a process that shares memory, is created. The creating thread
    /// calls this function.
    fn thread_begins(&self) {}

    /// Called last on a thread that ends by itself, and in a process that shares memory when it
    /// ends. Called in the parent instead if the parent waits for the process, or if no process was
    /// created. Not called for threads that end with their process.
    fn thread_ends(&self) {}
}

#[cfg(target_arch = "x86_64")]
static HOOK: OnceLock<&'static dyn Hook> = OnceLock::new();

/// Sets the hook. Returns false if a hook was set before.
#[cfg(target_arch = "x86_64")]
pub(crate) fn set(hook: &'static dyn Hook) -> bool {
    HOOK.set(hook).is_ok()
}

#[cfg(target_arch = "x86_64")]
pub(crate) fn get() -> Option<&'static dyn Hook> {
    HOOK.get().copied()
}

/// Returns the hook. If no hook is set, returns a hook that does nothing.
#[cfg(target_arch = "x86_64")]
pub(crate) fn hook() -> &'static dyn Hook {
    struct Nothing;
    impl Hook for Nothing {}
    get().unwrap_or(&Nothing)
}
