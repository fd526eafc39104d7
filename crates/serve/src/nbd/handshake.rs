//! The handshake (the protocol's haggling phase), from the greeting to the client's choice of an
//! export. This module decodes and encodes bytes, and does no I/O.
//!
//! ```text
//!   greeting -> client flags -> option -> ... -> GO or EXPORT_NAME -> requests
//!                                  '----> ABORT, or a fault: the connection ends
//! ```

use super::disconnect::{End, Fault};
use super::export::{Export, Exports, ReplyStyle};
use super::meta_context::Context;
use super::option_reply::OptionReply;
use super::wire::*;
use crate::policy::ANSWERED_MAX;

/// The result of a handshake: the export, and the features that the client has chosen.
#[derive(Clone)]
pub(crate) struct Terms {
    pub(crate) export: Export,
    pub(crate) replies: ReplyStyle,
    /// Whether the client has chosen the context `base:allocation`, so that the client is allowed
    /// to send BLOCK_STATUS.
    pub(crate) allocation: bool,
}

/// The next phase of the connection.
pub(crate) enum Step {
    /// The handshake continues.
    More,
    /// Requests follow, on these terms.
    Requests(Terms),
}

/// The state of a handshake.
pub(crate) struct Handshake<'e> {
    exports: &'e Exports,
    stage: Stage,
    options: usize,
    replies: ReplyStyle,
    context: Context,
}

#[derive(Clone, Copy)]
enum Stage {
    Flags,
    Options { no_zeroes: bool },
}

impl<'e> Handshake<'e> {
    /// Begins a handshake, and appends the greeting to `out`.
    pub(crate) fn new(exports: &'e Exports, out: &mut Vec<u8>) -> Self {
        out.extend(NBDMAGIC.to_be_bytes());
        out.extend(IHAVEOPT.to_be_bytes());
        out.extend((FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES).to_be_bytes());
        let replies = ReplyStyle::Simple;
        Handshake { exports, stage: Stage::Flags, options: 0, replies, context: Context::None }
    }

