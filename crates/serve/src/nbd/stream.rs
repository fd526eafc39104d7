//! What carries a connection's bytes.

use super::disconnect::{End, Fault};
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

/// A reply has to be taken on within this time, and so has each of its parts.
pub(crate) const TAKEN_WITHIN: Duration = Duration::from_secs(300);

/// A connection's two directions. One thread at a time receives, and one sends.
pub(crate) trait Stream: Sync {
    /// Waits for bytes, and returns how many came, 0 if the client is done. Returns `WouldBlock`
    /// now and then while there are none, so that the caller can look at the time.
    fn receive(&self, buf: &mut [u8]) -> io::Result<usize>;

    /// Sends some bytes, and returns how many. Returns `WouldBlock` now and then while the client
    /// takes none.
    fn send(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Ends both directions, and wakes threads that wait in one.
    fn hang_up(&self);

    /// Sends all bytes, as long as the client takes some `within` that time.
    fn send_all(&self, mut bytes: &[u8], within: Duration) -> Result<(), End> {
        let mut taken = None;
        while !bytes.is_empty() {
            match self.send(bytes) {
                Ok(sent) => {
                    bytes = &bytes[sent..];
                    taken = None;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if taken.get_or_insert_with(Instant::now).elapsed() > within {
                        return Err(Fault::Untaken.into());
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}
