//! The state of the program in this process.

use crate::changes::Changer;
use crate::cost::Cost;
use crate::exec::Hosting;
use crate::group::{GroupFile, stat};
use crate::mappings::{self, Answer};
use crate::settings::Settings;
use crate::space::Space;
use crate::watch::Watch;
use page::fork::Mutex;
use procgroup::GroupMember;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use zmem::Arena;

/// A program whose memory is managed.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) arena: Arena,
    pub(crate) settings: Settings,
    pub(crate) space: Mutex<Space>,
    pub(crate) changer: Changer,
    /// The number of threads of the program in this process.
    pub(crate) threads: AtomicUsize,
    pub(crate) cost: Cost,
    pub(crate) group: Option<GroupFile>,
    /// The state for executing programs with a host, if a host is available.
    pub(crate) hosting: Option<Hosting>,
    /// Whether the process is confined (pl-28): a filter may kill the process for calls that the
    /// program does not make itself.
    pub(crate) is_confined: AtomicBool,
    /// Whether a child of `vfork` has set `is_confined`.
    pub(crate) is_child_confined: AtomicBool,
    /// Whether the call that confines the process is still in progress.
    pub(crate) is_newly_confined: AtomicBool,
    /// Whether reports are suppressed, because a filter may kill a process that writes them.
    pub(crate) is_silent: AtomicBool,
    /// The address in a deferred request of another process, or 0: see `peers`.
    pub(crate) asked: AtomicUsize,
    /// The sum of [`opened_bytes`](mappings::opened_bytes) since this sum last caused a measurement
    /// of the process's memory.
    pub(crate) opened: AtomicUsize,
    pub(crate) watch: Watch,
    /// Whether the kernel alone manages all memory, because this process or a child of `vfork`
    /// leaves the runtime: see `traced`.
    pub(crate) is_plain: AtomicBool,
}

impl Program {
    pub(crate) fn new(
        arena: Arena,
        space: Space,
        settings: Settings,
        (group, hosting): (Option<GroupFile>, Option<Hosting>),
    ) -> Self {
        let [is_confined, is_child_confined, is_newly_confined, is_silent, is_plain] =
            [const { AtomicBool::new(false) }; 5];
        Program {
            arena,
            settings,
            space: Mutex::new(space),
            changer: Changer::default(),
            threads: AtomicUsize::new(1),
            cost: Cost::default(),
            group,
            hosting,
            is_confined,
            is_child_confined,
            is_newly_confined,
            is_silent,
            asked: AtomicUsize::new(0),
            opened: AtomicUsize::new(0),
            watch: Watch::default(),
            is_plain,
        }
    }

    /// Returns the membership of this process in its group, if the process shares its limit with
    /// others.
    pub(crate) fn member(&self) -> Option<&GroupMember> {
        self.group.as_ref().map(|file| &*file.member)
    }

    /// Handles a call if it changes mappings of the arena.
    pub(crate) fn answer(&self, number: usize, args: [usize; 6]) -> Answer {
        let mut space = self.space.lock();
        let answer =
            self.changer.change(|| mappings::answer(&mut space, &self.arena, number, args));
        let is_refused = matches!(answer, Answer::Is(..0));
        if !is_refused && mappings::maps_shared(number as i64, &args) {
            self.member().into_iter().for_each(GroupMember::maps_shared);
        }
        answer
    }

    /// Returns whether this process's standard error is that of `uzram run`. Another file or pipe
    /// might be read by a program that does not expect messages.
    pub(crate) fn is_heard(&self) -> bool {
        self.settings.stderr.is_some_and(|heard| {
            let facts = stat(libc::SYS_fstat, [libc::STDERR_FILENO as usize, 0]);
            facts.is_ok_and(|facts| (facts.st_dev as usize, facts.st_ino as usize) == heard)
        })
    }

    /// Returns whether this process is allowed to write a message: see
    /// [`is_heard`](Self::is_heard). A filter may kill a confined process for calls that the
    /// program does not make itself.
    pub(crate) fn may_say(&self) -> bool {
        !self.is_confined.load(Relaxed) && self.is_heard()
    }

    /// Before a program is executed, sets the limits of this process's program in the kernel. Does
    /// nothing in a confined process, because a filter may kill the process for the call.
    pub(crate) fn give_limits(&self) {
        if !self.is_confined.load(Relaxed) {
            self.space.lock().limits.apply();
        }
    }

    /// Raises the limits in the kernel again if no program was executed after `give_limits`.
    pub(crate) fn take_limits_back(&self) {
        if !self.is_confined.load(Relaxed) {
            self.space.lock().limits.lift();
        }
    }

    /// Ends the confinement: from now on, the runtime is again allowed to issue every system call
    /// that it needs.
    pub(crate) fn end_confinement(&self) {
        self.is_confined.store(false, Relaxed);
        self.is_silent.store(false, Relaxed);
        page::set_confined(false);
        self.member().into_iter().for_each(|member| member.set_confined(false));
    }
}