    /// Handles the complete messages at the beginning of `bytes`, and appends the answers to `out`.
    /// Stops early if the answers must be sent first. Returns the number of handled bytes, and the
    /// next phase.
    pub(crate) fn advance(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(usize, Step), End> {
        let mut rest = Fields(bytes);
        loop {
            let left = rest.0.len();
            let step = match self.stage {
                Stage::Flags => self.flags(&mut rest)?,
                Stage::Options { no_zeroes } => self.option(&mut rest, no_zeroes, out)?,
            };
            match step {
                // From this size on, the answers are sent before the next option is handled.
                Some(Step::More) if out.len() < ANSWERED_MAX => {}
                Some(step) => return Ok((bytes.len() - rest.0.len(), step)),
                None => return Ok((bytes.len() - left, Step::More)),
            }
        }
    }

    /// Reads the client's flags. Returns `None` if the flags have not arrived yet.
    fn flags(&mut self, rest: &mut Fields<'_>) -> Result<Option<Step>, End> {
        let Some(flags) = rest.u32() else { return Ok(None) };
        if flags & !(FLAG_C_FIXED_NEWSTYLE | FLAG_C_NO_ZEROES) != 0 {
            return Err(Fault::ClientFlags.into());
        }
        self.stage = Stage::Options { no_zeroes: flags & FLAG_C_NO_ZEROES != 0 };
        Ok(Some(Step::More))
    }

    /// Answers an option. Returns `None` if the option has not arrived completely. An option that
    /// is too long is refused when the option's header arrives.
    fn option(
        &mut self,
        rest: &mut Fields<'_>,
        no_zeroes: bool,
        out: &mut Vec<u8>,
    ) -> Result<Option<Step>, End> {
        let mut fields = Fields(rest.0);
        let Some(magic) = fields.u64() else { return Ok(None) };
        if magic != IHAVEOPT {
            return Err(Fault::OptionMagic.into());
        }
        let (Some(option), Some(len)) = (fields.u32(), fields.u32()) else { return Ok(None) };
        if len as usize > OPTION_DATA_MAX {
            return Err(Fault::OptionLength.into());
        }
        let Some(data) = fields.bytes(len as usize) else { return Ok(None) };
        rest.0 = fields.0;
        self.options += 1;
        if self.options > OPTIONS_MAX {
            return Err(Fault::Options.into());
        }
        let mut reply = OptionReply { option, out };
        match option {
            OPT_EXPORT_NAME => return self.export_name(data, no_zeroes, out).map(Some),
            OPT_ABORT => {
                reply.ack();
                return Err(End::Left);
            }
            OPT_LIST if data.is_empty() => self.list(&mut reply),
            OPT_LIST => reply.error(REP_ERR_INVALID, "LIST takes no data"),
            OPT_STARTTLS if data.is_empty() => reply.error(REP_ERR_POLICY, "TLS is not supported"),
            OPT_STARTTLS => reply.error(REP_ERR_INVALID, "STARTTLS takes no data"),
            OPT_INFO => drop(self.info(data, &mut reply)),
            OPT_GO => return Ok(Some(self.go(data, &mut reply))),
            OPT_STRUCTURED_REPLY if data.is_empty() => {
                self.replies = ReplyStyle::Structured;
                reply.ack();
            }
            OPT_STRUCTURED_REPLY => reply.error(REP_ERR_INVALID, "STRUCTURED_REPLY takes no data"),
            OPT_LIST_META_CONTEXT => {
                self.context.list(data, self.replies, self.exports, &mut reply)
            }
            OPT_SET_META_CONTEXT => self.context.set(data, self.replies, self.exports, &mut reply),
            _ => reply.error(REP_ERR_UNSUP, "unknown option"),
        }
        Ok(Some(Step::More))
    }

    fn list(&self, reply: &mut OptionReply<'_>) {
        for Export { name, description, .. } in self.exports.all() {
            let len = (name.len() as u32).to_be_bytes();
            reply.send(REP_SERVER, &[&len, name.as_bytes(), description.as_bytes()]);
        }
        reply.ack();
    }

    /// Answers EXPORT_NAME, the old way to choose an export. EXPORT_NAME has no error reply, so an
    /// unknown export ends the connection.
    fn export_name(&self, name: &[u8], no_zeroes: bool, out: &mut Vec<u8>) -> Result<Step, End> {
        let export = self.exports.find(name).ok_or(Fault::Export)?;
        out.extend(export.disk.size().to_be_bytes());
        out.extend(export.transmission_flags(self.replies).to_be_bytes());
        out.extend(std::iter::repeat_n(0, if no_zeroes { 0 } else { 124 }));
        Ok(Step::Requests(self.terms(export, name)))
    }

    fn go(&self, data: &[u8], reply: &mut OptionReply<'_>) -> Step {
        match self.info(data, reply) {
            Some((export, name)) => Step::Requests(self.terms(export, name)),
            None => Step::More,
        }
    }

    fn terms(&self, export: &Export, name: &[u8]) -> Terms {
        let allocation = self.replies == ReplyStyle::Structured && self.context.is_set_for(name);
        Terms { export: export.clone(), replies: self.replies, allocation }
    }

    /// Answers INFO and GO with all information about an export. Returns the export and its
    /// requested name, or `None` if the answer was an error.
    fn info<'d>(
        &self,
        data: &'d [u8],
        reply: &mut OptionReply<'_>,
    ) -> Option<(&'e Export, &'d [u8])> {
        let Some((name, asked)) = parse_info(data) else {
            reply.error(REP_ERR_INVALID, "inconsistent lengths");
            return None;
        };
        if name.len() > STRING_MAX {
            reply.error(REP_ERR_TOO_BIG, "a name may have at most 4096 bytes");
            return None;
        }
        let Some(export) = self.exports.find(name) else {
            reply.error(REP_ERR_UNKNOWN, "unknown export");
            return None;
        };
        let (size, flags) = (export.disk.size(), export.transmission_flags(self.replies));
        reply.info(INFO_EXPORT, &[&size.to_be_bytes(), &flags.to_be_bytes()]);
        let sizes = [1, export.disk.block(), self.exports.write_max()].map(u32::to_be_bytes);
        reply.info(INFO_BLOCK_SIZE, &[sizes.as_flattened()]);
        for (kind, text) in [(INFO_NAME, &export.name), (INFO_DESCRIPTION, &export.description)] {
            if asked.as_chunks().0.contains(&kind.to_be_bytes()) {
                reply.info(kind, &[text.as_bytes()]);
            }
        }
        reply.ack();
        Some((export, name))
    }
}

/// Returns the name of the export, and the requested kinds of information, which have 2 bytes each.
fn parse_info(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut fields = Fields(data);
    let len = fields.u32()?;
    let name = fields.bytes(len as usize)?;
    let count = fields.u16()?;
    (fields.0.len() == 2 * count as usize).then_some((name, fields.0))
}
