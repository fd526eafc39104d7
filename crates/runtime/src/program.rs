//! The program, and the work before and after each of its system calls.

use crate::changes::Changer;
use crate::cost::Cost;
use crate::exec::Hosting;
use crate::limits::Limits;
use crate::mappings::{self, Answer};
use crate::policy::{MUCH_SHARE, WEIGHED};
use crate::settings::Settings;
use crate::space::Space;
use crate::tree::TreeFile;
use crate::watch::Watch;
use crate::{clock, helpers, pins, sleeps};
use calls::Special;
use dispatch::{Call, Outcome, Step};
use page::fork::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use zmem::Arena;

const EFAULT: isize = -(libc::EFAULT as isize);
const EPERM: isize = -(libc::EPERM as isize);
const EACCES: isize = -(libc::EACCES as isize);
const ENOMEM: isize = -(libc::ENOMEM as isize);

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
    pub(crate) tree: Option<TreeFile>,
    /// The means by which programs are executed with a host, if hosts are available.
    hosting: Option<Hosting>,
    /// Whether the process is confined (pl-28): a filter may end the process for calls that the
    /// program does not make itself.
    pub(crate) is_confined: AtomicBool,
    /// Whether a child of `vfork` has confined this process.
    pub(crate) is_child_confined: AtomicBool,
    /// Whether the call that confines the process is still in progress.
    pub(crate) is_newly_confined: AtomicBool,
    /// Whether reports are suppressed, because a filter may end the process for them.
    pub(crate) is_silent: AtomicBool,
    /// The address in another process's request that was deferred, or 0: see `peers`.
    pub(crate) asked: AtomicUsize,
    pub(crate) watch: Watch,
    /// Whether all memory was made plain, because this process or a child of `vfork` leaves the
    /// runtime: see `traced`.
    pub(crate) is_plain: AtomicBool,
}

impl Program {
    pub(crate) fn new(
        arena: Arena,
        space: Space,
        settings: Settings,
        (tree, hosting): (Option<TreeFile>, Option<Hosting>),
    ) -> Self {
        let (space, threads) = (Mutex::new(space), AtomicUsize::new(1));
        let [is_confined, is_child_confined, is_newly_confined, is_silent, is_plain] =
            [const { AtomicBool::new(false) }; 5];
        let (cost, asked) = (Cost::default(), AtomicUsize::new(0));
        Program {
            arena,
            settings,
            space,
            changer: Changer::default(),
            threads,
            cost,
            tree,
            hosting,
            is_confined,
            is_child_confined,
            is_newly_confined,
            is_silent,
            asked,
            watch: Watch::default(),
            is_plain,
        }
    }

    /// Does periodic work before a call: measures memory outside of the arena, and evicts for other
    /// processes, because this process may block in the call. `nth` is the number of calls before
    /// this one.
    pub(crate) fn tend(&self, nth: u64) {
        let Some(TreeFile { tree, .. }) = &self.tree else { return };
        self.look_for_debuggers();
        if (nth + 1).is_multiple_of(WEIGHED) {
            self.arena.weigh_process();
            self.say_if_lost();
        }
        if tree.is_short() {
            self.arena.yield_room(false);
        }
        self.show_now_and_then();
    }

    /// Handles a call if it changes mappings of the arena.
    pub(crate) fn answer(&self, number: usize, args: [usize; 6]) -> Answer {
        let mut space = self.space.lock();
        self.changer.change(|| mappings::answer(&mut space, &self.arena, number, args))
    }

