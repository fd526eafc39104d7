//! A thread's block: what is known of it, and the stack on which this crate's code runs.
//!
//! ```text
//!   base, a multiple of BLOCK_BYTES:
//!   | Thread: a page, or two | PROT_NONE: a page | stack | storage |
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
pub(crate) use crate::block::BLOCK_BYTES;
use crate::block::{HEAD_BYTES, PART_BYTES, StoragePlace, lay_out_storage, map_block, memory};
use crate::mask::{self, OWNED, bit};
use crate::x86_64::frame::{Context, Info, NO_STACK, Stack};
use std::cell::Cell;
use std::mem::offset_of;
use std::ptr::{NonNull, write};
use std::sync::atomic::AtomicU8;

/// What the selector says: calls are let through, or dispatched.
pub(crate) const ALLOW: u8 = 0;
pub(crate) const DISPATCH: u8 = 1;

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
    pub(crate) selector: AtomicU8,
    /// Whether the thread is dispatched no more.
    pub(crate) has_left: Cell<bool>,
    /// The thread pointer while code of ours runs: its thread-local storage lies there.
    pub(crate) storage: Cell<usize>,
    /// The program's thread pointer while code of ours runs.
    pub(crate) pointer: Cell<usize>,
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
    /// The bytes of the block that are no stack, at its end.
    end_bytes: usize,
    /// The mapping of storage that is too large for the block.
    apart: Option<(usize, usize)>,
}

const _: () = assert!(size_of::<Thread>() <= PART_BYTES);
// As instructions.s has them.
const _: () = assert!(offset_of!(Thread, storage) == 8 && offset_of!(Thread, pointer) == 16);
const _: () = assert!(BLOCK_BYTES == 262_144);

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
        let StoragePlace { pointer, end_bytes, apart } = lay_out_storage(base)?;
        let thread = Thread {
            selector: AtomicU8::new(ALLOW),
            has_left: Cell::new(false),
            storage: Cell::new(pointer),
            pointer: Cell::new(0),
            kind: Cell::new(kind),
            shadow: Cell::new(0),
            altstack: Cell::new(NO_STACK),
            pending: Cell::new(0),
            infos: [const { Cell::new(Info::NONE) }; 3],
            is_lent: Cell::new(false),
            clears: Cell::new(false),
            actions: Cell::new(actions),
            own: Actions::new(),
            end_bytes,
            apart,
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
        // SAFETY: the mappings are the block's, and the caller gives them up.
        unsafe {
            self.free_apart();
            let _ = memory(libc::SYS_munmap, [self.base(), BLOCK_BYTES, 0, 0, 0, 0]);
        }
    }

    /// Gives back what the thread has beside its block.
    ///
    /// # Safety
    /// The thread uses no thread-local storage of ours any more.
    pub(crate) unsafe fn free_apart(&self) {
        if let Some((start, bytes)) = self.apart {
            // SAFETY: the mapping is the thread's, and the caller gives it up.
            let _ = unsafe { memory(libc::SYS_munmap, [start, bytes, 0, 0, 0, 0]) };
        }
    }

    pub(crate) fn base(&self) -> usize {
        (&raw const *self).addr()
    }

    /// The stack of this crate's code.
    pub(crate) fn stack(&self) -> Stack {
        let (start, bytes) = (self.base() + HEAD_BYTES, BLOCK_BYTES - HEAD_BYTES - self.end_bytes);
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
