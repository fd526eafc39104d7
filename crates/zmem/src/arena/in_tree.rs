//! Communication of an arena's process with the other processes of its tree.

use super::Arena;
use crate::evict::Goal;
use crate::figures::Figures;
use crate::holdings::{Holdings, holdings};
use crate::process::shares_memory;
use crate::room;
use crate::told;
use crate::tree::{LACKING, Lost, Member, TRACED};

impl Arena {
    /// While the tree is short of room, evicts until this process holds at most its share of the
    /// limit. If `waits`, evicts even if the tree is not short of room, because a waiting process
    /// does not need the memory. After an attempt that evicted hardly anything, this function does
    /// nothing for a while, because otherwise each call would try every block of a program whose
    /// data do not compress.
    pub fn yield_room(&self, waits: bool) {
        let limit = &self.calls.pager.limit;
        let is_more = || match waits {
            true => limit.is_above_share(),
            false => limit.is_above_share_and_short(),
        };
        let step = self.calls.pager.step_blocks();
        while limit.may_try() && is_more() {
            room::paced(&self.calls.pager, step, || self.calls.evict(Goal::AtLeast(step)));
        }
    }

    /// Evicts as [`yield_room`](Self::yield_room) does, after many blocks were unpinned. The
    /// unpinned blocks may be evictable now, and the kernel may have written to opened blocks since
    /// the memory was last counted.
    pub fn yield_unpinned(&self) {
        self.weigh_process();
        self.calls.pager.limit.set_stuck(false);
        self.yield_room(false);
    }

    /// Records how much memory this process uses outside of the arena.
    pub fn weigh_process(&self) {
        self.calls.pager.limit.weigh_process();
    }

    /// Returns whether this process uses the memory of another process, and therefore that
    /// process's arena, as a child of `vfork` does.
    pub fn is_lent(&self) -> bool {
        shares_memory()
    }

    /// Frees this process's slot in its tree, because the process is about to end. If the process
    /// could not report its figures, the figures that it published last remain.
    pub fn leave_tree(&self, is_reported: bool) {
        self.calls.pager.limit.member.iter().for_each(|member| member.leave(is_reported));
    }

    /// Records that this thread is about to wait for another process. If the tree becomes short of
    /// room during the wait, the thread is sent a signal: see [`poke`](crate::poke).
    pub fn waits(&self) {
        self.calls.pager.limit.member.iter().for_each(Member::waits);
    }

    /// Records that this process has a handler for the signals of its tree.
    pub fn hear(&self) {
        self.calls.pager.limit.member.iter().for_each(Member::hear);
    }

    /// Agrees to fill no block in place, because another process reads and writes this process's
    /// memory. The caller guarantees that no thread of this process is filling a block in place.
    pub fn agree(&self) {
        self.calls.pager.limit.member.iter().for_each(Member::agree);
    }

    /// Stops evictions until [`evict_again`](Self::evict_again), because a debugger reads the
    /// memory of this process. When this returns, no other thread evicts. The calling thread holds
    /// no lock of the arena.
    pub fn keep_all(&self) {
        self.calls.pager.limit.member.iter().for_each(Member::keep_all);
        let _kept = self.calls.inside(|pager| drop(pager.eviction_lock.lock()));
    }

    /// Returns whether [`note_whole`](Self::note_whole) was called and no debugger has sent a
    /// request since.
    pub fn is_whole(&self) -> bool {
        self.calls.pager.limit.member.as_ref().is_some_and(Member::is_whole)
    }

    /// Records that all memory of this process is resident.
    pub fn note_whole(&self) {
        self.calls.pager.limit.member.iter().for_each(Member::note_whole);
    }

    /// Permits evictions again after [`keep_all`](Self::keep_all).
    pub fn evict_again(&self) {
        self.calls.pager.limit.member.iter().for_each(Member::keep_no_more);
        self.calls.pager.limit.set_stuck(false);
    }

