//! The program's action for each signal. If the program has a handler for a signal, this crate
//! registers its own handler with the kernel instead.
//!
//! A thread that holds the table's lock accesses no memory of the program, and runs no handler that
//! takes the lock. The lock is held during a fork, so that the child's table is consistent (di-4).
//!
//! # Safety
//! The table is read and written only while its lock is held.
#![allow(unsafe_code)]

use crate::mask::{self, BLOCK, LAST, bit, is_owned};
use crate::pause::pause;
use crate::x86_64::instructions::{raw_syscall, restorer};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The kernel's `sigaction` structure, whose layout differs from that of the C library.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Action {
    pub(crate) handler: usize,
    pub(crate) flags: usize,
    pub(crate) restorer: usize,
    pub(crate) mask: u64,
}

const SA_RESTORER: usize = 0x0400_0000;
/// The flags of the program's actions that this crate also sets in the kernel's actions.
const PASSED: usize =
    (libc::SA_RESTART | libc::SA_NOCLDSTOP | libc::SA_NOCLDWAIT | libc::SA_RESETHAND) as u32
        as usize;
/// The flags that the kernel supports. `sigaction` clears all other flags.
const KNOWN: usize = PASSED
    | SA_RESTORER
    | (libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER) as usize
    | 0x800;

impl Action {
    pub(crate) const DEFAULT: Action = Action { handler: 0, flags: 0, restorer: 0, mask: 0 };

    pub(crate) fn is_handler(&self) -> bool {
        self.handler != libc::SIG_DFL && self.handler != libc::SIG_IGN
    }

    pub(crate) fn has(&self, flag: i32) -> bool {
        self.flags & flag as u32 as usize != 0
    }
}

/// The address of the handler that this crate registers with the kernel, or 0 before the first
/// thread is armed.
static ENTRY: AtomicUsize = AtomicUsize::new(0);

pub(crate) fn set_entry(entry: usize) {
    ENTRY.store(entry, Ordering::Release);
}

/// Returns the action to be registered with the kernel if the program sets `action`.
fn registered(signal: i32, action: &Action) -> Action {
    if !action.is_handler() && !is_owned(signal) {
        return *action;
    }
    let passed = if is_owned(signal) { libc::SA_RESTART as usize } else { action.flags & PASSED };
    // Without SA_NODEFER, the kernel can't fill the stack with frames of one signal (di-16).
    let own = SA_RESTORER | (libc::SA_SIGINFO | libc::SA_ONSTACK) as usize;
    let handler = ENTRY.load(Ordering::Acquire);
    Action { handler, flags: passed | own, restorer: restorer(), mask: BLOCK }
}

/// Reads or sets the kernel's action for a signal.
///
/// # Safety
/// `new` has no handler, or was returned by [`registered`]. If the kernel no longer dispatches the
/// calls of the thread, any action is allowed.
unsafe fn system(signal: i32, new: Option<&Action>, old: Option<&mut Action>) -> isize {
    let new = new.map_or(0, |new| (&raw const *new).addr());
    let old = old.map_or(0, |old| (&raw mut *old).addr());
    let args = [signal as usize, new, old, mask::BYTES, 0, 0];
    // SAFETY: the caller passes references to both structures.
    unsafe { raw_syscall(libc::SYS_rt_sigaction as usize, args) }
}

/// A table of signal actions. Threads created with CLONE_SIGHAND share a table.
#[derive(Debug)]
pub(crate) struct Actions {
    locked: AtomicBool,
    table: UnsafeCell<[Action; LAST as usize]>,
}

// SAFETY: `table` is accessed only with the lock held: see `with`.
unsafe impl Sync for Actions {}

impl Actions {
    pub(crate) const fn new() -> Self {
        let table = [Action::DEFAULT; LAST as usize];
        Actions { locked: AtomicBool::new(false), table: UnsafeCell::new(table) }
    }

    pub(crate) fn lock(&self) {
        (0..).take_while(|_| self.locked.swap(true, Ordering::Acquire)).for_each(pause);
    }

    pub(crate) fn unlock(&self) {
        self.locked.store(false, Ordering::Release);
    }

    fn with<T>(&self, work: impl FnOnce(&mut [Action; LAST as usize]) -> T) -> T {
        self.lock();
        // SAFETY: the lock is held, and no handler that takes the lock can run on this thread.
        let result = work(unsafe { &mut *self.table.get() });
        self.unlock();
        result
    }

    pub(crate) fn get(&self, signal: i32) -> Action {
        self.with(|table| table[signal as usize - 1])
    }

    /// Returns the action for a signal that is being delivered. If the action has SA_RESETHAND,
    /// resets the action in the table.
    pub(crate) fn take(&self, signal: i32) -> Action {
        self.with(|table| {
            let action = &mut table[signal as usize - 1];
            let taken = *action;
            if taken.has(libc::SA_RESETHAND) && taken.is_handler() {
                action.handler = libc::SIG_DFL;
            }
            taken
        })
    }

    /// Sets an action as `sigaction` does. Returns the previous action, or a negative error number.
    pub(crate) fn set(&self, signal: i32, new: &Action) -> Result<Action, isize> {
        self.with(|table| {
            let mut kept = *new;
            kept.flags &= KNOWN;
            kept.mask = mask::allowed(kept.mask);
            // SAFETY: `registered` returned the action.
            let result = unsafe { system(signal, Some(&registered(signal, &kept)), None) };
            if result < 0 {
                return Err(result);
            }
            Ok(std::mem::replace(&mut table[signal as usize - 1], kept))
        })
    }

    /// Copies the kernel's actions to the table. Registers this crate's handler for each owned
    /// signal, and for each signal that has a handler.
    pub(crate) fn take_over(&self) {
        for signal in (1..=LAST).filter(|signal| bit(*signal) & mask::allowed(u64::MAX) != 0) {
            let mut found = Action::DEFAULT;
            // SAFETY: the structure is local, and no action is set.
            unsafe { system(signal, None, Some(&mut found)) };
            self.with(|table| table[signal as usize - 1] = found);
            if found.is_handler() || is_owned(signal) {
                // SAFETY: `registered` returned the action.
                unsafe { system(signal, Some(&registered(signal, &found)), None) };
            }
        }
    }

    /// Registers the program's actions with the kernel, instead of this crate's handler.
    pub(crate) fn hand_over(&self) {
        for signal in (1..=LAST).filter(|signal| bit(*signal) & mask::allowed(u64::MAX) != 0) {
            let own = self.get(signal);
            // SAFETY: the program has set this action, and the kernel no longer dispatches the
            // program's calls.
            unsafe { system(signal, Some(&own), None) };
        }
    }

    pub(crate) fn copy_of(&self, other: &Actions) {
        let copied = other.with(|table| *table);
        self.with(|table| *table = copied);
    }

    /// Sets each signal that has a handler to its default action, for a child created with
    /// CLONE_CLEAR_SIGHAND.
    pub(crate) fn clear(&self) {
        for signal in 1..=LAST {
            if self.get(signal).is_handler() {
                let _ = self.set(signal, &Action::DEFAULT);
            }
        }
    }

    /// Sets the kernel's action for an owned signal to the default, so that the signal ends the
    /// process.
    pub(crate) fn end_by(&self, signal: i32) {
        // SAFETY: the action has no handler.
        unsafe { system(signal, Some(&Action::DEFAULT), None) };
    }
}
