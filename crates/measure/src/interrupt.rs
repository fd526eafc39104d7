//! Ctrl-C, as a flag that is looked at before each request.

use crate::error::Error;
use signal_hook::consts::SIGINT;
use signal_hook::flag;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Whether SIGINT has come.
#[derive(Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Handles SIGINT from now on: the first sets the flag, a second ends the process at once.
    ///
    /// # Errors
    /// It can't be handled.
    pub fn install() -> io::Result<Self> {
        let interrupt = Interrupt::default();
        flag::register_conditional_shutdown(SIGINT, 130, Arc::clone(&interrupt.0))
            .and_then(|_| flag::register(SIGINT, Arc::clone(&interrupt.0)))?;
        Ok(interrupt)
    }

    /// As if SIGINT had come.
    #[cfg(test)]
    pub(crate) fn set(&self) {
        self.0.store(true, Relaxed);
    }

    /// Returns whether to stop.
    pub fn is_set(&self) -> bool {
        self.0.load(Relaxed)
    }

    /// Returns an error if so.
    pub fn check(&self) -> Result<(), Error> {
        if self.is_set() { Err(Error::Interrupted) } else { Ok(()) }
    }
}
