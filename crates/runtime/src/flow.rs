//! The steps before and after each system call of the program.

use crate::debugged;
use crate::debuggers;
use crate::ends;
use crate::filtered;
use crate::kernel::{EACCES, EFAULT, ENOMEM, EPERM};
use crate::limits::Limits;
use crate::mappings::{self, Answer};
use crate::over_limit;
use crate::peers;
use crate::policy::{MUCH_SHARE, OPENED_SHARE, WEIGHED};
use crate::program::Program;
use crate::report;
use crate::split;
use crate::traced;
use crate::{clock, helpers, pins, sleeps};
use calls::Special;
use dispatch::{Call, Outcome, Step};
use procgroup::GroupMember;
use std::sync::atomic::Ordering::Relaxed;

/// Does periodic work before a call, because this process may block in the call: checks for
/// debuggers, measures its memory, evicts for other processes, and publishes its figures. `nth` is
/// the number of earlier calls.
pub(crate) fn tend(program: &Program, nth: u64) {
    let Some(member) = program.member() else { return };
    debugged::look_for_debuggers(program);
    if (nth + 1).is_multiple_of(WEIGHED) {
        program.arena.weigh_process();
        over_limit::warn_if_over_limit(program);
    }
    if member.group().is_short() {
        program.arena.yield_room(false);
    }
    report::show_now_and_then(program);
}

/// Makes room before the kernel maps more memory outside of the arena. First measures the memory of
/// this process, because the program has probably written to the memory that was mapped before.
fn weigh_opened(program: &Program, number: i64, args: &[usize; 6]) {
    let limit = program.settings.options.limit.filter(|_| program.group.is_some());
    let Some(limit) = limit else { return };
    let part = limit as usize / OPENED_SHARE;
    // The program may pass any number of bytes. A number above `part + 1` is reduced, because the
    // sum in the next line could overflow.
    let bytes = mappings::opened_bytes(number, args).min(part + 1);
    if bytes > 0 && program.opened.fetch_add(bytes, Relaxed) + bytes > part {
        program.opened.store(0, Relaxed);
        program.arena.weigh_process();
        program.arena.yield_room(false);
        program.arena.make_room(bytes);
    }
}

/// Handles a call without issuing it and returns the result, or prepares the call and returns how
/// it is issued. The preparation pins the memory that the kernel will access.
pub(crate) fn before(program: &Program, call: &mut Call) -> Step {
    if let Some(hosting) = &program.hosting {
        if let Some(result) = hosting.name_program(call) {
            return Step::Answer(result);
        }
        // A filter of the program may refuse the calls that a host needs.
        if !program.is_confined.load(Relaxed) {
            let helper = hosting.redirect(call, || program.is_heard());
            helpers::keep(call.note(), helper);
        }
    }
    let (number, args) = (call.number(), call.args());
    let of_group = program.group.as_ref().and_then(|group| group.answer(number, args));
    // The kernel enforces the limits of a child of `vfork`, because the child's parent may have
    // other limits.
    let has_limits = Limits::are_about(number) && !program.arena.is_lent();
    let of_limits = || has_limits.then(|| program.space.lock().limits.answer(number, &args))?;
    if let Some(result) = of_group.or_else(of_limits) {
        return Step::Answer(result);
    }
    let spec = calls::spec(number);
    match spec.map_or(Special::Nothing, |spec| spec.special(&args)) {
        Special::Forbidden => return Step::Answer(EPERM),
        Special::AddressSpace => {
            if !mappings::release_code(number, &args) {
                return Step::Answer(ENOMEM);
            }
            if let Answer::Is(result) = program.answer(number, args) {
                return Step::Answer(result);
            }
            weigh_opened(program, number as i64, &args);
        }
        _ => {}
    }
    clock::note(number, &args);
    peers::greet_peer(program, number, &args);
    debuggers::prepare_attach(program, number, &args);
    if let Some(step) =
        traced::leave_for_tracer(program, call).or_else(|| filtered::restrict(program, call))
    {
        return step;
    }
    if let Some(step) = split::split(program, call) {
        return step;
    }
    ends::before_end(program, call);
    let is_lasting = spec.is_some_and(|spec| spec.kept_after_return.holds(&args));
    let is_all = pins::take(&program.arena, (number, args), call.note(), is_lasting);
    ends::end_thread_for(program, number, &args);
    let wait = spec.and_then(|spec| spec.wait);
    if !program.is_confined.load(Relaxed) {
        sleeps::keep_time(call);
        if wait.is_some_and(|wait| wait.is_interrupted.holds(&args)) {
            call.repeat();
        }
        if wait.is_some_and(|wait| wait.repeats.holds(&args)) {
            // `waits` is called last. After `waits`, this thread must not access absent memory,
            // except on the stack of `dispatch`.
            program.member().into_iter().for_each(GroupMember::waits);
        }
    }
    if is_all && wait.is_some() { Step::Wait } else { Step::Issue }
}

/// Pins the memory of a call again, and returns the step by which the call is issued again.
fn again(program: &Program, call: &mut Call) -> Step {
    let call_of = (call.number(), call.args());
    ends::before_end(program, call);
    pins::take(&program.arena, call_of, call.note(), false);
    ends::end_thread_for(program, call.number(), &call.args());
    Step::Issue
}

/// Undoes the preparation of a call that has returned or was abandoned. Returns the call's result,
/// or the step by which the call is issued again.
pub(crate) fn after(program: &Program, call: &mut Call, outcome: Outcome) -> Step {
    let outcome = peers::complete_transfer(program, call, outcome);
    debuggers::after_debugger(program, call, outcome);
    let outcome = sleeps::give_time(call, outcome);
    match call.number() as i64 {
        libc::SYS_execve | libc::SYS_execveat => {
            report::exec_failed(program);
            debugged::stay_again(program);
            if let Some(hosting) =
                program.hosting.as_ref().filter(|_| !program.is_confined.load(Relaxed))
            {
                hosting.tries.count(!matches!(outcome, Outcome::Returned(_)));
            }
            program.take_limits_back();
        }
        _ if call.is_repeated() => program.member().into_iter().for_each(GroupMember::waited),
        libc::SYS_ptrace => traced::after_trace(program, call, outcome),
        libc::SYS_seccomp | libc::SYS_prctl => {
            let is_new = program.is_newly_confined.swap(false, Relaxed);
            if is_new && !matches!(outcome, Outcome::Returned(0..)) {
                program.end_confinement();
            }
        }
        // A child of `vfork` may have left the runtime.
        libc::SYS_vfork | libc::SYS_clone | libc::SYS_clone3 => traced::manage_again(program),
        _ => {}
    }
    peers::do_left(program);
    let unpinned = pins::release(&program.arena, call.note());
    if program.settings.options.limit.is_some_and(|limit| unpinned as u64 > limit / MUCH_SHARE) {
        program.arena.yield_unpinned();
    }
    match outcome {
        Outcome::Returned(EFAULT) if pins::retry(call.note()) => again(program, call),
        // The host can't be executed in this environment, but the program itself may be executable.
        Outcome::Returned(..0) if program.hosting.as_ref().is_some_and(|it| it.is_host(call)) => {
            call.restore();
            again(program, call)
        }
        // A security module can refuse to execute the program because the process is traced.
        Outcome::Returned(EPERM | EACCES) if helpers::dismiss(call.note()) => again(program, call),
        _ => {
            helpers::dismiss(call.note());
            Step::Answer(if let Outcome::Returned(result) = outcome { result } else { 0 })
        }
    }
}
