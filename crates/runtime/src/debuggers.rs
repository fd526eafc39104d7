//! Debuggers of the tree: programs that access the memory of another process of the tree by ptrace
//! or /proc/PID/mem.
//!
//! ```text
//!   before PTRACE_ATTACH, PTRACE_SEIZE -> a signal: the process fills all of its blocks, and then
//!   after `open` of /proc/PID/mem         evicts nothing (zm-L19) -> its slot: KEEPS | WHOLE
//!   after PTRACE_DETACH                -> a signal: no tracer, and no such file is open?
//!   a call or a fault of the process   ->           then it evicts again
//! ```
//! pl-30: the debugger's reads are not intercepted, because all of the process's data are resident.
//! The process itself finds out that the debugger has left, even if the debugger was killed.

use crate::peers::{TRIES, TRIES_OF_SIGNAL, pause};
use crate::policy::{TRIES_OF_KEEPING, TRIES_OF_LOOK};
use crate::program::Program;
use crate::space::Space;
use crate::threads::{is_own, is_stopped, may_ask, threads_of};
use crate::tree::TreeFile;
use crate::watch::{link, of_file, thread_of, traced};
use dispatch::{Call, Outcome, read_memory, system};
use std::sync::atomic::Ordering::Relaxed;
use zmem::poke::Asked;
use zmem::{Kept, Tree};

/// Returns whether the path of a call that opens a file may be in /proc. Calls with other paths are
/// simple (di-12).
fn may_be_of_proc(call: &Call) -> bool {
    let [first, second, ..] = call.args();
    let path = if call.number() as i64 == libc::SYS_open { first } else { second };
    let mut head = [0; 2];
    read_memory(path, &mut head) && head == *b"/p"
}

impl Program {
    /// Makes the memory of another process of the tree resident before a call that attaches to it.
    pub(crate) fn prepare_attach(&self, number: usize, args: &[usize; 6]) {
        let [request, thread, ..] = *args;
        if number as i64 == libc::SYS_ptrace
            && matches!(request as u32, libc::PTRACE_ATTACH | libc::PTRACE_SEIZE)
        {
            self.keep_peer(thread as u64, thread as u64);
        }
    }

    /// Handles a call that has opened the memory of another process of the tree, or has detached
    /// from one.
    pub(crate) fn after_debugger(&self, call: &Call, outcome: Outcome) {
        let Outcome::Returned(result @ 0..) = outcome else { return };
        let [first, second, ..] = call.args();
        match call.number() as i64 {
            libc::SYS_ptrace if first as u32 == libc::PTRACE_DETACH => {
                self.ask_to_look(second as u64);
            }
            libc::SYS_open | libc::SYS_openat | libc::SYS_openat2
                if may_be_of_proc(call) && self.peer_tree().is_some() =>
            {
                let own = system(libc::SYS_getpid, [0; 6]).unwrap_or(0) as u64;
                let path = link(own, result as u64);
                if let Some(thread) = path.ok().and_then(|path| thread_of(&path)) {
                    self.keep_peer(thread, of_file(own, result as u64));
                }
            }
            _ => {}
        }
    }

    fn peer_tree(&self) -> Option<&Tree> {
        // A filter may end the confined program for calls that the program does not make itself. A
        // child of `vfork` shares this memory, so it is not handled as a debugger.
        let is_free = !self.is_confined.load(Relaxed) && !self.arena.is_lent();
        let file = self.tree.as_ref().filter(|_| is_free);
        file.map(|TreeFile { tree, .. }| tree)
    }

    /// Waits until the process of a thread keeps all of its memory resident for the debugger that
    /// `word` identifies. Returns at once if the process is this process, or is outside the tree.
    fn keep_peer(&self, thread: u64, word: u64) {
        let Some(tree) = self.peer_tree() else { return };
        let Some((process, tracer)) = traced(thread).filter(|(process, _)| !is_own(*process))
        else {
            return;
        };
        let kept = tree.kept(process as u64);
        // While a thread has a tracer, the process keeps its memory resident.
        let has_tracer = || tracer != 0 || traced(process as u64).is_some_and(|(_, by)| by != 0);
        if kept.is_none() || is_stopped(process, process) {
            return;
        }
        if kept == Some(Kept::All) && has_tracer() {
            return;
        }
        tree.begin_keeping(process as u64);
        for nth in 0..TRIES_OF_KEEPING {
            match tree.kept(process as u64) {
                None | Some(Kept::All) => return,
                // If the process has begun to fill its blocks for this debugger, more than `TRIES`
                // tries are made.
                Some(now) if nth >= TRIES && (now, kept) != (Kept::Partly, Some(Kept::Nothing)) => {
                    return;
                }
                _ => {}
            }
            if nth % TRIES_OF_SIGNAL == 0 {
                if is_stopped(process, process) {
                    return;
                }
                self.ask_any(tree, process, Asked::Stay(word));
            }
            self.do_left();
            pause();
        }
    }

