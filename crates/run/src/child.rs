//! Runs the program as a child of this process, forwards signals to the child, and waits for the
//! child's end.

use crate::launch::Launch;
use crate::refusal::Refusal;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, waitpid};
use signal_hook::consts::{
    SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2,
};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::origin::{Origin, WithOrigin};
use signal_hook::low_level::siginfo::Cause;
use std::ffi::c_int;
use std::path::Path;

const PASSED: [c_int; 8] = [SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT];

/// If a signal ended a program, a shell reports the signal's number plus this value.
const BY_SIGNAL: i32 = 128;

/// Starts a program and waits for its end. Returns an exit code that reports how the program ended.
pub(crate) fn run(mut launch: Launch, name: &Path, ignored: u64) -> Result<u8, Refusal> {
    // A signal that this process ignores has no handler, so the program also ignores the signal. If
    // a handler were installed, the program would start with the default action.
    let passed = PASSED.iter().filter(|signal| ignored >> (*signal - 1) & 1 == 0);
    let handled = passed.chain([&SIGCHLD]);
    let mut signals = SignalsInfo::<WithOrigin>::new(handled).map_err(Refusal::Handlers)?;
    let child = launch.spawn().map_err(|error| Refusal::of_start(name, &error))?;
    let program = Pid::from_child(&child);
    // This loop calls `wait` only between signals. So while a signal is forwarded, the program's
    // process ID can't belong to another process.
    for came in signals.forever() {
        if came.signal == SIGCHLD {
            match ended(program) {
                Ok(Some(code)) => return Ok(code),
                Ok(None) => {}
                Err(error) => {
                    let why = "the program can't be waited for";
                    return Err(Refusal::Failed(format!("{why}: {error}; please report it")));
                }
            }
        } else if let Some(signal) = Signal::from_named_raw(came.signal)
            && !has_it(&came, program)
        {
            // The call fails if the program has just ended.
            let _gone = kill_process(program, signal);
        }
    }
    Err(Refusal::Failed("signals ended; please report it".to_owned()))
}

/// Returns whether the program has also received the signal. The terminal sends a signal to both
/// processes. A signal that the program sends to its own process group reaches both processes too.
fn has_it(came: &Origin, program: Pid) -> bool {
    let sender = came.process.map(|process| process.pid);
    came.cause == Cause::Kernel || sender == Some(program.as_raw_nonzero().get())
}

/// Returns the exit code of the program if the program has ended. If the program was stopped, this
/// process stops too, because the shell waits for this process. If SIGCONT is then sent to this
/// process alone or to both processes, the program continues.
fn ended(program: Pid) -> rustix::io::Result<Option<u8>> {
    loop {
        match waitpid(Some(program), WaitOptions::NOHANG | WaitOptions::UNTRACED) {
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
            Ok(None) => return Ok(None),
            Ok(Some((_, status))) if status.stopped() => kill_process(getpid(), Signal::STOP)?,
            Ok(Some((_, status))) => return Ok(code(status)),
        }
    }
}

fn code(status: WaitStatus) -> Option<u8> {
    let by_signal = || status.terminating_signal().map(|signal| BY_SIGNAL + signal);
    status.exit_status().or_else(by_signal).map(|code| code as u8)
}
