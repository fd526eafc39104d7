//! A system call of the program that was dispatched.
//!
//! # Safety
//! A call lies on the stack of this crate's code, with the frame of the signal that brought it
//! above it. A handler that interrupts its issue finds the call by its address.
#![allow(unsafe_code)]

use crate::block::stack_start;
use crate::mask::BLOCK;
use crate::x86_64::frame::Context;
use crate::x86_64::instructions::{Issue, issue, raw_syscall};
use std::ptr::null;

/// Words of [`Call::room`].
const ROOM_WORDS: usize = 4096;
/// The number of words that a hook may keep with a call.
pub const NOTE_WORDS: usize = 9;

/// A system call, which a hook may change, answer or have issued.
#[repr(C)]
#[derive(Debug)]
pub struct Call {
    /// The first field, because the instructions that issue the call use its address as the call's.
    issue: Issue,
    /// The context of the program at its call.
    context: *mut Context,
    number: usize,
    note: [u64; NOTE_WORDS],
    /// The mask that the program has while the call waits.
    temporary: Option<u64>,
    /// Whether the hook knows that the thread waits.
    pub(crate) is_parked: bool,
    /// Whether the call is issued again if a signal for the hook ended it.
    is_repeated: bool,
    /// A mask and a pointer to it, to which arguments point in place of the program's.
    scratch: [u64; 3],
}

impl Call {
    pub(crate) fn new(context: &mut Context) -> Self {
        let number = context.number();
        Call {
            issue: Issue {
                number,
                args: context.args(),
                result: 0,
                mask: null(),
                block: &raw const BLOCK,
            },
            context,
            number,
            note: [0; NOTE_WORDS],
            temporary: None,
            is_parked: false,
            is_repeated: false,
            scratch: [0; 3],
        }
    }

    /// Returns the call's number.
    pub fn number(&self) -> usize {
        self.issue.number
    }

    /// Changes the call's number.
    pub fn set_number(&mut self, number: usize) {
        self.issue.number = number;
    }

    /// Restores the number and the arguments that the program gave.
    pub fn restore(&mut self) {
        self.issue.number = self.number;
        // SAFETY: the frame is that of the signal that brought the call, which only this thread
        // accesses.
        self.issue.args = unsafe { (*self.context).args() };
    }

    /// Returns the arguments.
    pub fn args(&self) -> [usize; 6] {
        self.issue.args
    }

    /// Changes the arguments.
    pub fn set_args(&mut self, args: [usize; 6]) {
        self.issue.args = args;
    }

    /// Makes the call be issued again if a signal for the hook ended it, so that the program does
    /// not notice. Only for calls that have done nothing then, and whose wait does not become
    /// longer by this.
    pub fn repeat(&mut self) {
        self.is_repeated = true;
    }

    /// Returns whether [`repeat`](Self::repeat) was called.
    pub fn is_repeated(&self) -> bool {
        self.is_repeated
    }

    /// Returns words that stay with the call until it has returned or was given up. They begin as
    /// zeros.
    pub fn note(&mut self) -> &mut [u64; NOTE_WORDS] {
        &mut self.note
    }

    /// Returns words that do not change until the call has returned, at the lower end of the stack
    /// of this crate's code. They are for calls during which no handler runs.
    pub fn room(&mut self) -> &mut [usize] {
        let start = stack_start((&raw const *self).addr());
        // SAFETY: the stack is this thread's, and the code that runs on it during the call uses its
        // upper part.
        unsafe { std::slice::from_raw_parts_mut(start as *mut usize, ROOM_WORDS) }
    }

    /// Returns the program's registers as the C library declares them: the kernel's `ucontext_t`.
    pub fn context(&mut self) -> *mut libc::ucontext_t {
        self.context.cast()
    }

    /// Issues the call now, with all signals blocked, for calls that do not wait. Returns the
    /// result, or an error's number below 0.
    ///
    /// # Safety
    /// The call changes memory only as the program asked. It does not create, end or replace a
    /// process or a thread, and is not one that this crate answers itself (masks and actions of
    /// signals).
    pub unsafe fn issue(&mut self) -> isize {
        // SAFETY: the caller vouches for it.
        unsafe { raw_syscall(self.issue.number, self.issue.args) }
    }

    /// Issues the call. If there is a mask, signals may arrive during it, and then this may never
    /// return.
    ///
    /// # Safety
    /// As for the call. With a mask, no caller has anything to undo.
    pub(crate) unsafe fn issue_with(&mut self, mask: Option<&u64>) -> isize {
        self.issue.mask = mask.map_or(null(), |mask| &raw const *mask);
        // SAFETY: the call lies on this thread's stack; the caller vouches for the rest.
        unsafe { issue(&raw mut self.issue) };
        self.issue.mask = null();
        self.issue.result
    }

    /// Returns whether signals may arrive now.
    pub(crate) fn is_open(&self) -> bool {
        !self.issue.mask.is_null()
    }

    /// Returns the result that was stored before the interruption.
    pub(crate) fn kept_result(&self) -> isize {
        self.issue.result
    }

    /// Returns the number of the call as the program made it.
    pub(crate) fn asked_number(&self) -> usize {
        self.number
    }

    /// Returns the context in the frame of the signal that brought the call.
    pub(crate) fn frame(&self) -> *mut Context {
        self.context
    }

    pub(crate) fn temporary(&self) -> Option<u64> {
        self.temporary
    }

    /// Makes the call wait with `mask` in place of the program's.
    pub(crate) fn set_temporary(&mut self, mask: u64) {
        self.temporary = Some(mask);
    }

    /// Stores a mask for the kernel. Returns its address, and that of a structure that points to
    /// it.
    pub(crate) fn tell(&mut self, mask: u64) -> (usize, usize) {
        let at = (&raw const self.scratch).addr();
        self.scratch = [mask, at as u64, size_of::<u64>() as u64];
        (at, at + size_of::<u64>())
    }

    pub(crate) fn set_arg(&mut self, nth: usize, value: usize) {
        self.issue.args[nth] = value;
    }
}
