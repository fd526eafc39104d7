//! The system calls before which the runtime's own thread is ended (pl-13), and those that end a
//! thread, a process or its program.

use crate::program::Program;
use crate::robust;
use dispatch::Call;
use std::ffi::c_int;
use std::sync::atomic::Ordering::Relaxed;

impl Program {
    /// Before a program is executed, sets the limits of this process's program in the kernel. Does
    /// nothing in a confined process, because a filter may end the program for such a call.
    pub(crate) fn give_limits(&self) {
        if !self.is_confined.load(Relaxed) {
            self.space.lock().limits.apply();
        }
    }

    /// Ends the confinement: from now on, the runtime may again issue every system call that it
    /// needs.
    pub(crate) fn end_confinement(&self) {
        self.is_confined.store(false, Relaxed);
        self.is_silent.store(false, Relaxed);
        page::set_confined(false);
        self.arena.set_confined(false);
    }

    /// Raises the limits in the kernel again, because no program was executed.
    pub(crate) fn take_limits_back(&self) {
        if !self.is_confined.load(Relaxed) {
            self.space.lock().limits.lift();
        }
    }

    /// Ends the runtime's own thread if a call requires that. Until the call, the caller must not
    /// evict blocks.
    pub(crate) fn end_thread_for(&self, number: usize, args: &[usize; 6]) {
        if matches!(number as i64, libc::SYS_execve | libc::SYS_execveat) {
            // This is the last step, because with the program's limits the kernel would refuse
            // mappings of the runtime.
            self.give_limits();
        }
        let is_prctl = number as i64 == libc::SYS_prctl;
        if is_prctl && args[0] as c_int == libc::PR_SET_MDWE {
            self.space.lock().leave_executable(&self.arena);
        }
        if self.is_confining(number, args) {
            self.confine();
        } else if calls::spec(number).is_some_and(|spec| spec.ends_own_thread.holds(args)) {
            // The thread may start again when blocks are evicted.
            self.arena.rest();
        }
    }

    /// Prepares a call after which a filter refuses calls of the runtime. The runtime's own thread
    /// never starts again, because the filter may end the process if the process creates a
    /// thread.
    fn confine(&self) {
        let is_first = !self.is_confined.swap(true, Relaxed);
        self.is_newly_confined.fetch_or(is_first, Relaxed);
        page::set_confined(true);
        self.space.lock().leave_executable(&self.arena);
        dispatch::release_all_code();
        // If a child of `vfork` installs the filter, its parent is not confined.
        if self.arena.is_lent() {
            self.is_child_confined.fetch_or(is_first, Relaxed);
            return self.arena.rest();
        }
        self.stay_no_more();
        self.arena.end_thread();
    }

    /// Does the work before a call that ends its thread, the process or its program.
    pub(crate) fn before_end(&self, call: &mut Call) {
        let number = call.number() as i64;
        match number {
            libc::SYS_exit if self.threads.load(Relaxed) > 1 => {}
            libc::SYS_exit | libc::SYS_exit_group => self.report_end(),
            libc::SYS_execve | libc::SYS_execveat => {
                // The program may close its standard error before it ends, as many programs do.
                self.say_if_lost();
                self.arena.hush(&self.figures());
            }
            _ => return,
        }
        // A filter may end the program for a call that the program does not make itself.
        if !self.is_confined.load(Relaxed) {
            robust::pin(&self.arena, call.note(), number == libc::SYS_exit);
        }
    }
}
