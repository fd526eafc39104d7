//! A thread's dispatch block: its state, and the stack on which this crate's code runs.
//!
//! ```text
//!   base, a multiple of BLOCK_BYTES:
//!   | Thread: PART_BYTES | PROT_NONE: PART_BYTES | stack | storage |
//! ```
//! The stack in the block is always the thread's alternate signal stack in the kernel (di-1). The
//! frame of a signal lies at the stack's end, or below the frame of an interrupted handler. Any
//! address on the stack determines the block, so finding the block needs no thread-local storage.
//! Threads that the C library did not create have a block too.
//!
//! # Safety
//! A block belongs to its thread, from the call that creates the thread to the call that ends it.
//! Before the thread runs, only its creator accesses the block's cells. While the thread runs, only
//! the thread's handlers access the cells.
#![allow(unsafe_code)]

use crate::actions::Actions;
use crate::block::{self, StoragePlace, lay_out_storage, map_block};
use crate::mask::{self, OWNED, bit};
use crate::policy::{BLOCK_BYTES, HEAD_BYTES, PART_BYTES};
use crate::system::system;
use crate::x86_64::frame::{Context, NO_STACK, Stack};
use crate::x86_64::info::Info;
use std::cell::Cell;
use std::mem::offset_of;
use std::ptr::{NonNull, write};
use std::sync::atomic::AtomicU8;

/// The values of the selector: the kernel executes the thread's calls, or dispatches them.
pub(crate) const ALLOW: u8 = 0;
pub(crate) const DISPATCH: u8 = 1;

/// The kind of a thread: an ordinary thread, or a process that shares its parent's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A thread, including the first one.
    Thread,
    /// A process that shares its parent's memory, while the parent continues.
    Sharing,
    /// A process that shares its parent's memory, while the parent waits. The parent unmaps the
    /// block when it continues.
    Vfork,
}

#[repr(C)]
#[derive(Debug)]
pub(crate) struct Thread {
    /// The byte that determines whether the kernel dispatches the thread's calls.
    pub(crate) selector: AtomicU8,
    /// Whether the thread's calls are no longer dispatched.
    pub(crate) has_left: Cell<bool>,
    /// The thread pointer of this crate's code: the address of its thread-local storage.
    pub(crate) storage: Cell<usize>,
    /// The program's thread pointer, saved while this crate's code runs.
    pub(crate) pointer: Cell<usize>,
    pub(crate) kind: Cell<Kind>,
    /// The signals of [`OWNED`] that the program has blocked.
    shadow: Cell<u64>,
    /// The program's alternate stack.
    pub(crate) altstack: Cell<Stack>,
    /// The signals of [`OWNED`] that wait for delivery, and the `siginfo_t`s of these signals.
    pub(crate) pending: Cell<u64>,
    infos: [Cell<Info>; 3],
    /// Whether other threads may use the actions in `own`. If so, the block is never unmapped.
    pub(crate) is_lent: Cell<bool>,
    /// Whether signal handlers are reset before the program continues in this child.
    pub(crate) clears: Cell<bool>,
    actions: Cell<NonNull<Actions>>,
    /// The signal actions of a process that shares its parent's memory, but has its own signal
    /// actions.
    own: Actions,
    /// The number of bytes at the end of the block that are not part of the stack.
    end_bytes: usize,
    /// The address and length of a separate mapping for storage that is too large for the block.
    apart: Option<(usize, usize)>,
}

const _: () = assert!(size_of::<Thread>() <= PART_BYTES);
// instructions.s uses these offsets.
const _: () = assert!(offset_of!(Thread, storage) == 8 && offset_of!(Thread, pointer) == 16);

impl Thread {
    /// Returns the thread whose dispatch block contains `address`.
    ///
    /// # Safety
    /// `address` lies in a block that stays mapped for `'t`, such as the block on whose stack the
    /// caller runs.
    pub(crate) unsafe fn of<'t>(address: usize) -> &'t Thread {
        // SAFETY: blocks are aligned to their size, and begin with a `Thread`.
        unsafe { &*(block::base(address) as *const Thread) }
    }

    /// Creates the dispatch block of a thread that does not run yet. The selector lets the thread's
    /// calls through.
    ///
    /// # Errors
    /// Fails with the kernel's error number if the kernel provides no memory.
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
        // SAFETY: the mapping is new, aligned and not used by other code. Its head is long enough.
        unsafe {
            write(base as *mut Thread, thread);
            Ok(Thread::of(base))
        }
    }

    /// Unmaps the dispatch block of a thread that does not run yet, or has ended.
    ///
    /// # Safety
    /// No code accesses the block any more.
    pub(crate) unsafe fn free(&self) {
        // SAFETY: the caller no longer uses the block.
        unsafe { self.free_apart() };
        let _ = system(libc::SYS_munmap, [self.base(), BLOCK_BYTES, 0, 0, 0, 0]);
    }

    /// Unmaps the thread's storage outside of its block.
    ///
    /// # Safety
    /// The thread no longer uses thread-local storage of this crate.
    pub(crate) unsafe fn free_apart(&self) {
        if let Some((start, bytes)) = self.apart {
            let _ = system(libc::SYS_munmap, [start, bytes, 0, 0, 0, 0]);
        }
    }

    pub(crate) fn base(&self) -> usize {
        (&raw const *self).addr()
    }

    /// Returns the stack of this crate's code.
    pub(crate) fn stack(&self) -> Stack {
        let (start, bytes) = (self.base() + HEAD_BYTES, BLOCK_BYTES - HEAD_BYTES - self.end_bytes);
        Stack { start, flags: 0, padding: 0, bytes }
    }

    pub(crate) fn is_on_own_stack(&self, pointer: usize) -> bool {
        self.stack().holds(pointer)
    }

    pub(crate) fn actions(&self) -> &Actions {
        // SAFETY: the actions are static, or lie in a block that stays mapped while other threads
        // use it.
        unsafe { self.actions.get().as_ref() }
    }

    pub(crate) fn actions_pointer(&self) -> NonNull<Actions> {
        self.actions.get()
    }

    /// Copies the actions of `other` to this thread's own dispatch block. The thread then uses the
    /// copy.
    pub(crate) fn own_actions(&self, other: &Actions) {
        self.own.copy_of(other);
        self.actions.set(NonNull::from(&self.own));
    }

    /// Returns whether the thread uses the actions of its own dispatch block.
    pub(crate) fn has_own_actions(&self) -> bool {
        self.actions.get() == NonNull::from(&self.own)
    }

    /// Returns the thread's mask as the program sees it.
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

    /// Keeps an owned signal until it can be delivered. Like the kernel, drops further signals with
    /// the same number.
    pub(crate) fn defer(&self, info: &Info) {
        if self.pending.get() & bit(info.signal) == 0 {
            self.info_of(info.signal).set(*info);
            self.pending.set(self.pending.get() | bit(info.signal));
        }
    }

    pub(crate) fn has_ready(&self) -> bool {
        self.pending.get() & !self.shadow.get() != 0
    }

    /// Removes and returns a kept signal that is not blocked.
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
