//! A process in its group: the numbers that the process publishes, its figures from before its last
//! `execve`, and its part in the protocols of `peers` and `waits`.

use crate::figures::Figures;
use crate::group::ProcessGroup;
use crate::inherited::Sharing;
use crate::layout::{EXECUTES, MAPS};
use crate::own_slot::OwnSlot;
use crate::peers::{AGREED, CONFINED, HEARS, KEEPS, Peers, WHOLE};
use crate::{shared_memory, waits};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize};
use zmem::{Arena, SharedLimit, milliseconds};

/// The membership of this process in its group.
#[derive(Debug)]
pub struct GroupMember {
    pub(crate) slot: OwnSlot,
    /// The number of bytes of the process's memory minus the number of bytes that its pager counts.
    pub(crate) beside: AtomicI64,
    pub(crate) samples: AtomicUsize,
    /// The time of the last measurement of the process's memory, in milliseconds.
    pub(crate) measured: AtomicU64,
    /// The time when the process last published its figures, in milliseconds.
    shown: AtomicU64,
    /// Whether the process is about to execute a program.
    pub(crate) is_executing: AtomicBool,
    /// The figures of this process from before it executed its program.
    before: Figures,
    /// Whether the PID namespaces of the process and of the group differ.
    pub(crate) is_foreign: AtomicBool,
    pub(crate) sharing: Sharing,
    /// The number of bytes by which the unevictable memory of all processes exceeds the limit,
    /// divided by `large`.
    pub(crate) excess: AtomicU64,
    /// The number of large processes when `excess` was set.
    pub(crate) large: AtomicU64,
    /// Whether this process has mapped shared memory.
    maps_shared: AtomicBool,
    /// The numbers of bytes that this process could not evict when it last found that the limit
    /// can't be kept, in the order of `Unevictable`.
    pub(crate) unevictable: [AtomicU64; 4],
}

impl GroupMember {
    /// Makes this process a member of `group` and takes a slot. If no slot is free, this process
    /// counts the memory of the other processes, but they do not count the memory of this process.
    pub fn new(group: ProcessGroup) -> Self {
        let mut member = GroupMember::without_slot(group);
        member.slot.take(&member.sharing);
        if member.slot.is_taken() {
            member.before = group.said(member.slot.nth());
        }
        member
    }

    pub(crate) fn without_slot(group: ProcessGroup) -> Self {
        GroupMember {
            slot: OwnSlot::none(group),
            beside: 0.into(),
            samples: 0.into(),
            measured: 0.into(),
            shown: 0.into(),
            is_executing: false.into(),
            before: Figures::default(),
            is_foreign: false.into(),
            sharing: Sharing::default(),
            excess: 0.into(),
            large: 0.into(),
            maps_shared: false.into(),
            unevictable: Default::default(),
        }
    }

    /// Returns the group.
    pub fn group(&self) -> &ProcessGroup {
        &self.slot.group
    }

    /// Frees the slot. If `is_reported` is false, keeps the figures of the process in the slot's
    /// row.
    pub fn leave(&self, is_reported: bool) {
        self.slot.leave(is_reported);
    }

    /// Returns the number of bytes that are charged to this process, without those that are charged
    /// to its parent. `counted` is the number of bytes that the pager of this process counts.
    pub(crate) fn held(&self, counted: u64) -> u64 {
        self.slot.shares().counted(self.process_bytes(counted), 0).0 + self.slot.shared_bytes()
    }

    /// Returns the figures of `arena`, the arena of this process, with the number of bytes that are
    /// charged to this process in its group.
    pub fn figures(&self, arena: &Arena) -> Figures {
        let (in_tree, tree_held) = (self.slot.is_taken().into(), self.held(arena.usage().held));
        Figures { in_tree, tree_held, ..Figures::of(&arena.stats()) }
    }

    /// Adds to `figures` the figures of this process from before it executed its program.
    pub fn with_before(&self, figures: Figures) -> Figures {
        self.before().map(|before| figures.after(before)).unwrap_or(figures)
    }

    /// Returns this process's figures from before it executed its program. Returns `None` in a
    /// child.
    pub(crate) fn before(&self) -> Option<&Figures> {
        let process = self.slot.process.load(Relaxed);
        (self.slot.is_taken() && self.before.process == process).then_some(&self.before)
    }

    /// Returns whether the kernel's coarse clock has advanced since the last call of this function.
    pub fn is_show_due(&self) -> bool {
        let now = milliseconds();
        self.shown.load(Relaxed) != now && self.shown.swap(now, Relaxed) != now
    }

    /// Publishes the figures of this process.
    pub fn show(&self, figures: &Figures) {
        let (nth, process) = (self.slot.nth(), self.slot.process.load(Relaxed));
        if self.slot.kept().is_some() {
            self.slot.group.show(nth, &Figures { process, ..figures.clone() });
        }
    }

