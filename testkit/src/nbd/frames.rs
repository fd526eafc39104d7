//! What a client sends, as bytes, and what it is answered, from bytes.

use super::numbers::*;
use std::collections::HashMap;
use std::io::Read;

/// Returns the header of a request.
pub fn header(kind: u16, flags: u16, cookie: u64, offset: u64, len: u32) -> Vec<u8> {
    let parts = [
        &REQUEST_MAGIC.to_be_bytes()[..],
        &flags.to_be_bytes(),
        &kind.to_be_bytes(),
        &cookie.to_be_bytes(),
        &offset.to_be_bytes(),
        &len.to_be_bytes(),
    ];
    parts.concat()
}

/// Returns an option.
pub fn option(option: u32, data: &[u8]) -> Vec<u8> {
    let len = data.len() as u32;
    [&IHAVEOPT.to_be_bytes()[..], &option.to_be_bytes(), &len.to_be_bytes(), data].concat()
}

/// Returns the data of INFO and GO.
pub fn info(name: &str, asked: &[u16]) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend(name.as_bytes());
    data.extend((asked.len() as u16).to_be_bytes());
    asked.iter().for_each(|kind| data.extend(kind.to_be_bytes()));
    data
}

/// Returns the data of LIST_META_CONTEXT and SET_META_CONTEXT.
pub fn contexts(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend(name.as_bytes());
    data.extend((queries.len() as u32).to_be_bytes());
    for query in queries {
        data.extend((query.len() as u32).to_be_bytes());
        data.extend(query.as_bytes());
    }
    data
}

/// Takes bytes of an answer, which have to come.
pub fn bytes(from: &mut impl Read, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    from.read_exact(&mut bytes).expect("the server answers in time, and all of it");
    bytes
}

fn number<const LEN: usize>(from: &mut impl Read) -> [u8; LEN] {
    bytes(from, LEN).try_into().expect("as many bytes")
}

pub fn u16(from: &mut impl Read) -> u16 {
    u16::from_be_bytes(number(from))
}

pub fn u32(from: &mut impl Read) -> u32 {
    u32::from_be_bytes(number(from))
}

pub fn u64(from: &mut impl Read) -> u64 {
    u64::from_be_bytes(number(from))
}

/// Takes the server's first words.
pub fn greeting(from: &mut impl Read) {
    assert_eq!((u64(from), u64(from)), (NBDMAGIC, IHAVEOPT));
    assert_eq!(u16(from), FIXED_NEWSTYLE | NO_ZEROES);
}

/// Takes one reply to an option: its kind, and its data.
pub fn option_reply(from: &mut impl Read, option: u32) -> (u32, Vec<u8>) {
    assert_eq!(u64(from), OPTION_REPLY_MAGIC);
    assert_eq!(u32(from), option);
    let (kind, len) = (u32(from), u32(from));
    (kind, bytes(from, len as usize))
}

/// An answer to a request.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Reply {
    pub cookie: u64,
    pub error: u32,
    /// Parts with where they lie, of a read.
    pub parts: Vec<(u64, Vec<u8>)>,
    /// Lengths and flags, of a block status.
    pub extents: Vec<(u32, u32)>,
}

/// Replies of which not all chunks have come: others may come between them.
#[derive(Debug, Default)]
pub struct Replies(HashMap<u64, Reply>);

impl Replies {
    /// Takes what comes up to the end of a reply. A simple one has as many bytes of data as `len`
    /// says of its cookie.
    pub fn next(&mut self, from: &mut impl Read, len: impl Fn(u64) -> u32) -> Reply {
        match u32(from) {
            SIMPLE_REPLY_MAGIC => {
                let (error, cookie) = (u32(from), u64(from));
                let len = if error == 0 { len(cookie) } else { 0 };
                let parts = vec![(0, bytes(from, len as usize))];
                Reply { cookie, error, parts, extents: Vec::new() }
            }
            STRUCTURED_REPLY_MAGIC => self.chunks(from),
            magic => panic!("{magic:#x} begins no reply"),
        }
    }

    /// Returns whether all replies that have begun have come to their end.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes the rest of a chunk, and more up to the last one of a structured reply.
    fn chunks(&mut self, from: &mut impl Read) -> Reply {
        loop {
            let (flags, kind, cookie, len) = (u16(from), u16(from), u64(from), u32(from));
            let mut reply = self.0.remove(&cookie).unwrap_or_default();
            reply.cookie = cookie;
            match kind {
                CHUNK_NONE => assert_eq!(len, 0),
                CHUNK_OFFSET_DATA => {
                    let at = u64(from);
                    reply.parts.push((at, bytes(from, len as usize - 8)));
                }
                CHUNK_BLOCK_STATUS => {
                    assert_eq!(u32(from), 1, "the number of the context");
                    let pairs = (0..(len - 4) / 8).map(|_| (u32(from), u32(from)));
                    reply.extents.extend(pairs);
                }
                CHUNK_ERROR => {
                    reply.error = u32(from);
                    let message = u16(from);
                    bytes(from, message.into());
                }
                kind => panic!("there is no chunk of type {kind}"),
            }
            if flags & CHUNK_DONE != 0 {
                return reply;
            }
            self.0.insert(cookie, reply);
            assert_eq!(u32(from), STRUCTURED_REPLY_MAGIC);
        }
    }
}
