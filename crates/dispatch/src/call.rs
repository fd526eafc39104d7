//! A system call of the program's that has come to us.
//!
//! # Safety
//! A call lies on the stack of this crate's code, with the frame of the signal that brought it
//! above it. Who interrupts its issue finds it by its address.
#![allow(unsafe_code)]

use crate::block::stack_start;
use crate::mask::BLOCK;
use crate::x86_64::frame::Context;
use crate::x86_64::instructions::{Issue, issue, raw_syscall};
use std::ptr::null;

/// Words of [`Call::room`].
const ROOM_WORDS: usize = 4096;
/// Words that a hook may keep with a call.
pub const NOTE_WORDS: usize = 9;

/// A system call, which a hook may change, answer or let go on.
#[repr(C)]
#[derive(Debug)]
pub struct Call {
    /// First: the instructions that issue it take its address for the call's.
    issue: Issue,
    /// The program, as it was.
    context: *mut Context,
    number: usize,
    note: [u64; NOTE_WORDS],
    /// The mask that the program has while the call waits.
    temporary: Option<u64>,
    /// Whether the hook was told that the thread waits.
    pub(crate) is_parked: bool,
    /// Whether it is issued again if a signal for the hook ended it.
    is_repeated: bool,
    /// What arguments point to in place of the program's: a mask, and a pointer to it.
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

    /// Changes which call it is.
    pub fn set_number(&mut self, number: usize) {
        self.issue.number = number;
    }

    /// Puts back the number and the arguments that the program gave.
    pub fn restore(&mut self) {
        self.issue.number = self.number;
        // SAFETY: the frame of the signal that brought the call, which only this thread reaches.
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

    /// Makes the call be issued again if a signal for the hook ended it, so that the program sees
    /// nothing of that. The call has done nothing then, and waits no longer for it.
    pub fn repeat(&mut self) {
        self.is_repeated = true;
    }

    /// Returns whether [`repeat`](Self::repeat) was called.
    pub fn is_repeated(&self) -> bool {
        self.is_repeated
    }

    /// Returns words that stay with the call until it has returned or was given up: all zeros at
    /// first.
    pub fn note(&mut self) -> &mut [u64; NOTE_WORDS] {
        &mut self.note
    }

    /// Returns words that stay as they are until the call has returned, at the lower end of the
    /// stack of this crate's code: for calls that the system answers without running a handler.
    pub fn room(&mut self) -> &mut [usize] {
        let start = stack_start((&raw const *self).addr());
        // SAFETY: the stack is this thread's, and what runs on it while the call lasts lies above.
        unsafe { std::slice::from_raw_parts_mut(start as *mut usize, ROOM_WORDS) }
    }

    /// Returns the program's registers as the C library names them: a `ucontext_t` of the kernel's.
    pub fn context(&mut self) -> *mut libc::ucontext_t {
        self.context.cast()
    }

    /// Issues the call now, with all signals blocked: for calls that do not wait. Returns the
    /// result, or an error's number below 0.
    ///
    /// # Safety
    /// The call does to memory what the program asked for; it is none that makes, ends or replaces
    /// a process or a thread, and none that this crate answers itself (masks and actions of
    /// signals).
    pub unsafe fn issue(&mut self) -> isize {
        // SAFETY: the caller vouches for it.
        unsafe { raw_syscall(self.issue.number, self.issue.args) }
    }

    /// Issues it; signals may come meanwhile if there is a mask, and then this may never return.
    ///
    /// # Safety
    /// As of the call. With a mask no caller has anything to undo.
    pub(crate) unsafe fn issue_with(&mut self, mask: Option<&u64>) -> isize {
        self.issue.mask = mask.map_or(null(), |mask| &raw const *mask);
        // SAFETY: the call lies on this thread's stack; the caller vouches for the rest.
        unsafe { issue(&raw mut self.issue) };
        self.issue.mask = null();
        self.issue.result
    }

    /// Whether signals may come now.
    pub(crate) fn is_open(&self) -> bool {
        !self.issue.mask.is_null()
    }

    /// The result that was kept when it was interrupted.
    pub(crate) fn kept_result(&self) -> isize {
        self.issue.result
    }

    /// The number that the program had asked for.
    pub(crate) fn asked_number(&self) -> usize {
        self.number
    }

    /// The frame of the signal that brought it.
    pub(crate) fn frame(&self) -> *mut Context {
        self.context
    }

    pub(crate) fn temporary(&self) -> Option<u64> {
        self.temporary
    }

    /// Has the call wait with `mask` in place of the program's.
    pub(crate) fn set_temporary(&mut self, mask: u64) {
        self.temporary = Some(mask);
    }

    /// The addresses of a mask that the system is told, and of a structure that points to it.
    pub(crate) fn tell(&mut self, mask: u64) -> (usize, usize) {
        let at = (&raw const self.scratch).addr();
        self.scratch = [mask, at as u64, size_of::<u64>() as u64];
        (at, at + size_of::<u64>())
    }

    pub(crate) fn set_arg(&mut self, nth: usize, value: usize) {
        self.issue.args[nth] = value;
    }
}