    /// Sets whether this process is confined. Debuggers of the tree send no requests to a confined
    /// process.
    pub fn set_confined(&self, is_confined: bool) {
        self.calls.pager.limit.member.iter().for_each(|member| member.set_confined(is_confined));
    }

    /// Records that the wait announced by [`waits`](Self::waits) has ended.
    pub fn waited(&self) {
        self.calls.pager.limit.member.iter().for_each(Member::waited);
    }

    /// Publishes that this process holds no memory, because it is about to execute a program. The
    /// new program adds its own figures to `figures`.
    pub fn hush(&self, figures: &Figures) {
        if let Some(member) = &self.calls.pager.limit.member {
            member.deafen();
            member.set_hushed(Some(figures));
        }
    }

    /// Undoes [`hush`](Self::hush) after the kernel refused to execute the program.
    pub fn unhush(&self) {
        self.calls.pager.limit.member.iter().for_each(|member| member.set_hushed(None));
        self.hear();
        self.weigh_process();
    }

    /// Returns facts about the limit if a process of the tree found that the limit can't be kept.
    /// The facts are returned once, to one process of the tree for which `may_say` returns true.
    pub fn take_lost(&self, may_say: impl FnOnce(&Lost) -> bool) -> Option<Lost> {
        self.calls.pager.limit.member.as_ref().and_then(|member| member.take_lost(may_say))
    }

    /// Returns the sizes of this process's memory by kind.
    pub fn holdings(&self) -> Holdings {
        holdings(&self.calls.pager)
    }

    /// Measures the process's shared memory, if it maps any and a measurement is due. Opens files.
    pub fn weigh_shared(&self) {
        self.calls.pager.limit.member.iter().for_each(Member::weigh_shared);
    }

    /// Records that this process maps shared memory, which counts once in a tree.
    pub fn maps_shared(&self) {
        self.calls.pager.limit.member.iter().for_each(Member::maps_shared);
    }

    /// If faults have taken half of the time for 10 s, returns the bytes of blocks that a larger
    /// limit would keep resident. The number is returned once, to one process of the tree for which
    /// `may_say` returns true.
    pub fn take_lacking(&self, may_say: impl FnOnce() -> bool) -> Option<u64> {
        let lacks = told::lacks(&self.calls.pager)?;
        let member = self.calls.pager.limit.member.as_ref()?;
        member.takes(LACKING, may_say).then_some(lacks)
    }

    /// Returns true once, to the first process of the tree for which `may_say` returns true. That
    /// process reports that it is traced.
    pub fn takes_traced(&self, may_say: impl FnOnce() -> bool) -> bool {
        self.calls.pager.limit.member.as_ref().is_some_and(|own| own.takes(TRACED, may_say))
    }

    /// Returns the arena's figures, and the bytes that this process holds in its tree.
    pub fn figures(&self) -> Figures {
        let limit = &self.calls.pager.limit;
        let tree_held = limit.member.as_ref().map_or(0, |member| member.held(limit.held()));
        Figures { tree_held, ..Figures::of(&self.stats()) }
    }

    /// Returns `figures` plus the figures of this process before it executed its program.
    pub fn with_before(&self, figures: Figures) -> Figures {
        let before = self.calls.pager.limit.member.as_ref().and_then(Member::before);
        before.map(|before| figures.after(before)).unwrap_or(figures)
    }

    /// Returns whether [`show`](Self::show) is worth its cost: the process is in a tree, and the
    /// kernel's coarse clock has advanced since the last call.
    pub fn is_show_due(&self) -> bool {
        self.calls.pager.limit.member.as_ref().is_some_and(Member::is_show_due)
    }

    /// Publishes the process's figures to the readers of its tree (see [`Seen`](crate::Seen)).
    pub fn show(&self, figures: &Figures) {
        self.calls.pager.limit.member.iter().for_each(|member| member.show(figures));
    }
}
