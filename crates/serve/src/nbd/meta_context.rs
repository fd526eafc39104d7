//! Metadata contexts. The server supports only `base:allocation`. Clients can list this context,
//! and choose it for an export.

use super::export::{Exports, ReplyStyle};
use super::option_reply::OptionReply;
use super::wire::*;

/// The query for all contexts of a namespace. Only LIST_META_CONTEXT accepts it.
const BASE: &[u8] = b"base:";

/// The context that a client has chosen.
#[derive(Debug)]
pub(crate) enum Context {
    None,
    /// The context `base:allocation` for the export with this name.
    Allocation(Vec<u8>),
}

impl Context {
    /// Returns whether the client has chosen `base:allocation` for the export `name`.
    pub(crate) fn is_set_for(&self, name: &[u8]) -> bool {
        matches!(self, Context::Allocation(chosen) if chosen == name)
    }

    /// Answers LIST_META_CONTEXT.
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
            // In the reply to LIST, the field of the context's number is reserved.
            reply.send(REP_META_CONTEXT, &[&[0; 4], BASE_ALLOCATION.as_bytes()]);
        }
        reply.ack();
    }

    /// Answers SET_META_CONTEXT. Even a failed SET_META_CONTEXT clears an earlier choice.
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

/// The data of LIST_META_CONTEXT and SET_META_CONTEXT.
struct ContextQuery<'d> {
    /// The export's name.
    name: &'d [u8],
    /// The queries in encoded form, each preceded by its length. A vector of queries would need
    /// memory, which may be unavailable.
    queries: &'d [u8],
}

impl<'d> ContextQuery<'d> {
    /// Returns the queries one by one.
    fn queries(&self) -> impl Iterator<Item = &'d [u8]> + use<'d> {
        let mut fields = Fields(self.queries);
        std::iter::from_fn(move || {
            let len = fields.u32()?;
            fields.bytes(len as usize)
        })
    }
}

/// Parses and checks an option's data. If the data are invalid, appends an error reply and returns
/// `None`.
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

/// Parses an option's data. Returns `None` if the lengths in the data are inconsistent.
fn parse(data: &[u8]) -> Option<ContextQuery<'_>> {
    let mut fields = Fields(data);
    let len = fields.u32()?;
    let name = fields.bytes(len as usize)?;
    let count = fields.u32()?;
    let queries = fields.0;
    // Each query takes at least 4 bytes of the data, so the loop ends early if `count` is too
    // large.
    for _ in 0..count {
        let len = fields.u32()?;
        fields.bytes(len as usize)?;
    }
    fields.0.is_empty().then_some(ContextQuery { name, queries })
}
