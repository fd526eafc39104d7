//! The signals of a server: those that end it, those that cancel a save, and those that it ignores.
//! With `--save-on-exit`, no single signal that can be handled ends the server without a save.

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

/// Signals that end the server. A second signal from this list ends the server at once.
const EXPLICIT: [c_int; 3] = [SIGTERM, SIGINT, SIGQUIT];

/// Other signals that end the server. A second signal from this list has no effect, because some of
/// these signals arrive repeatedly. The processes of a session get SIGHUP from its shell, from the
/// terminal, and from systemd after SIGTERM. SIGXCPU arrives every second.
const IMPLICIT: [c_int; 3] = [SIGHUP, SIGXCPU, Signal::POWER.as_raw()];

/// Signals that would end a process by default, and that the server ignores, as it does all
/// real-time signals. If SIGXFSZ is ignored, a write past the file size limit returns an error.
const IGNORED: [c_int; 8] =
    [SIGXFSZ, SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGIO, Signal::STKFLT.as_raw()];

/// The signals that have arrived since this value was created.
pub(super) struct Signals {
    came: Receiver<c_int>,
    /// The signal that ended the server.
    first: OnceCell<c_int>,
}

impl Signals {
    /// Installs the handlers.
    pub(super) fn new() -> Result<Self, Error> {
        let unread = Arc::new(AtomicBool::new(false));
        for signal in IGNORED.into_iter().chain(SIGRTMIN()..=SIGRTMAX()) {
            flag::register(signal, unread.clone()).map_err(no_handler)?;
        }
        // The process may have begun with ignored signals, for example after `nohup`.
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

    /// Waits for a signal that ends the server, and returns its name. Calls `look` each time that
    /// `every` has passed.
    pub(super) fn end(&self, every: Duration, mut look: impl FnMut()) -> &'static str {
        while !self.is_end() {
            match self.came.recv_timeout(every) {
                Ok(came) => _ = self.first.get_or_init(|| came),
                Err(RecvTimeoutError::Timeout) => look(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        // If the thread that forwards signals has ended, no signal can arrive, and the server ends.
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

    /// Forgets all signals that have arrived, but keeps the name of the first signal.
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
        // If this thread can't be started, the process ends a few seconds later.
        let _ = spawn("end", STACK, ends);
    }

    /// Returns whether the signal `came` cancels the save. The first signal never cancels a save.
    /// If the server is already ending without a signal, the sender of the first signal may not
    /// know about that.
    fn gives_up(&self, came: c_int) -> bool {
        self.first.set(came).is_err() && EXPLICIT.contains(&came)
    }

    /// Waits for `time`, or until a signal cancels the save. Returns whether a signal cancelled the
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
