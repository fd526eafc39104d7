//! Ctrl-C, as a flag that is checked before each request.

use crate::error::Error;
use signal_hook::consts::SIGINT;
use signal_hook::flag;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A flag that is true after a SIGINT.
#[derive(Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Handles SIGINT from now on: the first sets the flag, a second ends the process at once.
    ///
    /// # Errors
    /// The handler can't be installed.
    pub fn install() -> io::Result<Self> {
        let interrupt = Interrupt::default();
        flag::register_conditional_shutdown(SIGINT, 130, Arc::clone(&interrupt.0))
            .and_then(|_| flag::register(SIGINT, Arc::clone(&interrupt.0)))?;
        Ok(interrupt)
    }

    /// Sets the flag as a SIGINT does.
    #[cfg(test)]
    pub(crate) fn set(&self) {
        self.0.store(true, Relaxed);
    }

    /// Returns true after a SIGINT.
    pub fn is_set(&self) -> bool {
        self.0.load(Relaxed)
    }

    /// Returns an error after a SIGINT.
    pub fn check(&self) -> Result<(), Error> {
        if self.is_set() { Err(Error::Interrupted) } else { Ok(()) }
    }
}
