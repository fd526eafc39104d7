//! A thread's block: what is known of it, and the stack on which this crate's code runs.
//!
//! ```text
//!   base, a multiple of BLOCK_BYTES: | Thread: a page, or two | PROT_NONE: a page | stack |
//! ```
//! The system has the stack as the thread's alternate one, always (di-1): each signal begins at its
//! end, or below what a signal of ours interrupted. An address on it leads to the block: no
//! thread-local storage is needed, and threads that the C library knows nothing of have one too.
//!
//! # Safety
//! A block is its thread's own, from the call that makes the thread to the one that ends it. Its
//! cells are reached from that thread's handlers alone, and from who makes it before it runs.
#![allow(unsafe_code)]

use crate::actions::Actions;
use crate::mask::{self, OWNED, bit};
use crate::x86_64::frame::{Context, Info, NO_STACK, Stack};
use crate::x86_64::instructions::{range, raw_syscall};
use std::cell::Cell;
use std::ptr::{NonNull, write};
use std::sync::atomic::{AtomicU8, Ordering};

/// Address space of a block: more than a hook that decompresses takes. What is not touched costs no
/// memory.
pub(crate) const BLOCK_BYTES: usize = 256 << 10;
/// The part of a block that is no stack: [`Thread`], and a guard.
const HEAD_BYTES: usize = 2 * PART_BYTES;
/// Of each: a page, or a larger system's.
const PART_BYTES: usize = 16 << 10;
const PR_SET_SYSCALL_USER_DISPATCH: usize = 59;
const PR_SYS_DISPATCH_ON: usize = 1;
/// What the selector says: calls are let through, or dispatched.
const ALLOW: u8 = 0;
const DISPATCH: u8 = 1;

/// What a thread is to its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A thread, the first one too.
    Thread,
    /// A process of its own that has its parent's memory, and its parent goes on.
    Sharing,
    /// The same, and its parent waits: it gives the block back.
    Vfork,
}

#[repr(C)]
#[derive(Debug)]
pub(crate) struct Thread {
    /// What the system reads before it dispatches.
    selector: AtomicU8,
    pub(crate) kind: Cell<Kind>,
    /// Those of [`OWNED`] that the program believes blocked.
    shadow: Cell<u64>,
    /// The program's alternate stack.
    pub(crate) altstack: Cell<Stack>,
    /// Signals of [`OWNED`] that came when they could not be delivered, and what they said.
    pub(crate) pending: Cell<u64>,
    infos: [Cell<Info>; 3],
    /// Whether others may use `own`, so that the block stays.
    pub(crate) is_lent: Cell<bool>,
    /// Whether its handlers are to be forgotten before it begins.
    pub(crate) clears: Cell<bool>,
    actions: Cell<NonNull<Actions>>,
    /// The actions of a process that shares memory, and not these.
    own: Actions,
}

const _: () = assert!(size_of::<Thread>() <= PART_BYTES);

/// Maps, unmaps or protects.
///
/// # Safety
/// What the call changes is the caller's.
unsafe fn memory(number: i64, args: [usize; 6]) -> Result<usize, isize> {
    // SAFETY: the caller vouches for it.
    let result = unsafe { raw_syscall(number as usize, args) };
    if result < 0 { Err(result) } else { Ok(result as usize) }
}

/// Address space that is a block's, aligned to its size.
fn map_block() -> Result<usize, isize> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let rw = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    // SAFETY: all of it is a mapping made here, of which the block in it is kept.
    unsafe {
        let args = [0, 2 * BLOCK_BYTES, rw, flags as usize, usize::MAX, 0];
        let start = memory(libc::SYS_mmap, args)?;
        let base = start.next_multiple_of(BLOCK_BYTES);
        if base > start {
            memory(libc::SYS_munmap, [start, base - start, 0, 0, 0, 0])?;
        }
        let rest = start + BLOCK_BYTES - base;
        if rest > 0 {
            memory(libc::SYS_munmap, [base + BLOCK_BYTES, rest, 0, 0, 0, 0])?;
        }
        let guard = [base + PART_BYTES, PART_BYTES, libc::PROT_NONE as usize, 0, 0, 0];
        memory(libc::SYS_mprotect, guard)?;
        Ok(base)
    }
}

impl Thread {
    /// The thread whose block an address lies in.
    ///
    /// # Safety
    /// It lies in a block that lives for `'t`: on this thread's stack of this crate, for one.
    pub(crate) unsafe fn of<'t>(address: usize) -> &'t Thread {
        // SAFETY: blocks are aligned to their size, and begin with it.
        unsafe { &*((address & !(BLOCK_BYTES - 1)) as *const Thread) }
    }

