//! Children that ask to be traced (PTRACE_TRACEME), as a debugger has its child do before that
//! executes a program.
//!
//! The tracer would see each signal by which the runtime sees calls and touches. If it waits
//! for its child's `execve`, as after `vfork`, both would wait for ever. So such a child leaves the
//! runtime (pl-23): all memory is there, and the next program that it executes is run as it is.

use crate::pieces::Kind;
use crate::program::Program;
use crate::say::say;
use crate::space::Space;
use dispatch::{Call, Failed, Outcome, Step, system};
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

/// Returns whether a call asks that its process be traced.
fn is_asked(call: &Call) -> bool {
    call.number() as i64 == libc::SYS_ptrace && call.args()[0] as u32 == libc::PTRACE_TRACEME
}

impl Program {
    /// Returns the step of a call by which this process asks to be traced.
    pub(crate) fn leave_for_tracer(&self, call: &Call) -> Option<Step> {
        if !is_asked(call) || !self.is_alone() {
            return None;
        }
        if let Err(failed) = self.make_all_plain() {
            self.manage_again();
            return Some(Step::Answer(failed));
        }
        if !self.arena.is_lent() {
            dispatch::release_all_code();
        }
        self.give_limits();
        self.arena.hush(&self.figures());
        self.arena.rest();
        Some(Step::Leave)
    }

    /// Completes a call by which this process asked to be traced.
    pub(crate) fn after_trace(&self, call: &Call, outcome: Outcome) {
        if !is_asked(call) || !self.is_plain.load(Relaxed) {
            return;
        }
        if outcome != Outcome::Returned(0) {
            self.manage_again();
            self.arena.unhush();
            self.take_limits_back();
        } else if self.arena.takes_traced(|| self.is_heard()) {
            let process = system(libc::SYS_getpid, [0; 6]).unwrap_or(0);
            say(&format_args!(
                "process {process} is traced by its parent, as a debugger's child: the program \
                 that it executes runs without a limit"
            ));
        }
    }

    /// Returns whether no other thread of this process would be dispatched on.
    pub(crate) fn is_alone(&self) -> bool {
        self.arena.is_lent() || self.threads.load(Relaxed) == 1
    }

    /// Brings all memory back, and leaves it to the kernel.
    pub(crate) fn make_all_plain(&self) -> Result<(), Failed> {
        self.is_plain.store(true, Relaxed);
        let space = self.space.lock();
        self.of_data(&space).into_iter().try_for_each(|part| space.make_plain(&self.arena, &part))
    }

    /// Manages the memory again that a child of `vfork` left to the kernel, and issues calls again
    /// that the child left out.
    pub(crate) fn manage_again(&self) {
        if self.is_child_confined.swap(false, Relaxed) {
            self.end_confinement();
        }
        if self.is_plain.swap(false, Relaxed) {
            let space = self.space.lock();
            for part in self.of_data(&space) {
                // A part that can't be managed stays the kernel's.
                let _plain = space.settle(&self.arena, &part);
            }
        }
    }

    pub(crate) fn of_data(&self, space: &Space) -> Vec<Range<usize>> {
        let parts = self.arena.windows().flat_map(|window| space.pieces.parts(window));
        let is_data = |kind: &Option<Kind>| *kind == Some(Kind::Data);
        parts.filter(|(_, kind)| is_data(kind)).map(|(part, _)| part).collect()
    }
}
