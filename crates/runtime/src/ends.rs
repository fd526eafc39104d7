//! The system calls before which the runtime's own thread is ended (pl-13), and those that end a
//! thread, a process or its program.

use crate::program::Program;
use crate::robust;
use dispatch::Call;
use std::ffi::c_int;
use std::sync::atomic::Ordering::Relaxed;

/// A flag of `close_range`.
const CLOSE_RANGE_UNSHARE: usize = 2;

/// How long the runtime's own thread remains ended because of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    No,
    /// The thread may start again when blocks are evicted. The kernel refuses the call in a process
    /// with several threads, or the call changes a property of a thread that a new thread inherits.
    Once,
    /// The thread never starts again, because a filter may end the process when the process creates
    /// a thread.
    ForGood,
}

/// Returns whether, and for how long, the runtime's own thread is ended for a call.
fn ends_for(number: usize, args: &[usize; 6]) -> Ends {
    match number as i64 {
        libc::SYS_seccomp => Ends::Once,
        libc::SYS_prctl => match args[0] as c_int {
            libc::PR_SET_SECCOMP => Ends::Once,
            libc::PR_SET_NO_NEW_PRIVS | libc::PR_CAPBSET_DROP | libc::PR_CAP_AMBIENT => Ends::Once,
            libc::PR_SET_SECUREBITS | libc::PR_SET_KEEPCAPS => Ends::Once,
            _ => Ends::No,
        },
        // A tracer that shares memory may stop all threads.
        libc::SYS_ptrace if matches!(args[0] as u32, libc::PTRACE_ATTACH | libc::PTRACE_SEIZE) => {
            Ends::Once
        }
        libc::SYS_close_range if args[2] & CLOSE_RANGE_UNSHARE != 0 => Ends::Once,
        // If the thread were killed during the call, locks that it holds in shared memory would
        // stay locked.
        libc::SYS_execve | libc::SYS_execveat | libc::SYS_exit_group => Ends::Once,
        libc::SYS_unshare | libc::SYS_setns | libc::SYS_landlock_restrict_self => Ends::Once,
        libc::SYS_capset | libc::SYS_setgroups => Ends::Once,
        libc::SYS_setuid | libc::SYS_setreuid | libc::SYS_setresuid => Ends::Once,
        libc::SYS_setgid | libc::SYS_setregid | libc::SYS_setresgid => Ends::Once,
        libc::SYS_setfsuid | libc::SYS_setfsgid => Ends::Once,
        _ => Ends::No,
    }
}

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
        self.member().into_iter().for_each(|member| member.set_confined(false));
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
        let ends =
            if self.is_confining(number, args) { Ends::ForGood } else { ends_for(number, args) };
        match ends {
            Ends::No => {}
            Ends::Once => self.arena.rest(),
            Ends::ForGood => {
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
        }
    }

    /// Does the work before a call that ends its thread, the process or its program.
    pub(crate) fn before_end(&self, call: &mut Call) {
        let number = call.number() as i64;
        match number {
            libc::SYS_exit if self.threads.load(Relaxed) > 1 => {}
            libc::SYS_exit | libc::SYS_exit_group => self.report_end(),
            libc::SYS_execve | libc::SYS_execveat => {
                // The program may close its standard error before it ends, as many programs do.
                self.warn_if_over_limit();
                self.begin_exec();
            }
            _ => return,
        }
        // A filter may end the program for a call that the program does not make itself.
        if !self.is_confined.load(Relaxed) {
            robust::pin(&self.arena, call.note(), number == libc::SYS_exit);
        }
    }
}
