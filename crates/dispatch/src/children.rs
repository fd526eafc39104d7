//! Creates and ends threads and processes.
//!
//! ```text
//!   a thread, vfork:  parent's block          child's block
//!                     | frame | handler |     | copy of the frame: result 0, its stack | ...
//!                                clone -----> child_begins: armed -> rt_sigreturn -> its program
//!   fork:             the child has a copy of the block, and returns from the handler
//! ```
//! The program makes no call in a child before the child is armed. The child receives no signal
//! before it returns from its signal frame (di-5).
//!
//! # Safety
//! A dispatch block belongs to the child for which it was mapped. If no child was created, the
//! parent unmaps the block. After `vfork`, the parent unmaps the block when the child has ended or
//! executed a program. The block of any other child is unmapped when the child ends.
#![allow(unsafe_code)]

use crate::call::Call;
use crate::deliver::{self, set_mask};
use crate::hook::hook;
use crate::mask::BLOCK;
use crate::policy::{BLOCK_BYTES, RECORD_WORDS};
use crate::selector;
use crate::signal_calls::EINVAL;
use crate::sites;
use crate::thread::{Kind, Thread};
use crate::user;
use crate::x86_64::instructions::{clone, leave, raw_syscall};

const CLEAR_SIGHAND: u64 = 0x1_0000_0000;
const VM: u64 = libc::CLONE_VM as u64;
const SIGHAND: u64 = libc::CLONE_SIGHAND as u64;
const SETTLS: u64 = libc::CLONE_SETTLS as u64;
const VFORK: u64 = libc::CLONE_VFORK as u64;
/// The minimum length in bytes of the structure that `clone3` receives, and the indexes of its
/// fields for the stack and the thread pointer.
const RECORD_BYTES_MIN: usize = 64;
const STACK_AT: usize = 5;
const POINTER_AT: usize = 7;

/// The parameters of a call that creates a child.
struct Request {
    number: usize,
    args: [usize; 5],
    /// The structure that `clone3` receives.
    record: [u64; RECORD_WORDS],
    flags: u64,
    /// The child's stack pointer, or 0 if the child uses its parent's stack pointer.
    stack: usize,
}

impl Request {
    fn of(call: &Call) -> Result<Self, isize> {
        let [flags, stack, rest @ ..] = call.args();
        let clone = libc::SYS_clone as usize;
        let mut it = Request {
            number: clone,
            args: [flags, stack, rest[0], rest[1], rest[2]],
            record: [0; RECORD_WORDS],
            flags: flags as u64,
            stack,
        };
        match call.number() as i64 {
            libc::SYS_fork | libc::SYS_vfork => {
                let shares = if call.number() as i64 == libc::SYS_vfork { VM | VFORK } else { 0 };
                it.flags = shares | libc::SIGCHLD as u64;
                (it.args, it.stack) = ([it.flags as usize, 0, 0, 0, 0], 0);
            }
            libc::SYS_clone3 => it.read(flags, stack)?,
            _ => {}
        }
        Ok(it)
    }

    fn read(&mut self, at: usize, bytes: usize) -> Result<(), isize> {
        if !(RECORD_BYTES_MIN..=size_of_val(&self.record)).contains(&bytes) {
            return Err(EINVAL);
        }
        let to = self.record.as_mut_ptr().addr();
        // SAFETY: the record is local, and has at least `bytes` bytes.
        unsafe { user::copy_in(to, at, bytes)? };
        let (start, length) = (self.record[STACK_AT], self.record[STACK_AT + 1]);
        if (start == 0) != (length == 0) {
            return Err(EINVAL);
        }
        self.number = libc::SYS_clone3 as usize;
        (self.args[1], self.flags) = (bytes, self.record[0]);
        self.stack = start.wrapping_add(length) as usize;
        Ok(())
    }

    /// Returns the thread pointer that the call sets for the child, if any.
    fn given_pointer(&self) -> Option<usize> {
        let pointer = match self.number as i64 {
            libc::SYS_clone3 => self.record[POINTER_AT] as usize,
            _ => self.args[4],
        };
        (self.flags & SETTLS != 0).then_some(pointer)
    }

    /// Returns the arguments of the system call that creates the child. `stack` is the range of the
    /// stack on which the child begins, or `None` for its parent's stack.
    fn told(&mut self, flags: u64, stack: Option<(usize, usize)>) -> [usize; 5] {
        let (start, end) = stack.unwrap_or((0, 0));
        if self.number == libc::SYS_clone3 as usize {
            self.record[0] = flags;
            self.record[STACK_AT] = start as u64;
            self.record[STACK_AT + 1] = (end - start) as u64;
            self.args[0] = self.record.as_ptr().addr();
        } else {
            (self.args[0], self.args[1]) = (flags as usize, end);
        }
        self.args
    }
}

