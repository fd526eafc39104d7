//! Ctrl-C, as a flag that is looked at before each request.

use crate::error::Error;
use signal_hook::consts::SIGINT;
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Whether SIGINT has come.
#[derive(Debug, Default)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Handles SIGINT from now on: the first sets the flag, a second ends the process at once.
    pub(crate) fn install() -> Result<Self, Error> {
        let interrupt = Interrupt::default();
        flag::register_conditional_shutdown(SIGINT, 130, Arc::clone(&interrupt.0))
            .and_then(|_| flag::register(SIGINT, Arc::clone(&interrupt.0)))
            .map_err(Error::Signal)?;
        Ok(interrupt)
    }

    /// As if SIGINT had come.
    #[cfg(test)]
    pub(crate) fn set(&self) {
        self.0.store(true, Relaxed);
    }

    /// Whether to stop.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Relaxed)
    }

    /// An error if so.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.is_set() { Err(Error::Interrupted) } else { Ok(()) }
    }
}
