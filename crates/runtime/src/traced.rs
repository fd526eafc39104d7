//! Children that request to be traced (PTRACE_TRACEME), as the child of a debugger does before it
//! executes a program.
//!
//! The tracer would see each signal by which the runtime handles calls and faults. If the tracer
//! also waits for its child's `execve`, as after `vfork`, tracer and child would wait for each
//! other forever. Therefore such a child leaves the runtime (pl-23): all of its memory is made
//! resident, and its next program runs without a host.

use crate::pieces::Kind;
use crate::program::Program;
use crate::say::say;
use crate::space::Space;
use dispatch::{Call, Failed, Outcome, Step, system};
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

/// Returns whether the calling process requests by this call to be traced.
fn is_asked(call: &Call) -> bool {
    call.number() as i64 == libc::SYS_ptrace && call.args()[0] as u32 == libc::PTRACE_TRACEME
}

impl Program {
    /// Prepares a call by which this process requests to be traced. Returns the step, or `None` if
    /// the process does not leave the runtime.
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
        self.begin_exec();
        self.arena.rest();
        Some(Step::Leave)
    }

    /// Completes a call by which this process requested to be traced.
    pub(crate) fn after_trace(&self, call: &Call, outcome: Outcome) {
        if !is_asked(call) || !self.is_plain.load(Relaxed) {
            return;
        }
        if outcome != Outcome::Returned(0) {
            self.manage_again();
            self.exec_failed();
            self.take_limits_back();
        } else if self.member().is_some_and(|member| member.takes_traced(|| self.is_heard())) {
            let process = system(libc::SYS_getpid, [0; 6]).unwrap_or(0);
            say(&format_args!(
                "process {process} is traced by its parent, as a debugger's child: the program \
                 that it executes runs without a limit"
            ));
        }
    }

    /// Returns true if this process has no other thread, or is a child of `vfork`.
    pub(crate) fn is_alone(&self) -> bool {
        self.arena.is_lent() || self.threads.load(Relaxed) == 1
    }

    /// Fills all blocks, and makes all memory plain.
    pub(crate) fn make_all_plain(&self) -> Result<(), Failed> {
        self.is_plain.store(true, Relaxed);
        let space = self.space.lock();
        self.of_data(&space).into_iter().try_for_each(|part| space.make_plain(&self.arena, &part))
    }

    /// Manages memory again that a child of `vfork` made plain, and ends a confinement that the
    /// child caused.
    pub(crate) fn manage_again(&self) {
        if self.is_child_confined.swap(false, Relaxed) {
            self.end_confinement();
        }
        if self.is_plain.swap(false, Relaxed) {
            let space = self.space.lock();
            for part in self.of_data(&space) {
                // A part that can't be managed stays plain.
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
