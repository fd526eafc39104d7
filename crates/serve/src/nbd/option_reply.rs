//! Replies to an option of the handshake.

use super::wire::*;

/// Appends replies to an option to the output.
pub(crate) struct OptionReply<'o> {
    pub(crate) option: u32,
    pub(crate) out: &'o mut Vec<u8>,
}

impl OptionReply<'_> {
    pub(crate) fn send(&mut self, kind: u32, parts: &[&[u8]]) {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        self.out.extend(OPTION_REPLY_MAGIC.to_be_bytes());
        self.out.extend([self.option, kind, len as u32].map(u32::to_be_bytes).as_flattened());
        parts.iter().for_each(|part| self.out.extend(*part));
    }

    pub(crate) fn ack(&mut self) {
        self.send(REP_ACK, &[]);
    }

    pub(crate) fn error(&mut self, kind: u32, message: &str) {
        self.send(kind, &[message.as_bytes()]);
    }

    pub(crate) fn info(&mut self, kind: u16, parts: &[&[u8]]) {
        let kind = kind.to_be_bytes();
        let parts: Vec<&[u8]> = std::iter::once(&kind[..]).chain(parts.iter().copied()).collect();
        self.send(REP_INFO, &parts);
    }
}