    /// Prepares a call before it is issued.
    pub(crate) fn before(&self, call: &mut Call) -> Step {
        if let Some(hosting) = &self.hosting {
            if let Some(result) = hosting.name_program(call) {
                return Step::Answer(result);
            }
            // A filter of the program may refuse the calls that a host needs.
            if !self.is_confined.load(Relaxed) {
                let helper = hosting.redirect(call, || self.is_heard());
                helpers::keep(call.note(), helper);
            }
        }
        let (number, args) = (call.number(), call.args());
        let of_tree = self.tree.as_ref().and_then(|tree| tree.answer(number, args));
        // The kernel enforces the limits of a child of `vfork`: its parent may have other limits.
        let has_limits = Limits::are_about(number) && !self.arena.is_lent();
        let of_limits = || has_limits.then(|| self.space.lock().limits.answer(number, &args))?;
        if let Some(result) = of_tree.or_else(of_limits) {
            return Step::Answer(result);
        }
        let spec = calls::spec(number);
        match spec.map_or(Special::Nothing, |spec| spec.special(&args)) {
            Special::Forbidden => return Step::Answer(EPERM),
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
        self.prepare_attach(number, &args);
        if let Some(step) = self.leave_for_tracer(call).or_else(|| self.restrict(call)) {
            return step;
        }
        if let Some(step) = self.split(call) {
            return step;
        }
        self.before_end(call);
        let is_lasting = spec.is_some_and(|spec| spec.kept_after_return.holds(&args));
        let is_all = pins::take(&self.arena, (number, args), call.note(), is_lasting);
        self.end_thread_for(number, &args);
        let wait = spec.and_then(|spec| spec.wait);
        if !self.is_confined.load(Relaxed) {
            sleeps::keep_time(call);
            if wait.is_some_and(|wait| wait.is_interrupted.holds(&args)) {
                call.repeat();
            }
            if wait.is_some_and(|wait| wait.repeats.holds(&args)) {
                // `waits` is called last, because after it this thread must not access absent
                // memory, except on the stack of `dispatch`.
                self.arena.waits();
            }
        }
        if is_all && wait.is_some() { Step::Wait } else { Step::Issue }
    }

    /// Prepares a call to be issued again.
    fn again(&self, call: &mut Call) -> Step {
        let call_of = (call.number(), call.args());
        self.before_end(call);
        pins::take(&self.arena, call_of, call.note(), false);
        self.end_thread_for(call.number(), &call.args());
        Step::Issue
    }

    /// Completes a call that has returned or was abandoned.
    pub(crate) fn after(&self, call: &mut Call, outcome: Outcome) -> Step {
        let outcome = self.complete_transfer(call, outcome);
        self.after_debugger(call, outcome);
        let outcome = sleeps::give_time(call, outcome);
        match call.number() as i64 {
            libc::SYS_execve | libc::SYS_execveat => {
                self.arena.unhush();
                self.stay_again();
                if let Some(hosting) =
                    self.hosting.as_ref().filter(|_| !self.is_confined.load(Relaxed))
                {
                    hosting.tries.count(!matches!(outcome, Outcome::Returned(_)));
                }
                self.take_limits_back();
            }
            _ if call.is_repeated() => self.arena.waited(),
            libc::SYS_ptrace => self.after_trace(call, outcome),
            libc::SYS_seccomp | libc::SYS_prctl => {
                let is_new = self.is_newly_confined.swap(false, Relaxed);
                if is_new && !matches!(outcome, Outcome::Returned(0..)) {
                    self.end_confinement();
                }
            }
            // A child of `vfork` may have left the runtime.
            libc::SYS_vfork | libc::SYS_clone | libc::SYS_clone3 => self.manage_again(),
            _ => {}
        }
        self.do_left();
        let unpinned = pins::release(&self.arena, call.note());
        if self.settings.options.limit.is_some_and(|limit| unpinned as u64 > limit / MUCH_SHARE) {
            self.arena.yield_unpinned();
        }
        match outcome {
            Outcome::Returned(EFAULT) if pins::retry(call.note()) => self.again(call),
            // The host can't be executed in this environment, but the program itself may be.
            Outcome::Returned(..0) if self.hosting.as_ref().is_some_and(|it| it.is_host(call)) => {
                call.restore();
                self.again(call)
            }
            // A security module may refuse to execute the program because the process is traced.
            Outcome::Returned(EPERM | EACCES) if helpers::dismiss(call.note()) => self.again(call),
            _ => {
                helpers::dismiss(call.note());
                Step::Answer(if let Outcome::Returned(result) = outcome { result } else { 0 })
            }
        }
    }
}
