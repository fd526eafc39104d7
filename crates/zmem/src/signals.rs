//! Signal masks, actions and frames. This module also records whether a thread is handling a fault.
//!
//! # Safety
//! Each structure of the C library begins as zeros, which are a valid value of its type. Then the C
//! library fills the structure.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::mem::{transmute, transmute_copy, zeroed};
use std::ptr::null;

/// A set of signals that a thread blocks, with a bit for each signal, as in the kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SignalMask(u64);

impl SignalMask {
    /// All signals, including the signals that the C library uses itself.
    pub(crate) const ALL: Self = SignalMask(u64::MAX);

    /// Returns the mask that corresponds to a set of the C library.
    pub(crate) fn of(set: libc::sigset_t) -> Self {
        // SAFETY: a set consists of bits. Its first bits represent the kernel's signals.
        SignalMask(unsafe { transmute_copy(&set) })
    }

    /// Returns the set of the C library that corresponds to the mask.
    pub(crate) fn set(self) -> libc::sigset_t {
        const COPIES: usize = size_of::<libc::sigset_t>() / size_of::<u64>();
        // SAFETY: a set consists of bits, and every combination of bits is valid. Its first bits
        // represent the kernel's signals.
        unsafe { transmute::<[u64; COPIES], libc::sigset_t>([self.0; COPIES]) }
    }

    /// Returns the union of both masks.
    pub(crate) fn with(self, other: SignalMask) -> Self {
        SignalMask(self.0 | other.0)
    }

    pub(crate) fn without(self, signal: i32) -> Self {
        SignalMask(self.0 & !(1 << (signal - 1)))
    }
}

/// Sets the mask of this thread, and returns the previous mask. The system call is made directly,
/// because the C library's function never blocks the signals that the library uses itself.
pub(crate) fn set_mask(mask: SignalMask) -> SignalMask {
    let (mut before, how) = (SignalMask::ALL, libc::SIG_SETMASK);
    // SAFETY: both sets are local, and have the size that the call passes to the kernel.
    unsafe {
        let (mask, before) = (&raw const mask.0, &raw mut before.0);
        libc::syscall(libc::SYS_rt_sigprocmask, how, mask, before, size_of::<u64>());
    }
    before
}

/// The mask that is restored for this thread when this value is dropped.
struct Restore(SignalMask);

impl Drop for Restore {
    fn drop(&mut self) {
        set_mask(self.0);
    }
}

/// Runs `work` with all signals blocked.
pub(crate) fn without_signals<T>(work: impl FnOnce() -> T) -> T {
    let _restore = Restore(set_mask(SignalMask::ALL));
    work()
}

/// Runs `work`, which starts a thread, with all signals blocked except those that the C library
/// uses itself. The new thread inherits this mask. Threads must not block the C library's signals
/// for long, because other threads can wait until each thread has handled such a signal.
pub(crate) fn without_programs_signals<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: `sigfillset` writes only to the set, which is a local variable.
    let all_of_programs = unsafe {
        let mut set = zeroed();
        libc::sigfillset(&mut set);
        SignalMask::of(set)
    };
    let _restore = Restore(set_mask(all_of_programs));
    work()
}

/// The action of a signal: its handler, flags and mask.
pub(crate) type Action = libc::sigaction;

/// Returns the action of a signal.
pub(crate) fn action_of(signal: i32) -> Action {
    // SAFETY: the structure is local, and `sigaction` only writes to it.
    unsafe {
        let mut action = zeroed();
        libc::sigaction(signal, null(), &mut action);
        action
    }
}

/// Returns the default action.
pub(crate) const fn default_action() -> Action {
    // SAFETY: zeros are a valid action: SIG_DFL without flags, with an empty mask.
    unsafe { zeroed() }
}

/// Sets the action of a signal, and returns the previous action.
///
/// # Safety
/// The handler can safely be called on any thread, at any instruction.
pub(crate) unsafe fn set_action(signal: i32, action: &Action) -> Action {
    // SAFETY: both structures are valid. The caller guarantees that the handler can safely be
    // called.
    unsafe {
        let mut before = zeroed();
        libc::sigaction(signal, action, &mut before);
        before
    }
}

/// Returns the address of the interrupted instruction, and the stack pointer at that moment.
pub(crate) fn interrupted(context: &libc::ucontext_t) -> (usize, usize) {
    let registers = &context.uc_mcontext;
    #[cfg(target_arch = "x86_64")]
    let [instruction, stack] =
        [libc::REG_RIP, libc::REG_RSP].map(|nth| registers.gregs[nth as usize]);
    #[cfg(target_arch = "aarch64")]
    let (instruction, stack) = (registers.pc, registers.sp);
    (instruction as usize, stack as usize)
}

thread_local! {
    static IN_HANDLER: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether this thread is handling a fault, and so must not use the heap.
pub fn in_handler() -> bool {
    IN_HANDLER.get()
}

pub(crate) fn set_in_handler(is_in: bool) {
    IN_HANDLER.set(is_in);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the mask of this thread, as the kernel reports it.
    fn blocked() -> u64 {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap()
    }

    #[test]
    fn all_signals_are_blocked_and_a_threads_own_restored() {
        let bit = |signal: i32| 1 << (signal - 1);
        let before = blocked();
        // SIGKILL and SIGSTOP can't be blocked.
        let all = !(bit(libc::SIGKILL) | bit(libc::SIGSTOP));
        assert_eq!(without_signals(blocked), all);
        let library = bit(32) | bit(33);
        assert_eq!(without_programs_signals(blocked), all & !library);
        assert_eq!(blocked(), before);
    }
}
