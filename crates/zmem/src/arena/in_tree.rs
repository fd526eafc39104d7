//! An arena's process among others: what they are told of it, and what it does for them.

use super::Arena;
use crate::evict::Goal;
use crate::figures::Figures;
use crate::holdings::Holdings;
use crate::process::shares_memory;
use crate::tree::{LACKING, Lost, Member, TRACED};

impl Arena {
    /// Evicts down to this process's share of the limit, as long as the tree is short of room; or
    /// all the way, as one that `waits` does not need it now. Where hardly anything could go, that
    /// is tried again later: else each call of a program whose data do not compress would try all.
    pub fn yield_room(&self, waits: bool) {
        let limit = &self.calls.pager.limit;
        let is_more = || match waits {
            true => limit.is_above_share(),
            false => limit.is_above_share_and_short(),
        };
        let step = self.calls.pager.step_units();
        while limit.may_try() && is_more() {
            self.calls.pager.paced(step, || self.calls.evict(Goal::AtLeast(step)));
        }
    }

    /// Does so after much was unpinned: that may go, though nothing could before, and the system
    /// may have written to what was opened for it since that was counted.
    pub fn yield_unpinned(&self) {
        self.weigh_process();
        self.calls.pager.limit.set_stuck(false);
        self.yield_room(false);
    }

    /// Takes note of memory of this process's that is not the arena's.
    pub fn weigh_process(&self) {
        self.calls.pager.limit.weigh_process();
    }

    /// Returns whether this process uses another one's memory, and so its arena, as a child of
    /// `vfork` does.
    pub fn is_lent(&self) -> bool {
        shares_memory()
    }

    /// Gives this process's place in its tree back, as it is about to end.
    pub fn leave_tree(&self) {
        self.calls.pager.limit.member.iter().for_each(Member::end);
    }

    /// Says that this thread is about to wait for another process: if the tree becomes short of
    /// room it is sent a signal, for which see [`poke`](crate::poke).
    pub fn waits(&self) {
        self.calls.pager.limit.member.iter().for_each(Member::waits);
    }

    /// Says that this process has a handler for signals of its tree.
    pub fn hear(&self) {
        self.calls.pager.limit.member.iter().for_each(Member::hear);
    }

    /// Agrees to fill no block in place, because another process reads and writes this one's
    /// memory. No thread of this process is filling one.
    pub fn agree(&self) {
        self.calls.pager.limit.member.iter().for_each(Member::agree);
    }

    /// Evicts nothing from now on, until [`evict_again`](Self::evict_again): a debugger looks at
    /// the memory of this process. When this returns, no other thread evicts. This thread holds no
    /// lock of the arena's.
    pub fn keep_all(&self) {
        self.calls.pager.limit.member.iter().for_each(Member::keep_all);
        let _kept = self.calls.inside(|pager| drop(pager.evictor.lock()));
    }

    /// Returns whether [`note_whole`](Self::note_whole) was called, and no debugger has asked
    /// since.
    pub fn is_whole(&self) -> bool {
        self.calls.pager.limit.member.as_ref().is_some_and(Member::is_whole)
    }

    /// Says that all memory is resident.
    pub fn note_whole(&self) {
        self.calls.pager.limit.member.iter().for_each(Member::note_whole);
    }

    /// Ends what [`keep_all`](Self::keep_all) has begun.
    pub fn evict_again(&self) {
        self.calls.pager.limit.member.iter().for_each(Member::keep_no_more);
        self.calls.pager.limit.set_stuck(false);
    }

    /// Sets whether debuggers of the tree ask this process for nothing, because it is confined.
    pub fn set_confined(&self, is_confined: bool) {
        self.calls.pager.limit.member.iter().for_each(|member| member.set_confined(is_confined));
    }

    /// Says that it waits no more.
    pub fn waited(&self) {
        self.calls.pager.limit.member.iter().for_each(Member::waited);
    }

    /// Has this process hold nothing, for its tree, as it is about to execute a program, which goes
    /// on from what its figures tell that it did.
    pub fn hush(&self, figures: &Figures) {
        if let Some(member) = &self.calls.pager.limit.member {
            member.deafen();
            member.set_hushed(Some(figures));
        }
    }

    /// Makes it hold its memory again, because it was refused to execute a program.
    pub fn unhush(&self) {
        self.calls.pager.limit.member.iter().for_each(|member| member.set_hushed(None));
        self.hear();
        self.weigh_process();
    }

    /// Returns the facts if a process found that the limit can't be kept. One process of the tree
    /// that may report them gets them, once.
    pub fn take_lost(&self, may_say: impl FnOnce(&Lost) -> bool) -> Option<Lost> {
        self.calls.pager.limit.member.as_ref().and_then(|member| member.take_lost(may_say))
    }

    /// Returns the memory of this process by kinds.
    pub fn holdings(&self) -> Holdings {
        self.calls.pager.holdings()
    }

    /// Weighs shared memory, if this process maps some and that is due. It opens files.
    pub fn weigh_shared(&self) {
        self.calls.pager.limit.member.iter().for_each(Member::weigh_shared);
    }

    /// Takes note that this process maps shared memory, which counts once in a tree.
    pub fn maps_shared(&self) {
        self.calls.pager.limit.member.iter().for_each(Member::maps_shared);
    }

    /// Returns the bytes of blocks that a larger limit would keep resident, if faults have taken
    /// half of the time for 10 s. One process of the tree that may report this gets it, once.
    pub fn take_lacking(&self, may_say: impl FnOnce() -> bool) -> Option<u64> {
        let lacks = self.calls.pager.lacks()?;
        let member = self.calls.pager.limit.member.as_ref()?;
        member.takes(LACKING, may_say).then_some(lacks)
    }

    /// Returns whether this process is the first one of its tree that says that it is traced.
    pub fn takes_traced(&self, may_say: impl FnOnce() -> bool) -> bool {
        self.calls.pager.limit.member.as_ref().is_some_and(|own| own.takes(TRACED, may_say))
    }

    /// Returns its figures, and what this process holds for its tree.
    pub fn figures(&self) -> Figures {
        let limit = &self.calls.pager.limit;
        let tree_held = limit.member.as_ref().map_or(0, |member| member.held(limit.held()));
        Figures { tree_held, ..Figures::of(&self.stats()) }
    }

    /// Returns this process's figures with what it did before it executed its program.
    pub fn with_before(&self, figures: Figures) -> Figures {
        let before = self.calls.pager.limit.member.as_ref().and_then(Member::before);
        before.map(|before| figures.after(before)).unwrap_or(figures)
    }

    /// Returns whether [`show`](Self::show) is worth its time: there is a tree, and the system's
    /// coarse clock has gone on since this was last asked.
    pub fn is_show_due(&self) -> bool {
        self.calls.pager.limit.member.as_ref().is_some_and(Member::is_show_due)
    }

    /// Has those see a process's figures who read its tree: see [`Seen`](crate::Seen).
    pub fn show(&self, figures: &Figures) {
        self.calls.pager.limit.member.iter().for_each(|member| member.show(figures));
    }
}
