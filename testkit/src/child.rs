//! Runs code in a child of fork.
#![allow(unsafe_code)]

use crate::scaled;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The seconds after which a child is ended, in short runs and in long runs.
const TIME: [usize; 2] = [60, 600];

/// A running child. Only [`wait`](Self::wait) and [`status`](Self::status) wait for the child.
#[derive(Debug)]
#[must_use]
pub struct Child(i32);

impl Child {
    /// Forks. The child runs `work` and exits with 0, or with 1 if `work` panics or takes too long.
    /// No other code of the test runs in the child.
    pub fn fork(work: impl FnOnce()) -> Self {
        // SAFETY: the child needs no lock that a lost thread could hold. Exceptions are the code
        // under test, and the C library's allocator, which handles forks.
        Self::begin(unsafe { libc::fork() }, work)
    }

    /// Forks by a direct system call, so that no fork handler runs.
    pub fn clone_unnoticed(work: impl FnOnce()) -> Self {
        // SAFETY: as for `fork`. In addition, no other thread of the test allocates memory during
        // the call. The C library does not unlock its allocator in this child.
        let child = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
        Self::begin(child as i32, work)
    }

    fn begin(child: i32, work: impl FnOnce()) -> Self {
        assert!(child >= 0, "fork failed");
        if child == 0 {
            // SAFETY: the handler has the type that `signal` requires, and ends the child.
            unsafe {
                libc::signal(libc::SIGALRM, tell_where as *const () as libc::sighandler_t);
                libc::alarm(scaled(TIME[0], TIME[1]) as u32);
            }
            // Prints panics directly. The test harness captures the output of a thread, and the
            // child would end without printing it.
            std::panic::set_hook(Box::new(|panic| write_error(&format!("{panic}\n"))));
            let worked = catch_unwind(AssertUnwindSafe(work)).is_ok();
            // SAFETY: `_exit` has no requirements, and ends the child.
            unsafe { libc::_exit(i32::from(!worked)) };
        }
        Child(child)
    }

    /// Returns the id of the child's process.
    pub fn id(&self) -> i32 {
        self.0
    }

    /// Waits for the child to exit, and returns its status in the format of `waitpid`.
    pub fn status(self) -> i32 {
        let mut status = 0;
        loop {
            // SAFETY: the call writes only to `status`, a local variable.
            let ended = unsafe { libc::waitpid(self.0, &mut status, 0) };
            let error = std::io::Error::last_os_error();
            // The timer signal of a fuzzer can interrupt the call.
            if ended >= 0 || error.kind() != std::io::ErrorKind::Interrupted {
                assert_eq!(ended, self.0, "{error}");
                return status;
            }
        }
    }

    /// Waits for the child to exit.
    ///
    /// # Panics
    /// Panics if the work failed.
    pub fn wait(self) {
        assert_eq!(self.status(), 0, "the child failed");
    }
}

/// Writes `text` to the standard error, if possible.
fn write_error(text: &str) {
    // SAFETY: the pointer and the length describe `text`, which is borrowed during the call.
    let _written = unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
}

/// Prints a backtrace of a child that exceeds its time, and ends the child. This function may block
/// on a lock that the child holds. A second signal then ends the child.
extern "C" fn tell_where(_: libc::c_int) {
    // SAFETY: the default action of the second signal ends the child. The signal must be unblocked,
    // because it is blocked in this handler.
    unsafe {
        libc::signal(libc::SIGALRM, libc::SIG_DFL);
        let mut second: libc::sigset_t = std::mem::zeroed();
        libc::sigaddset(&mut second, libc::SIGALRM);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &second, std::ptr::null_mut());
        libc::alarm(10);
    }
    write_error("a child takes too long; its threads, and where it is:\n");
    for task in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        for name in ["comm", "wchan", "syscall"] {
            write_error(&std::fs::read_to_string(task.path().join(name)).unwrap_or_default());
            write_error("\n");
        }
    }
    write_error(&std::backtrace::Backtrace::force_capture().to_string());
    // SAFETY: `_exit` has no requirements, and ends the child.
    unsafe { libc::_exit(1) }
}

/// Runs `work` in a child, and waits for it.
pub fn in_child(work: impl FnOnce()) {
    Child::fork(work).wait();
}
