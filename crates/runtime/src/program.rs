//! The program, seen by its system calls and faults.
//!
//! # Safety
//! Faults and contexts are the kernel's, as `dispatch` passes them on.
#![allow(unsafe_code)]

use crate::cost::Cost;
use crate::exec::Hosting;
use crate::heap::HEAP;
use crate::limits::Limits;
use crate::mappings::{self, Answer};
use crate::own_thread::OWN_THREAD;
use crate::settings::Settings;
use crate::space::Space;
use crate::tree::TreeFile;
use crate::waits::waits;
use crate::{cause, clock, pins};
use calls::Special;
use dispatch::{Call, Hook, Outcome, Step};
use page::fork::{self, Mutex};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use zmem::{Arena, SAFEPOINT, poke};

const EFAULT: isize = -(libc::EFAULT as isize);
const EPERM: isize = -(libc::EPERM as isize);
const ENOMEM: isize = -(libc::ENOMEM as isize);

/// A program whose memory is managed.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) arena: Arena,
    pub(crate) settings: Settings,
    pub(crate) space: Mutex<Space>,
    /// Threads of this process.
    pub(crate) threads: AtomicUsize,
    pub(crate) cost: Cost,
    pub(crate) tree: Option<TreeFile>,
    /// How programs are executed, if some get a host.
    hosting: Option<Hosting>,
    /// Whether the program has filtered its system calls, or tried to: one that it does not make
    /// itself may end it.
    pub(crate) is_confined: AtomicBool,
}

/// So many calls lie between two looks at what a process has in memory beside its arena.
const WEIGHED: u64 = 128;
/// A call has more than this share of the limit pinned: room may be short by all of it.
const MUCH_SHARE: u64 = 16;

impl Program {
    pub(crate) fn new(
        arena: Arena,
        space: Space,
        settings: Settings,
        (tree, hosting): (Option<TreeFile>, Option<Hosting>),
    ) -> Self {
        let (space, threads) = (Mutex::new(space), AtomicUsize::new(1));
        let (is_confined, cost) = (AtomicBool::new(false), Cost::default());
        Program { arena, settings, space, threads, cost, tree, hosting, is_confined }
    }

    /// Does what a call is an occasion for, which comes after `nth` others: memory beside the arena
    /// is counted, and room is made for other processes, before this one may wait.
    fn tend(&self, nth: u64) {
        let Some(TreeFile { tree, .. }) = &self.tree else { return };
        if (nth + 1).is_multiple_of(WEIGHED) {
            self.arena.weigh_process();
            self.say_if_lost();
        }
        if tree.is_short() {
            self.arena.yield_room(false);
        }
        self.show_now_and_then();
    }

    /// Answers what is about the arena's mappings.
    pub(crate) fn answer(&self, number: usize, args: [usize; 6]) -> Answer {
        mappings::answer(&mut self.space.lock(), &self.arena, number, args)
    }

    /// Does what is to be done before a call is issued.
    fn before(&self, call: &mut Call) -> Step {
        if let Some(hosting) = &self.hosting {
            if let Some(result) = hosting.name_program(call) {
                return Step::Answer(result);
            }
            // A filter of the program may refuse the calls that a host needs.
            if !self.is_confined.load(Relaxed) {
                hosting.redirect(call);
            }
        }
        let (number, args) = (call.number(), call.args());
        let of_tree = self.tree.as_ref().and_then(|tree| tree.answer(number, args));
        // Limits of a child of `vfork` are the kernel's, as its parent has others.
        let has_limits = Limits::are_about(number) && !self.arena.is_lent();
        let of_limits = || has_limits.then(|| self.space.lock().limits.answer(number, &args))?;
        if let Some(result) = of_tree.or_else(of_limits) {
            return Step::Answer(result);
        }
        let row = calls::row(number);
        match row.map_or(Special::Nothing, |row| row.special(&args)) {
            Special::Withheld => return Step::Answer(EPERM),
            Special::AddressSpace => {
                if !mappings::release_code(number, &args) {
                    return Step::Answer(ENOMEM);
                }
                if let Answer::Is(result) = self.answer(number, args) {
                    return Step::Answer(result);
                }
            }
            _ => {}
        }
        clock::note(number, &args);
        self.greet_peer(number, &args);
        self.before_end(call);
        let is_lasting = row.is_some_and(|row| row.outlives(&args));
        let is_all = pins::take(&self.arena, (number, args), call.note(), is_lasting);
        self.end_thread_for(number, &args);
        if matches!(number as i64, libc::SYS_wait4 | libc::SYS_waitid) {
            // Last: no memory that is absent is touched from here on, on another stack than this.
            self.arena.waits();
        }
        if is_all && waits(number) { Step::Wait } else { Step::Issue }
    }

