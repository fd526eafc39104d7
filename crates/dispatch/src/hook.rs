//! The interface of a hook, which is called before every system call.

use crate::Call;
use std::ops::Range;
#[cfg(target_arch = "x86_64")]
use std::sync::OnceLock;

/// The hook's decision about how a call is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The call is issued, with the current contents of [`Call`].
    Issue,
    /// The call is issued. The hook has pinned all memory that the kernel can access for the call:
    /// see [`Hook::parks`].
    Wait,
    /// The call is issued. If the call returns 0, later calls of this thread are not dispatched,
    /// nor are the calls of threads and children that it creates.
    Leave,
    /// The program itself issues this call, after the hook has returned. Later calls of this thread
    /// are not dispatched, nor are the calls of threads and children that it creates.
    /// [`Hook::returned`] is not called.
    LeaveBefore,
    /// The call is not issued. The program gets this result. A negative value is an error number.
    Answer(isize),
}

/// How an issued call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The kernel returned this value. A negative value is an error number.
    Returned(isize),
    /// A signal arrived before the call had a result. If the program makes the call again, the hook
    /// sees a new call.
    GivenUp,
}

/// A hook sees every system call of the program before the call is issued.
///
/// The functions run on a stack of this crate (200 KiB), with all signals blocked except SIGSEGV,
/// SIGBUS and SIGSYS. The program may have been interrupted in `malloc`, with any lock held, on a
/// cancelled thread, or on a thread that the C library did not create. So the functions must not
/// use the program's heap, locks or thread-local storage, nor cancellation points. System calls
/// that the functions make are not dispatched. The functions must preserve `errno`.
///
/// If a signal interrupts a waiting call, this crate's code on the stack may never continue. So the
/// hook stores its data about a call in [`Call::note`], and undoes its preparations for the call in
/// [`returned`](Self::returned). `returned` is called each time a call has been issued, unless the
/// call ends the thread, returns from a signal or executes a program. `returned` is also called in
/// the child of a fork, but not in a child that shares memory.
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

    /// Called before the program's handler, if a memory access of the program or the hook causes
    /// SIGSEGV or SIGBUS. Returns whether the interrupted code can repeat the access. `context` is
    /// the interrupted context.
    fn fault(
        &self,
        signal: i32,
        info: *const libc::siginfo_t,
        context: *mut libc::ucontext_t,
    ) -> bool {
        let _ = (signal, info, context);
        false
    }

    /// Called before the program's handler for a SIGSYS, SIGSEGV or SIGBUS that a process has sent.
    /// Returns whether the signal was meant for the hook. If `may_act` is false, the signal
    /// interrupted code of the hook, which may hold a lock of the hook.
    fn sent(&self, info: *const libc::siginfo_t, may_act: bool) -> bool {
        let _ = (info, may_act);
        false
    }

    /// Called before a call is issued again because a signal for the hook has ended it. The hook
    /// can change the memory to which the call's arguments point.
    fn repeats(&self, call: &mut Call) {
        let _ = call;
    }

    /// Maps readable and executable memory in `range`, in which this crate places code. Returns
    /// whether `range` was free and was mapped.
    fn map_code(&self, range: Range<usize>) -> bool {
        let _ = range;
        false
    }

    /// Called before a fork. Only this thread continues in the child.
    fn before_fork(&self) {}

    /// Called in the parent after a fork, even if no child was created.
    fn after_fork_in_parent(&self) {}

    /// Called first in a child of fork, before the child's program makes any call.
    fn after_fork_in_child(&self) {}

    /// Called right before a call of [`Step::Wait`] is issued, if signals are unblocked during the
    /// call. Until [`resumes`](Self::resumes), this thread executes only kernel code.
    fn parks(&self) {}

    /// Called after [`parks`](Self::parks), when the call has returned or a signal has interrupted
    /// it. On this thread, no other function of the hook runs between `parks` and `resumes`.
    fn resumes(&self) {}

    /// Called by a thread before it creates a thread, or a process that shares its memory.
    fn thread_begins(&self) {}

    /// Called as the last function on a thread that calls `exit`, and in a process that exits and
    /// shares its parent's memory. After `vfork`, or if no child was created, the parent calls this
    /// function instead. Threads that end with their process do not call this function.
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
