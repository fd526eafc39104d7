//! The signals of a server: what ends it, what gives a save up, and what it passes over. None that
//! can be handled ends it without saving.

use super::headroom::STACK;
use crate::error::{Error, no_handler, no_thread};
use crate::process_status::process_status;
use libc::{SIGRTMAX, SIGRTMIN};
use rustix::process::Signal;
use serve::spawn;
use signal_hook::consts::{
    SIGALRM, SIGHUP, SIGINT, SIGIO, SIGPROF, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGVTALRM,
    SIGXCPU, SIGXFSZ,
};
use signal_hook::iterator::Signals as Handled;
use signal_hook::{flag, low_level};
use std::cell::OnceCell;
use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// A second one of these is meant to end the server at once.
const EXPLICIT: [c_int; 3] = [SIGTERM, SIGINT, SIGQUIT];

/// What else ends it. Some come more than once of themselves: to those of a session SIGHUP comes
/// from its shell, from the terminal, and from systemd behind SIGTERM; SIGXCPU every second.
const IMPLICIT: [c_int; 3] = [SIGHUP, SIGXCPU, Signal::POWER.as_raw()];

/// What would end a process, and means nothing here, as all real-time signals. To write past the
/// longest file there may be is an error then.
const IGNORED: [c_int; 8] =
    [SIGXFSZ, SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGIO, Signal::STKFLT.as_raw()];

/// What comes within so many looks after the first signal is of the same end, whichever it is: a
/// terminal and a program that forwards its signals send it each, and so does `timeout` to a
/// process and to its group; a program that the terminal's SIGINT interrupts sends SIGTERM to its
/// children; and of SIGTERM and SIGHUP at once the system gives SIGHUP first. What came while this
/// process did not run is found by the next look, however late that is.
const LOOKS: u32 = 15;
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Signals that come from now on.
pub(super) struct Signals {
    came: Receiver<c_int>,
    /// The one that ended the server.
    first: OnceCell<c_int>,
}

impl Signals {
    pub(super) fn new() -> Result<Self, Error> {
        let nobody_looks = Arc::new(AtomicBool::new(false));
        for signal in IGNORED.into_iter().chain(SIGRTMIN()..=SIGRTMAX()) {
            flag::register(signal, nobody_looks.clone()).map_err(no_handler)?;
        }
        let ignored = ignored();
        let is_handled = |signal: &c_int| {
            let may_be_ignored = [SIGHUP, SIGQUIT].contains(signal);
            !(may_be_ignored && ignored & (1 << (signal - 1)) != 0)
        };
        let mut signals = Handled::new(EXPLICIT.into_iter().chain(IMPLICIT).filter(is_handled))
            .map_err(no_handler)?;
        let (tell, told) = mpsc::channel();
        let forward = move || {
            let Some(first) = signals.forever().next() else { return };
            let told = tell.send(first);
            for _ in 0..LOOKS {
                thread::sleep(LOOK_EVERY);
                signals.pending().for_each(drop);
            }
            let _ = told.and_then(|()| signals.forever().try_for_each(|came| tell.send(came)));
        };
        spawn("signals", STACK, forward).map_err(no_thread)?;
        Ok(Signals { came: told, first: OnceCell::new() })
    }

    /// Waits for one that ends the server; its name.
    pub(super) fn end(&self) -> &'static str {
        if !self.is_end()
            && let Ok(came) = self.came.recv()
        {
            self.first.get_or_init(|| came);
        }
        // Where no more can come it is time to end, too.
        self.first.get().map_or("an error of the signal handler", |signal| name(*signal))
    }

    /// Returns whether one came that ends the server.
    pub(super) fn is_end(&self) -> bool {
        if self.first.get().is_none()
            && let Ok(came) = self.came.try_recv()
        {
            self.first.get_or_init(|| came);
        }
        self.first.get().is_some()
    }

    /// Forgets those that came by now, but that one did.
    pub(super) fn forget(&self) {
        self.is_end();
        self.came.try_iter().for_each(drop);
    }

    /// Has one that would give a save up end the process at once from now on.
    pub(super) fn end_at_once(self) {
        let ends = move || {
            while let Ok(came) = self.came.recv() {
                if EXPLICIT.contains(&came) {
                    low_level::exit(1);
                }
            }
        };
        // Without a thread it takes a few seconds.
        let _ = spawn("end", STACK, ends);
    }

    /// Returns whether one came that gives a save up.
    pub(super) fn is_given_up(&self) -> bool {
        self.came.try_iter().any(|came| self.gives_up(came))
    }

    /// Returns whether this signal gives up the save. The first never does, also where the server
    /// ends without a signal: its sender may not have known.
    fn gives_up(&self, came: c_int) -> bool {
        self.first.set(came).is_err() && EXPLICIT.contains(&came)
    }

    /// Waits for so long, unless one gives a save up.
    pub(super) fn is_given_up_within(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.came.recv_timeout(left) {
                Ok(came) if self.gives_up(came) => return true,
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => return false,
                Err(RecvTimeoutError::Disconnected) => {
                    thread::sleep(left);
                    return false;
                }
            }
        }
    }
}

/// Signals that were ignored when the process began, as `nohup` has it: a bit for each.
fn ignored() -> u64 {
    process_status("SigIgn:", 16).unwrap_or(0)
}

fn name(signal: c_int) -> &'static str {
    low_level::signal_name(signal).unwrap_or("a signal")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_one_gives_nothing_up() {
        let now = Duration::ZERO;
        let (tell, came) = mpsc::channel();
        let signals = Signals { came, first: OnceCell::new() };
        let sends = |signal| tell.send(signal).unwrap();
        // As of a server that could not start.
        signals.forget();
        sends(SIGTERM);
        assert!(!signals.is_given_up() && !signals.is_given_up_within(now));
        sends(SIGHUP);
        assert!(!signals.is_given_up() && !signals.is_given_up_within(now));
        sends(SIGINT);
        assert!(signals.is_given_up());
        sends(SIGTERM);
        assert!(signals.is_given_up_within(now));
    }
}
