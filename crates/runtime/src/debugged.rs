//! Keeps all memory of a debugged process resident, and detects that the debuggers have left
//! (pl-30).

use crate::program::Program;
use crate::windows::around;
use std::sync::atomic::Ordering::Relaxed;

/// Fills all blocks, and evicts nothing while the debugger that `word` identifies is attached.
/// If another thread changes mappings, the request is deferred.
pub(crate) fn stay(program: &Program, word: u64) {
    // In a confined process, a filter may refuse the later checks for debuggers. A child of `vfork`
    // must not use its parent's slot in the group.
    if word == 0 || program.is_confined.load(Relaxed) || program.arena.is_lent() {
        return;
    }
    let Some(member) = program.member() else { return };
    let Some(space) = program.space.try_lock() else { return stay_later(program, word) };
    // The debugger repeats the signal. If all blocks are already resident, a repeated signal has no
    // effect.
    if member.is_whole() {
        return;
    }
    program.watch.note(word);
    member.keep_all(&program.arena);
    for part in space.data(&program.arena) {
        let blocks = around(&program.arena, &part);
        if program.arena.pin(blocks.clone()).is_ok() {
            let _pinned = program.arena.unpin(blocks);
        }
    }
    program.watch.wait_for_look();
    program.watch.asked.store(0, Relaxed);
    member.note_whole();
}

/// Stores the word of a debugger's request, so that the request is handled later.
pub(crate) fn stay_later(program: &Program, word: u64) {
    program.watch.asked.store(word, Relaxed);
}

/// Handles a debugger's request that was deferred.
pub(crate) fn stay_now(program: &Program) {
    if program.watch.asked.load(Relaxed) != 0 && !program.arena.is_lent() {
        stay(program, program.watch.asked.swap(0, Relaxed));
    }
}

/// Makes all memory of a debugged process resident again after `execve` has failed.
pub(crate) fn stay_again(program: &Program) {
    program.watch.any().into_iter().for_each(|word| stay(program, word));
}

/// Lets the pager evict again despite debuggers, because this process is about to install a filter
/// that may refuse the checks for debuggers.
pub(crate) fn stay_no_more(program: &Program) {
    program.watch.clear();
    if let Some(member) = program.member() {
        member.evict_again(&program.arena);
        member.set_confined(true);
    }
}

/// Makes the next check for debuggers due at once.
pub(crate) fn look_soon(program: &Program) {
    program.watch.next.store(0, Relaxed);
}

/// If a check is due, and all debuggers have left, lets the pager evict again.
pub(crate) fn look_for_debuggers(program: &Program) {
    let may_look = || !program.is_confined.load(Relaxed) && !program.arena.is_lent();
    if !program.watch.is_look_due() || !may_look() {
        return;
    }
    let Some(_space) = program.space.try_lock() else { return };
    program.watch.wait_for_look();
    if program.watch.have_all_left() {
        program.watch.asked.store(0, Relaxed);
        program.member().into_iter().for_each(|member| member.evict_again(&program.arena));
        program.arena.yield_room(false);
    }
}
