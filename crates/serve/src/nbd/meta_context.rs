//! Metadata contexts: of the one there is, clients are told and may choose it for an export.

use super::export::{Exports, ReplyStyle};
use super::option_reply::OptionReply;
use super::wire::*;

/// Asks for every context of the namespace, in a list.
const BASE: &[u8] = b"base:";

/// What was chosen.
#[derive(Debug)]
pub(crate) enum Context {
    None,
    /// `base:allocation`, for the export that goes by this name.
    Allocation(Vec<u8>),
}

impl Context {
    pub(crate) fn is_set_for(&self, name: &[u8]) -> bool {
        matches!(self, Context::Allocation(chosen) if chosen == name)
    }

    /// LIST_META_CONTEXT
    pub(crate) fn list(
        &self,
        data: &[u8],
        style: ReplyStyle,
        exports: &Exports,
        reply: &mut OptionReply<'_>,
    ) {
        let Some(asked) = check(data, style, exports, reply) else { return };
        let is_meant = |query: &[u8]| query == BASE || query == BASE_ALLOCATION.as_bytes();
        if asked.queries.is_empty() || asked.queries().any(is_meant) {
            // In a list, numbers mean nothing.
            reply.send(REP_META_CONTEXT, &[&[0; 4], BASE_ALLOCATION.as_bytes()]);
        }
        reply.ack();
    }

    /// SET_META_CONTEXT: what was set before is forgotten, whatever comes of this.
    pub(crate) fn set(
        &mut self,
        data: &[u8],
        style: ReplyStyle,
        exports: &Exports,
        reply: &mut OptionReply<'_>,
    ) {
        *self = Context::None;
        let Some(asked) = check(data, style, exports, reply) else { return };
        if asked.queries().any(|query| query == BASE_ALLOCATION.as_bytes()) {
            *self = Context::Allocation(asked.name.to_vec());
            let id = BASE_ALLOCATION_ID.to_be_bytes();
            reply.send(REP_META_CONTEXT, &[&id, BASE_ALLOCATION.as_bytes()]);
        }
        reply.ack();
    }
}

/// What a client asks of contexts.
struct ContextQuery<'d> {
    name: &'d [u8],
    /// As they came, each with its length before it: to list them would take memory that there may
    /// not be.
    queries: &'d [u8],
}

impl<'d> ContextQuery<'d> {
    fn queries(&self) -> impl Iterator<Item = &'d [u8]> + use<'d> {
        let mut fields = Fields(self.queries);
        std::iter::from_fn(move || {
            let len = fields.u32()?;
            fields.bytes(len as usize)
        })
    }
}

/// Returns what is asked for, unless there is an error to answer with.
fn check<'d>(
    data: &'d [u8],
    style: ReplyStyle,
    exports: &Exports,
    reply: &mut OptionReply<'_>,
) -> Option<ContextQuery<'d>> {
    let asked = parse(data);
    let (kind, message) = match &asked {
        _ if style == ReplyStyle::Simple => {
            (REP_ERR_INVALID, "STRUCTURED_REPLY must be negotiated first")
        }
        None => (REP_ERR_INVALID, "inconsistent lengths"),
        Some(asked) if asked.name.len() > STRING_MAX => {
            (REP_ERR_TOO_BIG, "a name may have at most 4096 bytes")
        }
        Some(asked) if asked.queries().any(|query| query.len() > STRING_MAX) => {
            (REP_ERR_TOO_BIG, "a query may have at most 4096 bytes")
        }
        Some(asked) if exports.find(asked.name).is_none() => (REP_ERR_UNKNOWN, "unknown export"),
        Some(_) => return asked,
    };
    reply.error(kind, message);
    None
}

fn parse(data: &[u8]) -> Option<ContextQuery<'_>> {
    let mut fields = Fields(data);
    let len = fields.u32()?;
    let name = fields.bytes(len as usize)?;
    let count = fields.u32()?;
    let queries = fields.0;
    // Each takes 4 bytes of the data at least, so there are few.
    for _ in 0..count {
        let len = fields.u32()?;
        fields.bytes(len as usize)?;
    }
    fields.0.is_empty().then_some(ContextQuery { name, queries })
}