    /// Makes the block of a thread that does not run yet. Its calls are let through.
    ///
    /// # Errors
    /// What the system says of memory that it does not give.
    pub(crate) fn make<'t>(actions: NonNull<Actions>, kind: Kind) -> Result<&'t Thread, isize> {
        let base = map_block()?;
        let thread = Thread {
            selector: AtomicU8::new(ALLOW),
            kind: Cell::new(kind),
            shadow: Cell::new(0),
            altstack: Cell::new(NO_STACK),
            pending: Cell::new(0),
            infos: [const { Cell::new(Info::NONE) }; 3],
            is_lent: Cell::new(false),
            clears: Cell::new(false),
            actions: Cell::new(actions),
            own: Actions::new(),
        };
        // SAFETY: the mapping is new, nobody else's, aligned, and its head long enough.
        unsafe {
            write(base as *mut Thread, thread);
            Ok(Thread::of(base))
        }
    }

    /// Gives a block back whose thread does not run, or has ended.
    ///
    /// # Safety
    /// Nobody looks at it any more.
    pub(crate) unsafe fn free(&self) {
        // SAFETY: the mapping is the block's, and the caller gives it up.
        let _ = unsafe { memory(libc::SYS_munmap, [self.base(), BLOCK_BYTES, 0, 0, 0, 0]) };
    }

    pub(crate) fn base(&self) -> usize {
        (&raw const *self).addr()
    }

    /// Has this thread's calls be dispatched from now on, as the selector says.
    pub(crate) fn arm(&self) -> isize {
        let (start, bytes) = range();
        let selector = self.selector.as_ptr().addr();
        let args = [PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, start, bytes, selector, 0];
        // SAFETY: the selector lives as long as the thread makes calls from outside of the range.
        unsafe { raw_syscall(libc::SYS_prctl as usize, args) }
    }

    /// Lets calls of this crate's code, and of what it calls, through.
    pub(crate) fn let_through(&self) {
        self.selector.store(ALLOW, Ordering::Relaxed);
    }

    /// Has calls be dispatched: what follows is a return to the program.
    pub(crate) fn dispatch(&self) {
        self.selector.store(DISPATCH, Ordering::Release);
    }

    /// The stack of this crate's code.
    pub(crate) fn stack(&self) -> Stack {
        let (start, bytes) = (self.base() + HEAD_BYTES, BLOCK_BYTES - HEAD_BYTES);
        Stack { start, flags: 0, padding: 0, bytes }
    }

    pub(crate) fn is_here(&self, pointer: usize) -> bool {
        self.stack().holds(pointer)
    }

    pub(crate) fn actions(&self) -> &Actions {
        // SAFETY: of the program, or of a block that stays while it is lent.
        unsafe { self.actions.get().as_ref() }
    }

    pub(crate) fn actions_pointer(&self) -> NonNull<Actions> {
        self.actions.get()
    }

    /// Has the thread have a copy of another's actions.
    pub(crate) fn own_actions(&self, other: &Actions) {
        self.own.copy_of(other);
        self.actions.set(NonNull::from(&self.own));
    }

    /// Whether the actions are this block's.
    pub(crate) fn has_own_actions(&self) -> bool {
        self.actions.get() == NonNull::from(&self.own)
    }

    /// The mask that the program has, as it sees it.
    pub(crate) fn mask(&self, context: &Context) -> u64 {
        context.mask | self.shadow.get()
    }

    pub(crate) fn set_mask(&self, context: &mut Context, mask: u64) {
        self.shadow.set(mask & OWNED);
        context.mask = mask::of_system(mask);
    }

    pub(crate) fn shadow(&self) -> u64 {
        self.shadow.get()
    }

    pub(crate) fn set_shadow(&self, mask: u64) {
        self.shadow.set(mask & OWNED);
    }

    fn info_of(&self, signal: i32) -> &Cell<Info> {
        match signal {
            libc::SIGSYS => &self.infos[0],
            libc::SIGSEGV => &self.infos[1],
            _ => &self.infos[2],
        }
    }

    /// Keeps a signal of ours until it can be delivered; further ones of its kind are lost, as the
    /// system does it.
    pub(crate) fn defer(&self, info: &Info) {
        if self.pending.get() & bit(info.signal) == 0 {
            self.info_of(info.signal).set(*info);
            self.pending.set(self.pending.get() | bit(info.signal));
        }
    }

    pub(crate) fn has_ready(&self) -> bool {
        self.pending.get() & !self.shadow.get() != 0
    }

    /// A signal that was kept and is not blocked.
    pub(crate) fn take_pending(&self) -> Option<Info> {
        let ready = self.pending.get() & !self.shadow.get();
        if ready == 0 {
            return None;
        }
        let signal = ready.trailing_zeros() as i32 + 1;
        self.pending.set(self.pending.get() & !bit(signal));
        Some(self.info_of(signal).get())
    }
}