    /// Prepares a call to be issued again.
    fn again(&self, call: &mut Call) -> Step {
        let call_of = (call.number(), call.args());
        self.before_end(call);
        pins::take(&self.arena, call_of, call.note(), false);
        self.end_thread_for(call.number(), &call.args());
        Step::Issue
    }

    /// Does what is to be done when it has returned, or was given up.
    fn after(&self, call: &mut Call, outcome: Outcome) -> Step {
        let outcome = self.complete_transfer(call, outcome);
        match call.number() as i64 {
            libc::SYS_execve | libc::SYS_execveat => {
                self.arena.unhush();
                self.space.lock().limits.lift();
            }
            libc::SYS_wait4 | libc::SYS_waitid => self.arena.waited(),
            _ => {}
        }
        let unpinned = pins::release(&self.arena, call.note());
        if self.settings.options.limit.is_some_and(|limit| unpinned as u64 > limit / MUCH_SHARE) {
            self.arena.yield_unpinned();
        }
        match outcome {
            Outcome::Returned(EFAULT) if pins::retry(call.note()) => self.again(call),
            // The host can't be executed here: the program may be.
            Outcome::Returned(..0) if self.hosting.as_ref().is_some_and(|it| it.is_host(call)) => {
                call.restore();
                self.again(call)
            }
            Outcome::Returned(result) => Step::Answer(result),
            Outcome::GivenUp => Step::Answer(0),
        }
    }
}

impl Hook for Program {
    fn call(&self, call: &mut Call) -> Step {
        let nth = self.cost.count();
        self.tend(nth);
        self.cost.before(nth, || self.before(call))
    }

    fn returned(&self, call: &mut Call, outcome: Outcome) -> Step {
        self.cost.after(|| self.after(call, outcome))
    }

    fn fault(
        &self,
        signal: i32,
        info: *const libc::siginfo_t,
        context: *mut libc::ucontext_t,
    ) -> bool {
        // SAFETY: the kernel's, of a handler that has all signals blocked but those of touches.
        let is_answered = unsafe { zmem::answer_fault(signal, info, context) };
        if !is_answered
            && signal == libc::SIGSEGV
            && let Some(space) = self.space.try_lock()
        {
            cause::correct(info, &self.arena.addresses(), &space.pieces);
        }
        self.say_if_lost();
        self.show_now_and_then();
        is_answered
    }

    fn sent(&self, info: *const libc::siginfo_t, may_act: bool) -> bool {
        // SAFETY: the kernel's, of a signal that was sent.
        let asked = unsafe { poke::asked(&*info) };
        asked.inspect(|asked| self.do_asked(*asked, may_act)).is_some()
    }

    fn map_code(&self, range: Range<usize>) -> bool {
        self.map_stubs(range)
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
        self.space.lock().begin_child(&self.arena);
        self.threads.store(1, Relaxed);
        self.cost.begin_child();
        self.show();
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
            // Else the process would go on as long as the runtime's own thread does.
            self.arena.rest();
        }
        SAFEPOINT.enter();
    }
}