    /// Sends `asked` to the first thread of a process that can handle it.
    fn ask_any(&self, tree: &Tree, process: usize, asked: Asked) {
        let may_ask = |thread: &usize| {
            !is_stopped(process, *thread) && may_ask(process, *thread, |it| it.is_interrupted)
        };
        if let Some(thread) = threads_of(process).into_iter().find(may_ask) {
            tree.ask(process as u64, thread as u64, asked);
        }
    }

    /// Asks the process of a thread from which a debugger has detached to evict again.
    fn ask_to_look(&self, thread: u64) {
        let Some(tree) = self.peer_tree() else { return };
        let Some((process, _)) = traced(thread) else { return };
        let is_traced = || traced(process as u64).is_none_or(|(_, tracer)| tracer != 0);
        for nth in 0..TRIES_OF_LOOK {
            if matches!(tree.kept(process as u64), None | Some(Kept::Nothing)) {
                return;
            }
            if nth % TRIES_OF_SIGNAL == 0 {
                if is_traced() {
                    return;
                }
                self.ask_any(tree, process, Asked::Look);
            }
            self.do_left();
            pause();
        }
    }

    /// Fills all blocks, and evicts nothing while the debugger that `word` identifies is attached.
    /// If another thread changes mappings, the request is deferred.
    pub(crate) fn stay(&self, word: u64) {
        // The later check whether the debugger has left may violate a filter of the process. A
        // child of `vfork` does not use its parent's slot.
        if word == 0 || self.is_confined.load(Relaxed) || self.arena.is_lent() {
            return;
        }
        let Some(space) = self.space.try_lock() else { return self.stay_later(word) };
        // The debugger repeats the signal. If all blocks are resident, a late signal has no effect.
        if self.arena.is_whole() {
            return;
        }
        self.watch.note(word);
        self.arena.keep_all();
        for part in self.of_data(&space) {
            let blocks = Space::around(&self.arena, &part);
            if self.arena.pin(blocks.clone()).is_ok() {
                let _pinned = self.arena.unpin(blocks);
            }
        }
        self.watch.wait_for_look();
        self.watch.asked.store(0, Relaxed);
        self.arena.note_whole();
    }

    /// Stores a request's word for a thread that can handle the request.
    pub(crate) fn stay_later(&self, word: u64) {
        self.watch.asked.store(word, Relaxed);
    }

    /// Handles a debugger's request that was deferred.
    pub(crate) fn stay_now(&self) {
        if self.watch.asked.load(Relaxed) != 0 && !self.arena.is_lent() {
            self.stay(self.watch.asked.swap(0, Relaxed));
        }
    }

    /// Makes all memory resident again after a call that executes a program has failed.
    pub(crate) fn stay_again(&self) {
        self.watch.any().into_iter().for_each(|word| self.stay(word));
    }

    /// Lets the pager evict again despite debuggers, because this process is about to be confined.
    pub(crate) fn stay_no_more(&self) {
        self.watch.clear();
        self.arena.evict_again();
        self.arena.set_confined(true);
    }

    /// Makes the next check for debuggers due at once.
    pub(crate) fn look_soon(&self) {
        self.watch.next.store(0, Relaxed);
    }

    /// If a check is due, and all debuggers have left, lets the pager evict again.
    pub(crate) fn look_for_debuggers(&self) {
        let may_look = || !self.is_confined.load(Relaxed) && !self.arena.is_lent();
        if !self.watch.is_look_due() || !may_look() {
            return;
        }
        let Some(_space) = self.space.try_lock() else { return };
        self.watch.wait_for_look();
        if self.watch.have_all_left() {
            self.watch.asked.store(0, Relaxed);
            self.arena.evict_again();
            self.arena.yield_room(false);
        }
    }
}
