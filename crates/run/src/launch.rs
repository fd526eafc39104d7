//! Starts a program and injects `uzram-host`. If the system refuses the injection, `uzram-host` is
//! executed instead and runs the program.
//!
//! # Safety
//! Between a fork and the execution of a program, the code only makes system calls. The word that
//! encodes a helper is removed from `HELPER` before the word is used.
#![allow(unsafe_code)]

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command};
#[cfg(target_arch = "x86_64")]
use std::{
    ffi::{CString, NulError},
    os::unix::ffi::OsStrExt as _,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// PR_SET_SYSCALL_USER_DISPATCH, since Linux 5.11.
const SET_DISPATCH: i32 = 59;

/// The error with which a [`Command`] fails if no host can be injected. `execve` never returns this
/// error.
const REFUSED: i32 = libc::ENOTRECOVERABLE;

/// The handle of the helper for the next program, encoded as a word, or 0 if no helper exists.
#[cfg(target_arch = "x86_64")]
static HELPER: AtomicU64 = AtomicU64::new(0);

/// The commands that start a program.
#[derive(Debug)]
pub(crate) struct Launch {
    /// This command executes the program, into which a helper injects a host.
    pub(crate) injected: Option<Command>,
    /// This command executes the host, which runs the program.
    pub(crate) hosted: Command,
}

impl Launch {
    /// Executes the program in place of this process. If the execution fails, returns the error of
    /// the system.
    pub(crate) fn exec(mut self) -> io::Error {
        let refused = self.injected.as_mut().map(Command::exec);
        dismiss_helper();
        refused.filter(|error| !is_refused(error)).unwrap_or_else(|| self.hosted.exec())
    }

    /// Starts the program as a child.
    ///
    /// # Errors
    /// Fails with the error of the system.
    pub(crate) fn spawn(&mut self) -> io::Result<Child> {
        match self.injected.as_mut().map(Command::spawn) {
            Some(Err(error)) if is_refused(&error) => self.hosted.spawn(),
            Some(spawned) => spawned,
            None => self.hosted.spawn(),
        }
    }
}

/// Prepares a command to inject a host into the program that the command executes. If the system
/// refuses the injection, the command fails with the error REFUSED.
pub(crate) fn inject_into(command: &mut Command, host: &Path, settings: &OsStr) {
    #[cfg(target_arch = "x86_64")]
    if let (Ok(host), Ok(settings)) = (name(host.as_os_str()), name(settings)) {
        // SAFETY: `getauxval` only reads a copy of the auxiliary vector in the C library.
        let vdso = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) } as usize;
        let plan = inject::Plan { host, settings, vdso };
        let inject = move || {
            let helper = inject::Helper::start(&plan, true);
            let word = helper.ok_or_else(|| io::Error::from_raw_os_error(REFUSED))?.into_word();
            HELPER.store(word, Relaxed);
            Ok(())
        };
        // SAFETY: the closure starts the helper by system calls alone, in memory that these calls
        // map.
        unsafe { command.pre_exec(inject) };
    }
}

/// Returns whether another `uzram run` dispatches the system calls of this process.
pub(crate) fn is_dispatched() -> bool {
    // SAFETY: this process has not enabled dispatch itself, so the call ends no dispatch that this
    // process needs.
    unsafe { libc::prctl(SET_DISPATCH, 0, 0, 0, 0) != 0 }
}

/// Returns whether the system permits injections, as far as this process can test in advance.
pub(crate) fn may_inject() -> bool {
    #[cfg(target_arch = "x86_64")]
    return inject::is_permitted();
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Returns true if no host can be injected, or if a security module may have refused the execution
/// because the process is traced. A host must then run the program instead.
fn is_refused(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(REFUSED | libc::EPERM | libc::EACCES))
}

/// Ends the helper of a program that was not executed.
fn dismiss_helper() {
    #[cfg(target_arch = "x86_64")]
    match HELPER.swap(0, Relaxed) {
        0 => {}
        // SAFETY: the word was removed from `HELPER`, so it is used only once. The command that
        // owns the plan still exists.
        word => drop(unsafe { inject::Helper::from_word(word) }),
    }
}

#[cfg(target_arch = "x86_64")]
fn name(text: &OsStr) -> Result<CString, NulError> {
    CString::new(text.as_bytes())
}
