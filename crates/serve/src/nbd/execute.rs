//! What a request does to the disk.

use super::reply::{DataPart, Replies};
use super::request::{Command, Request};
use super::wire::*;
use crate::nbd::handshake::Terms;
use rustix::io::Errno;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A long request is done in steps of so many bytes, between which the server may end.
const STEP: u64 = 1 << 20;

/// What is written where zeros are to be stored.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// Serves requests of one connection.
#[derive(Clone, Copy)]
pub(crate) struct Executor<'c> {
    pub(crate) terms: &'c Terms,
    /// Whether the server is to end.
    pub(crate) stop: &'c AtomicBool,
}

impl Executor<'_> {
    /// Does what is asked for, and puts the answer to the others.
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
                Command::Punch => disk.write_zeroes(offset, len),
                Command::Trim => disk.discard(offset, len),
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

    /// Reads a part of what is asked for, and puts it to the replies.
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
            self.go_on()?;
            // Steps end between blocks, so that none is written in two parts.
            let step = (STEP - at % STEP).min(payload.len() as u64);
            let (now, rest) = payload.split_at(step as usize);
            self.terms.export.disk.write(at, now)?;
            (at, payload) = (at + step, rest);
        }
        Ok(())
    }

    fn store_zeros(&self, offset: u64, len: u64) -> Result<(), Errno> {
        let (mut at, end) = (offset, offset + len);
        while at < end {
            self.go_on()?;
            let step = (ZEROS.len() as u64 - at % ZEROS.len() as u64).min(end - at);
            self.terms.export.disk.write(at, &ZEROS[..step as usize])?;
            at += step;
        }
        Ok(())
    }

    fn go_on(&self) -> Result<(), Errno> {
        if self.stop.load(Relaxed) { Err(Errno::SHUTDOWN) } else { Ok(()) }
    }
}

/// Returns the protocol's error for one of the disk's.
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
