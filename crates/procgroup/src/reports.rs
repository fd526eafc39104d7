//! The figures that a process publishes, and those that it takes over when it executes a program.

use crate::figures::Figures;
use crate::member::GroupMember;
use std::sync::atomic::Ordering::Relaxed;
use zmem::{Arena, milliseconds};

impl GroupMember {
    /// Publishes that this process holds no memory, because it is about to execute a program,
    /// although other threads may run until then. `done` are the figures to which the new program
    /// adds its own. `None` undoes the publication after `execve` failed.
    pub(crate) fn set_executing(&self, done: Option<&Figures>) {
        if self.own_slot().is_some() {
            self.is_executing.store(done.is_some(), Relaxed);
            self.group.hush(self.slot.load(Relaxed));
            self.group.set_executes(self.slot.load(Relaxed), done.is_some());
            if done.is_none() {
                self.begin_shared();
            }
            done.inspect(|done| self.show(&Figures::default().after(done)));
        }
    }

    /// Publishes that this process holds no memory, because it is about to execute a program. The
    /// new program adds its own figures to `figures`.
    pub fn begin_exec(&self, figures: &Figures) {
        self.deafen();
        self.set_executing(Some(figures));
    }

    /// Undoes [`begin_exec`](Self::begin_exec) after the kernel refused to execute the program.
    pub fn exec_failed(&self, arena: &Arena) {
        self.set_executing(None);
        self.hear();
        arena.weigh_process();
    }

    /// Returns the figures of `arena`, the arena of this process, and the bytes that count for this
    /// process in its group.
    pub fn figures(&self, arena: &Arena) -> Figures {
        let (in_tree, tree_held) = (self.is_in().into(), self.held(arena.usage().held));
        Figures { in_tree, tree_held, ..Figures::of(&arena.stats()) }
    }

    /// Returns `figures` plus the figures of this process before it executed its program.
    pub fn with_before(&self, figures: Figures) -> Figures {
        self.before().map(|before| figures.after(before)).unwrap_or(figures)
    }

    /// Returns this process's figures from before it executed its program, or `None` in a child.
    pub(crate) fn before(&self) -> Option<&Figures> {
        let is_own = self.is_in() && self.before.process == self.process.load(Relaxed);
        is_own.then_some(&self.before)
    }

    /// Returns whether the kernel's coarse clock has advanced since this function was last called.
    pub fn is_show_due(&self) -> bool {
        let now = milliseconds();
        self.shown.load(Relaxed) != now && self.shown.swap(now, Relaxed) != now
    }

    /// Publishes the statistics of this process.
    pub fn show(&self, figures: &Figures) {
        let (nth, process) = (self.slot.load(Relaxed), self.process.load(Relaxed));
        if self.kept_slot().is_some() {
            self.group.show(nth, &Figures { process, ..figures.clone() });
        }
    }
}
