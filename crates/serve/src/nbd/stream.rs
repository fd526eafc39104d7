//! The transport of a connection.

use super::disconnect::{End, Fault};
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

/// The two directions of a connection. One thread at a time receives, and one thread at a time
/// sends.
pub(crate) trait Stream: Sync {
    /// Waits for bytes. Returns the number of bytes received, which is 0 if the client sends no
    /// more bytes. If no bytes arrive for a while, returns `WouldBlock`, so that the caller can
    /// check its time limit.
    fn receive(&self, buf: &mut [u8]) -> io::Result<usize>;

    /// Sends some of the bytes, and returns their number. If the client receives no bytes for a
    /// while, returns `WouldBlock`.
    fn send(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Shuts down both directions, and wakes the threads that wait to receive or send.
    fn hang_up(&self);

    /// Sends all bytes. Returns an error if the client receives no bytes for the time `within`.
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
