//! A dispatched system call of the program.
//!
//! # Safety
//! A [`Call`] lies on the stack of this crate's code, below the frame of the signal that dispatched
//! the call. While the call is issued, a register holds the address of the [`Call`], so that a
//! signal handler finds the [`Call`].
#![allow(unsafe_code)]

use crate::block;
use crate::mask::BLOCK;
use crate::policy::{HEAD_BYTES, NOTE_WORDS, ROOM_WORDS};
use crate::x86_64::frame::Context;
use crate::x86_64::instructions::{Issue, issue, raw_syscall};
use std::ptr::null;

/// A system call. A hook can change the call, determine its result, or let it be issued.
#[repr(C)]
#[derive(Debug)]
pub struct Call {
    /// This field is first, because a register holds its address while the call is issued. Signal
    /// handlers use that address as the address of the [`Call`].
    issue: Issue,
    /// The context that the program had when it made the call.
    context: *mut Context,
    number: usize,
    note: [u64; NOTE_WORDS],
    /// The signal mask that replaces the program's mask while the call waits.
    pub(crate) temporary: Option<u64>,
    /// Whether the hook was notified that the thread waits.
    pub(crate) is_parked: bool,
    /// Whether the call is to be issued again if a signal for the hook ends the call.
    is_repeated: bool,
    /// A signal mask, and a structure that points to the mask. The call's arguments refer to these
    /// copies, not to the program's mask and structure.
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

    /// Restores the number and the arguments that the program passed.
    pub fn restore(&mut self) {
        self.issue.number = self.number;
        // SAFETY: the frame belongs to the signal that dispatched the call, and only this thread
        // uses the frame.
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

    /// Lets the call be reissued if a signal for the hook ends it, so that the program does not
    /// notice the signal. The call must have no effect if a signal ends it. Reissuing the call must
    /// not extend its total waiting time.
    pub fn repeat(&mut self) {
        self.is_repeated = true;
    }

    /// Returns whether [`repeat`](Self::repeat) was called.
    pub fn is_repeated(&self) -> bool {
        self.is_repeated
    }

    /// Returns the call's note. The words of the note are initially 0, and keep their values until
    /// the call has ended ([`Outcome`](crate::Outcome)).
    pub fn note(&mut self) -> &mut [u64; NOTE_WORDS] {
        &mut self.note
    }

    /// Returns the lowest words of the stack on which this crate's code runs, as memory for the
    /// hook. These words keep their values until the call has returned. A hook is allowed to use
    /// them only if no handler runs during the call.
    pub fn room(&mut self) -> &mut [usize] {
        let start = block::base((&raw const *self).addr()) + HEAD_BYTES;
        // SAFETY: only this thread uses the stack, and code that runs during the call uses only the
        // stack's upper part.
        unsafe { std::slice::from_raw_parts_mut(start as *mut usize, ROOM_WORDS) }
    }

    /// Returns the program's registers, as a `ucontext_t` of the C library.
    pub fn context(&mut self) -> *mut libc::ucontext_t {
        self.context.cast()
    }

    /// Issues a call that does not wait, with all signals blocked. Returns the result, or a
    /// negative error number.
    ///
    /// # Safety
    /// The call changes memory only as the program requested. The call does not create, end or
    /// replace a process or a thread. The call does not concern signal masks or actions, because
    /// this crate handles such calls itself.
    pub unsafe fn issue(&mut self) -> isize {
        // SAFETY: the caller guarantees the requirements of the call.
        unsafe { raw_syscall(self.issue.number, self.issue.args) }
    }

    /// Issues the call. If `mask` is given, a signal can interrupt the call. After a signal, this
    /// function may never return.
    ///
    /// # Safety
    /// The caller meets the requirements of the system call. If `mask` is given, no function on
    /// this stack has cleanup left to do.
    pub(crate) unsafe fn issue_with(&mut self, mask: Option<&u64>) -> isize {
        self.issue.mask = mask.map_or(null(), |mask| &raw const *mask);
        // SAFETY: the call lies on this thread's stack. The caller guarantees the other
        // requirements.
        unsafe { issue(&raw mut self.issue) };
        self.issue.mask = null();
        self.issue.result
    }

    /// Returns whether signals are unblocked while the call is issued.
    pub(crate) fn is_open(&self) -> bool {
        !self.issue.mask.is_null()
    }

    /// Returns the result that the issuing instructions stored before a signal interrupted them.
    pub(crate) fn kept_result(&self) -> isize {
        self.issue.result
    }

    /// Returns the system call number that the program passed.
    pub(crate) fn asked_number(&self) -> usize {
        self.number
    }

    /// Returns the context in the frame of the signal by which the call was dispatched.
    pub(crate) fn frame(&self) -> *mut Context {
        self.context
    }

    /// Stores a signal mask that the kernel reads during the call. Returns the address of the mask,
    /// and the address of a structure that points to the mask.
    pub(crate) fn keep_mask(&mut self, mask: u64) -> (usize, usize) {
        let at = (&raw const self.scratch).addr();
        self.scratch = [mask, at as u64, size_of::<u64>() as u64];
        (at, at + size_of::<u64>())
    }

    pub(crate) fn set_arg(&mut self, nth: usize, value: usize) {
        self.issue.args[nth] = value;
    }
}
