//! Masks of signals, and the handlers of the program's.
//!
//! # Safety
//! Structures of the C library are made of zeros, which are values of them, and filled by it.
#![allow(unsafe_code)]

use std::mem::zeroed;
use std::ptr::{null, null_mut};

/// The signals that a thread has blocked.
#[derive(Clone, Copy)]
pub(crate) struct SignalMask(libc::sigset_t);

impl std::fmt::Debug for SignalMask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SignalMask").finish_non_exhaustive()
    }
}

impl SignalMask {
    /// The mask with all signals.
    pub(crate) fn all() -> Self {
        // SAFETY: `sigfillset` writes to the set it is given, alone.
        unsafe {
            let mut set = zeroed();
            libc::sigfillset(&mut set);
            SignalMask(set)
        }
    }

    /// Of a set of the C library's.
    pub(crate) fn of(set: libc::sigset_t) -> Self {
        SignalMask(set)
    }

    pub(crate) fn set(&self) -> libc::sigset_t {
        self.0
    }

    /// The signals of both.
    pub(crate) fn with(&self, other: &SignalMask) -> Self {
        let mut both = self.0;
        for signal in 1..=64 {
            // SAFETY: both are sets that were filled, and a signal that is none changes nothing.
            unsafe {
                if libc::sigismember(&other.0, signal) == 1 {
                    libc::sigaddset(&mut both, signal);
                }
            }
        }
        SignalMask(both)
    }

    pub(crate) fn without(&self, signal: i32) -> Self {
        let mut set = self.0;
        // SAFETY: as above.
        unsafe { libc::sigdelset(&mut set, signal) };
        SignalMask(set)
    }
}

/// Blocks all signals of this thread; those that were blocked before.
pub(crate) fn block_all() -> SignalMask {
    let mut before = SignalMask::all();
    // SAFETY: both sets are here.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &SignalMask::all().0, &mut before.0) };
    before
}

/// Has this thread block these signals and no others.
pub(crate) fn restore(mask: &SignalMask) {
    // SAFETY: the set is here.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &mask.0, null_mut()) };
}

/// Does `work` with all signals blocked.
pub(crate) fn without_signals<T>(work: impl FnOnce() -> T) -> T {
    struct Restore(SignalMask);
    impl Drop for Restore {
        fn drop(&mut self) {
            restore(&self.0);
        }
    }
    let _restore = Restore(block_all());
    work()
}

/// A handler as `sigaction` has it.
pub(crate) type Action = libc::sigaction;

/// The handler of a signal.
pub(crate) fn action_of(signal: i32) -> Action {
    // SAFETY: the structure is here; it is only written to.
    unsafe {
        let mut action = zeroed();
        libc::sigaction(signal, null(), &mut action);
        action
    }
}

/// The system's own way with a signal.
pub(crate) fn default_action() -> Action {
    // SAFETY: zeros are SIG_DFL, no flags, and no signals.
    unsafe { zeroed() }
}

/// Sets the handler of a signal; the one before.
///
/// # Safety
/// The handler may be called on any thread, at any instruction.
pub(crate) unsafe fn set_action(signal: i32, action: &Action) -> Action {
    // SAFETY: both structures are here; the caller vouches for the handler.
    unsafe {
        let mut before = zeroed();
        libc::sigaction(signal, action, &mut before);
        before
    }
}