/// Handles `clone`, `clone3`, `fork` and `vfork`.
pub(crate) fn make(thread: &Thread, call: &mut Call) -> isize {
    let made = Request::of(call).and_then(|request| {
        if request.flags & VM == 0 {
            Ok(fork(thread, call, request))
        } else {
            share(thread, call, request)
        }
    });
    made.unwrap_or_else(|error| error)
}

/// Creates a child with its own memory.
fn fork(thread: &Thread, call: &mut Call, mut request: Request) -> isize {
    // The thread pointer that the call passes is set later, because the child first runs code of
    // this crate.
    let given = request.given_pointer();
    let flags = request.flags & !(CLEAR_SIGHAND | SETTLS);
    let [a, b, c, d, e] = request.told(flags, None);
    hook().before_fork();
    thread.actions().lock();
    // SAFETY: the program requested this call. The child has a copy of this stack.
    let result = unsafe { raw_syscall(request.number, [a, b, c, d, e, 0]) };
    thread.actions().unlock();
    if result != 0 {
        hook().after_fork_in_parent();
        return result;
    }
    let _armed = selector::arm(thread);
    thread.pointer.set(given.unwrap_or(thread.pointer.get()));
    thread.kind.set(Kind::Thread);
    thread.pending.set(0);
    if request.flags & CLEAR_SIGHAND != 0 {
        thread.actions().clear();
    }
    sites::begin_child();
    hook().after_fork_in_child();
    if request.stack != 0 {
        // SAFETY: the frame is that of the signal that dispatched the call. It lies on this
        // thread's dispatch block.
        unsafe { (*call.frame()).set_stack_pointer(request.stack) };
    }
    0
}

/// Creates a child that shares this process's memory but has its own dispatch block.
fn share(thread: &Thread, call: &mut Call, mut request: Request) -> Result<isize, isize> {
    let flags = request.flags;
    let waits = flags & VFORK != 0;
    let kind = match flags & libc::CLONE_THREAD as u64 != 0 {
        true => Kind::Thread,
        false if waits => Kind::Vfork,
        false => Kind::Sharing,
    };
    let child = Thread::make(thread.actions_pointer(), kind)?;
    if flags & SIGHAND == 0 {
        child.own_actions(thread.actions());
        child.clears.set(flags & CLEAR_SIGHAND != 0);
    } else if thread.has_own_actions() {
        thread.is_lent.set(true);
    }
    // SAFETY: the frame is that of the signal that dispatched the call. It lies on this thread's
    // dispatch block.
    let mut context = unsafe { *call.frame() };
    context.set_result(0);
    if request.stack != 0 {
        context.set_stack_pointer(request.stack);
    }
    let given = request.given_pointer();
    child.pointer.set(given.unwrap_or(thread.pointer.get()));
    child.set_shadow(thread.shadow());
    if waits {
        child.altstack.set(thread.altstack.get());
    }
    hook().thread_begins();
    let made = deliver::copy_to(child, &context).map(|at| {
        let args = request.told(flags & !CLEAR_SIGHAND, Some((child.stack().start, at)));
        // Signals are blocked, because the child may have its parent's signal stack until it
        // returns from its frame.
        // SAFETY: the dispatch block belongs to the child, and the frame on it is a copy of a frame
        // of the kernel. `set_mask` only reads the masks.
        unsafe {
            set_mask(&u64::MAX);
            let made = clone(request.number, &args, at, child_begins);
            set_mask(&BLOCK);
            made
        }
    });
    if kind == Kind::Vfork || !matches!(made, Ok(1..)) {
        // SAFETY: no child was created, or the child has left this memory, so no code uses the
        // child's dispatch block.
        unsafe { child.free() };
        hook().thread_ends();
    }
    made
}

/// The function that a child runs first.
extern "C" fn child_begins(frame: usize) {
    // SAFETY: the frame lies in the child's dispatch block.
    let thread = unsafe { Thread::of(frame) };
    let _armed = selector::arm(thread);
    if thread.clears.get() {
        thread.actions().clear();
    }
    selector::dispatch(thread);
}

/// Handles `exit` and `exit_group`. First unmaps the dispatch block, unless all memory of the
/// process is freed, the parent unmaps the block, or other threads use the block's actions.
pub(crate) fn end(thread: &Thread, call: &Call) -> isize {
    let (number, code) = (call.number(), call.args()[0]);
    let is_group = number as i64 == libc::SYS_exit_group;
    let goes = match thread.kind.get() {
        Kind::Thread => !is_group,
        Kind::Sharing => true,
        Kind::Vfork => false,
    };
    if goes {
        hook().thread_ends();
    }
    // SAFETY: the thread ends, and receives no signal before its end.
    unsafe {
        if goes && !thread.is_lent.get() {
            set_mask(&u64::MAX);
            thread.free_apart();
            leave(thread.base(), BLOCK_BYTES, number, code);
        }
        raw_syscall(number, [code, 0, 0, 0, 0, 0])
    }
}
