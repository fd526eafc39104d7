//! A flag that Ctrl-C sets. Commands check the flag repeatedly during their work, and end early if
//! the flag is set.

use crate::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A flag that a handler of SIGINT sets.
#[derive(Debug, Default)]
pub struct Interrupt(pub Arc<AtomicBool>);

impl Interrupt {
    /// Returns true if a SIGINT has arrived.
    pub fn is_set(&self) -> bool {
        self.0.load(Relaxed)
    }

    /// Returns an error if a SIGINT has arrived.
    pub fn check(&self) -> Result<(), Error> {
        if self.is_set() { Err(Error::Interrupted) } else { Ok(()) }
    }
}