    /// Publishes that this process holds no memory, because it is about to execute a program. The
    /// new program adds its own figures to `figures`.
    pub fn begin_exec(&self, figures: &Figures) {
        self.own_peers().inspect(Peers::deafen);
        self.set_executing(Some(figures));
    }

    /// Undoes [`begin_exec`](Self::begin_exec) after the kernel refused to execute the program.
    pub fn exec_failed(&self, arena: &Arena) {
        self.set_executing(None);
        self.hear();
        arena.weigh_process();
    }

    /// Publishes that this process holds no memory, because it is about to execute a program. Other
    /// threads can run until `execve`, but they no longer publish held memory. The new program adds
    /// its own figures to `done`. If `done` is `None`, `execve` has failed, and the function undoes
    /// the publication.
    pub(crate) fn set_executing(&self, done: Option<&Figures>) {
        let Some(slot) = self.slot.own() else { return };
        self.is_executing.store(done.is_some(), Relaxed);
        slot.hush();
        slot.end.store(done.map_or(0, |_| EXECUTES), Relaxed);
        match done {
            Some(done) => {
                slot.shared.store(0, Relaxed);
                self.show(&Figures::default().after(done));
            }
            None => self.begin_shared(),
        }
    }

    /// Records that this process maps shared memory.
    pub fn maps_shared(&self) {
        self.maps_shared.store(true, Relaxed);
        self.slot.own().inspect(|slot| _ = slot.shared.fetch_or(MAPS, Relaxed));
    }

    /// If this process maps shared memory, sets the bit `MAPS` of its slot again. A child maps its
    /// parent's shared memory. A process whose `execve` failed still maps its own shared memory.
    pub(crate) fn begin_shared(&self) {
        if self.maps_shared.load(Relaxed) {
            self.maps_shared();
        }
    }

    /// Measures the shared memory of all processes of the group, if this process maps shared memory
    /// and the next measurement is due. Opens files in /proc.
    pub fn weigh_shared(&self) {
        if self.slot.any().is_some_and(|slot| slot.shared.load(Relaxed) != 0) {
            shared_memory::weigh(&self.slot.group);
        }
    }

    /// Publishes that this thread is about to wait. From then on, other processes can ask the
    /// thread by a signal to evict.
    pub fn waits(&self) {
        self.slot.own().inspect(waits::begin);
    }

    /// Ends the wait that [`waits`](Self::waits) began. If another process was sending a signal to
    /// this thread, the signal has arrived when the function returns.
    pub fn waited(&self) {
        self.slot.any().inspect(waits::end);
    }

    fn own_peers(&self) -> Option<Peers<'_>> {
        self.slot.own().map(|slot| Peers::of(&slot))
    }

    /// Publishes that this process has a handler for signals of its group.
    pub fn hear(&self) {
        self.own_peers().inspect(|peers| peers.set(HEARS, true));
    }

    /// Publishes that this process fills no block in place, as requested by
    /// [`ask_peer`](ProcessGroup::ask_peer). The caller guarantees that no thread of this process
    /// is filling a block in place.
    pub fn agree(&self) {
        self.own_peers().inspect(|peers| _ = peers.set_heard(AGREED));
    }

    /// Stops evictions until [`evict_again`](Self::evict_again), because a debugger reads the
    /// memory of this process. After the return, no other thread evicts. The calling thread must
    /// hold no lock of `arena`, the arena of this process.
    pub fn keep_all(&self, arena: &Arena) {
        self.own_peers().inspect(|peers| _ = peers.set_heard(KEEPS));
        arena.await_evictions();
    }

    /// Publishes that all memory of this process is resident and will not be evicted.
    pub fn note_whole(&self) {
        self.own_peers().inspect(|peers| _ = peers.set_heard(WHOLE));
    }

    /// Permits evictions again after [`keep_all`](Self::keep_all).
    pub fn evict_again(&self, arena: &Arena) {
        self.own_peers().inspect(|peers| peers.set(KEEPS | WHOLE, false));
        arena.retry_evictions();
    }

    /// Publishes whether this process is confined by a seccomp filter (pl-28). Debuggers send no
    /// requests to a confined process.
    pub fn set_confined(&self, is_confined: bool) {
        self.own_peers().inspect(|peers| peers.set(CONFINED, is_confined));
    }

    /// Returns whether this process has published that all of its memory is resident, and no
    /// debugger has begun a request since then.
    pub fn is_whole(&self) -> bool {
        self.has(WHOLE)
    }

    /// Returns whether a bit is set in this process's word `peers`.
    pub(crate) fn has(&self, bit: u64) -> bool {
        self.slot.any().is_some_and(|slot| Peers::of(&slot).has(bit))
    }
}

impl Drop for GroupMember {
    fn drop(&mut self) {
        self.leave(true);
    }
}
