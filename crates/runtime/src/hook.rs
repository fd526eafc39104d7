//! The functions of the runtime that `dispatch` calls.
//!
//! # Safety
//! The kernel has written the structures of faults and contexts, and `dispatch` passes them
//! unchanged.
#![allow(unsafe_code)]

use crate::cause;
use crate::changes::Changer;
use crate::debugged;
use crate::flow;
use crate::heap::HEAP;
use crate::left_out;
use crate::over_limit;
use crate::own_thread::OWN_THREAD;
use crate::peers;
use crate::program::Program;
use crate::report;
use crate::simple;
use crate::sleeps;
use dispatch::{Call, Hook, Outcome, Step};
use page::fork;
use procgroup::Request;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use zmem::SAFEPOINT;

impl Hook for Program {
    fn call(&self, call: &mut Call) -> Step {
        let nth = self.cost.count();
        flow::tend(self, nth);
        self.cost.before(nth, || flow::before(self, call))
    }

    fn returned(&self, call: &mut Call, outcome: Outcome) -> Step {
        self.cost.after(|| flow::after(self, call, outcome))
    }

    fn fault(
        &self,
        signal: i32,
        info: *const libc::siginfo_t,
        context: *mut libc::ucontext_t,
    ) -> bool {
        // SAFETY: the kernel has written the arguments, for a handler that blocks all signals
        // except those of faults.
        let is_answered = unsafe { zmem::answer_fault(signal, info, context) };
        if is_answered {
            Changer::forget_tries();
        } else if signal == libc::SIGSEGV {
            let is_transient =
                |address| self.changer.is_transient(&self.arena, &self.space, address);
            if cause::address(info).is_some_and(is_transient) {
                return true;
            }
            if let Some(space) = self.space.try_lock() {
                cause::correct(info, &self.arena, &space.pieces);
            }
        }
        peers::do_left(self);
        debugged::look_for_debuggers(self);
        over_limit::warn_if_over_limit(self);
        report::show_now_and_then(self);
        is_answered
    }

    fn sent(&self, info: *const libc::siginfo_t, may_act: bool) -> bool {
        // SAFETY: the kernel has written the structure for a signal that a process has sent.
        let request = unsafe { Request::of(&*info) };
        request.inspect(|request| peers::do_request(self, *request, may_act)).is_some()
    }

    fn repeats(&self, call: &mut Call) {
        sleeps::go_on(call);
    }

    fn map_code(&self, range: Range<usize>) -> bool {
        simple::map_stubs(self, range)
    }

    fn before_fork(&self) {
        self.arena.rest();
        self.space.lock_for_fork();
        fork::before();
        HEAP.at_fork(fork::Step::Lock);
    }

    fn after_fork_in_parent(&self) {
        HEAP.at_fork(fork::Step::Unlock);
        fork::after_in_parent();
        self.space.unlock_after_fork();
    }

    fn after_fork_in_child(&self) {
        HEAP.at_fork(fork::Step::Unlock);
        OWN_THREAD.begin_child();
        fork::after_in_child();
        self.space.unlock_after_fork();
        left_out::begin_child(&mut self.space.lock(), &self.arena);
        self.threads.store(1, Relaxed);
        self.cost.begin_child();
        self.watch.clear();
        if let Some(member) = self.member() {
            member.hear();
            member.set_confined(self.is_confined.load(Relaxed));
        }
        report::show(self);
    }

    fn parks(&self) {
        SAFEPOINT.enter();
    }

    fn resumes(&self) {
        SAFEPOINT.leave();
    }

    fn thread_begins(&self) {
        SAFEPOINT.thread_begins();
        self.threads.fetch_add(1, Relaxed);
    }

    fn thread_ends(&self) {
        if self.threads.fetch_sub(1, Relaxed) == 1 {
            // The compressor thread is ended too, because the process would otherwise exist until
            // that thread ends.
            self.arena.rest();
        }
        SAFEPOINT.enter();
    }
}
