//! Carries out requests on a disk.

use super::reply::{DataPart, Replies};
use super::request::{Command, Request};
use super::wire::*;
use crate::nbd::handshake::Terms;
use crate::policy::WRITE_STEP;
use rustix::io::Errno;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The zeros that one write to the disk stores, for a request to store zeros.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// Carries out the requests of one connection.
#[derive(Clone, Copy)]
pub(crate) struct Executor<'c> {
    pub(crate) terms: &'c Terms,
    /// True when the server is ending.
    pub(crate) stop: &'c AtomicBool,
}

impl Executor<'_> {
    /// Carries out a request, and appends its reply.
    pub(crate) fn execute(
        &self,
        request: &Request,
        command: Result<Command, ErrorCode>,
        payload: &[u8],
        replies: &mut Replies<'_>,
    ) {
        let style = self.terms.replies;
        let disk = &*self.terms.export.disk;
        let (offset, len) = (request.offset, u64::from(request.len));
        let done = command.and_then(|command| {
            let done = match command {
                Command::Read if len > 0 => return self.read(request, replies),
                Command::Read => Ok(()),
                Command::BlockStatus { extents } => {
                    let range = offset..offset + len;
                    replies.block_status(request, extents, |each| disk.extents(range, each));
                    return Ok(());
                }
                Command::Write => self.write(offset, payload),
                Command::WriteZeroes => self.store_zeros(offset, len),
                Command::Punch => disk.discard(offset, len),
                Command::Flush => disk.flush(),
            };
            done.map_err(code)?;
            replies.done(request, style);
            Ok(())
        });
        if let Err(code) = done {
            replies.error(request, style, code);
        }
    }

    fn read(&self, request: &Request, replies: &mut Replies<'_>) -> Result<(), ErrorCode> {
        let part = DataPart { at: request.offset, len: request.len as usize };
        self.read_part(request, part, replies)
    }

    /// Reads a part of the requested range, and appends the data to the replies. If the read fails,
    /// nothing is appended.
    pub(crate) fn read_part(
        &self,
        request: &Request,
        part: DataPart,
        replies: &mut Replies<'_>,
    ) -> Result<(), ErrorCode> {
        let style = self.terms.replies;
        let data = replies.data(request, style, part);
        self.terms.export.disk.read(part.at, data).map_err(code)?;
        replies.read(request, style, part);
        Ok(())
    }

    fn write(&self, offset: u64, mut payload: &[u8]) -> Result<(), Errno> {
        let mut at = offset;
        while !payload.is_empty() {
            self.check_stop()?;
            // Each step except the last ends at a block boundary, so no block is written in two
            // parts.
            let step = (WRITE_STEP - at % WRITE_STEP).min(payload.len() as u64);
            let (now, rest) = payload.split_at(step as usize);
            self.terms.export.disk.write(at, now)?;
            (at, payload) = (at + step, rest);
        }
        Ok(())
    }

    fn store_zeros(&self, offset: u64, len: u64) -> Result<(), Errno> {
        let (mut at, end) = (offset, offset + len);
        while at < end {
            self.check_stop()?;
            let step = (ZEROS.len() as u64 - at % ZEROS.len() as u64).min(end - at);
            self.terms.export.disk.write(at, &ZEROS[..step as usize])?;
            at += step;
        }
        Ok(())
    }

    /// Returns an error if the server is ending.
    fn check_stop(&self) -> Result<(), Errno> {
        if self.stop.load(Relaxed) { Err(Errno::SHUTDOWN) } else { Ok(()) }
    }
}

/// Returns the protocol's error code for the errno that a disk returned.
fn code(errno: Errno) -> ErrorCode {
    match errno {
        Errno::PERM => ErrorCode::Perm,
        Errno::NOMEM => ErrorCode::Nomem,
        Errno::INVAL => ErrorCode::Inval,
        Errno::NOSPC => ErrorCode::Nospc,
        Errno::SHUTDOWN | Errno::NODEV => ErrorCode::Shutdown,
        _ => ErrorCode::Io,
    }
}
