//! The signals of a server: those that end the server, those that cancel a save, and those that the
//! server ignores. With `--save-on-exit`, a single signal that can be handled never ends the server
//! without a save.

use crate::error::{Error, no_handler, no_thread};
use crate::policy::{LOOK_EVERY, SIGNAL_LOOKS, STACK};
use crate::process_status::ignored_signals;
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

/// Signals that end the server. During the server's end, a further signal from this list ends the
/// server at once.
const EXPLICIT: [c_int; 3] = [SIGTERM, SIGINT, SIGQUIT];

/// Signals that end the server, but have no effect during the server's end, because some of them
/// arrive repeatedly. A session's shell, its terminal, and systemd after SIGTERM each send SIGHUP.
/// The kernel sends SIGXCPU every second.
const IMPLICIT: [c_int; 3] = [SIGHUP, SIGXCPU, Signal::POWER.as_raw()];

/// Signals that end a process by default, but that the server ignores. The server also ignores all
/// real-time signals. Because SIGXFSZ is ignored, a write past the file size limit returns an
/// error.
const IGNORED: [c_int; 8] =
    [SIGXFSZ, SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGIO, Signal::STKFLT.as_raw()];

/// Receives the signals of the server.
pub(super) struct Signals {
    came: Receiver<c_int>,
    /// The first signal, which ends the server.
    first: OnceCell<c_int>,
}

impl Signals {
    /// Installs the signal handlers.
    pub(super) fn new() -> Result<Self, Error> {
        let unread = Arc::new(AtomicBool::new(false));
        for signal in IGNORED.into_iter().chain(SIGRTMIN()..=SIGRTMAX()) {
            flag::register(signal, unread.clone()).map_err(no_handler)?;
        }
        // The process can inherit ignored signals, for example from `nohup`.
        let ignored = ignored_signals();
        let is_handled = |signal: &c_int| {
            let may_be_ignored = [SIGHUP, SIGQUIT].contains(signal);
            !(may_be_ignored && ignored & (1 << (signal - 1)) != 0)
        };
        let mut signals = Handled::new(EXPLICIT.into_iter().chain(IMPLICIT).filter(is_handled))
            .map_err(no_handler)?;
        let (sender, receiver) = mpsc::channel();
        let forward = move || {
            let Some(first) = signals.forever().next() else { return };
            let sent = sender.send(first);
            for _ in 0..SIGNAL_LOOKS {
                thread::sleep(LOOK_EVERY);
                signals.pending().for_each(drop);
            }
            let _ = sent.and_then(|()| signals.forever().try_for_each(|came| sender.send(came)));
        };
        spawn("signals", STACK, forward).map_err(no_thread)?;
        Ok(Signals { came: receiver, first: OnceCell::new() })
    }

    /// Waits for a signal that ends the server, and returns the signal's name. Calls `look` once
    /// per `every` during the wait.
    pub(super) fn end(&self, every: Duration, mut look: impl FnMut()) -> &'static str {
        while !self.is_end() {
            match self.came.recv_timeout(every) {
                Ok(came) => _ = self.first.get_or_init(|| came),
                Err(RecvTimeoutError::Timeout) => look(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        // If the thread that forwards signals has ended, no signal can arrive, so the server ends.
        self.first.get().map_or("an error of the signal handler", |signal| {
            low_level::signal_name(*signal).unwrap_or("a signal")
        })
    }

    /// Returns whether a signal that ends the server has arrived.
    pub(super) fn is_end(&self) -> bool {
        if self.first.get().is_none()
            && let Ok(came) = self.came.try_recv()
        {
            self.first.get_or_init(|| came);
        }
        self.first.get().is_some()
    }

    /// Drops all signals that have arrived, but keeps the first signal for its name.
    pub(super) fn forget(&self) {
        self.is_end();
        self.came.try_iter().for_each(drop);
    }

    /// From now on, a signal that would cancel a save ends the process at once.
    pub(super) fn end_at_once(self) {
        let ends = move || {
            while let Ok(came) = self.came.recv() {
                if EXPLICIT.contains(&came) {
                    low_level::exit(1);
                }
            }
        };
        // If the thread can't be started, the process ends by itself a few seconds later.
        let _ = spawn("end", STACK, ends);
    }

    /// Returns whether the signal `came` cancels the save. The first signal never cancels the save,
    /// because its sender might not know that the server is already ending.
    fn gives_up(&self, came: c_int) -> bool {
        self.first.set(came).is_err() && EXPLICIT.contains(&came)
    }

    /// Waits for `time`, or until a signal cancels the save. Returns true if a signal cancelled the
    /// save.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_one_gives_nothing_up() {
        let now = Duration::ZERO;
        let (tell, came) = mpsc::channel();
        let signals = Signals { came, first: OnceCell::new() };
        let sends = |signal| tell.send(signal).unwrap();
        // A server that could not start ends without a signal.
        signals.forget();
        sends(SIGTERM);
        assert!(!signals.is_given_up_within(now));
        sends(SIGHUP);
        assert!(!signals.is_given_up_within(now));
        sends(SIGINT);
        assert!(signals.is_given_up_within(now));
        sends(SIGTERM);
        assert!(signals.is_given_up_within(now));
    }
}
