//! Encodes the messages of a client, and decodes the server's answers.

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

/// Returns an option as bytes.
pub fn option(option: u32, data: &[u8]) -> Vec<u8> {
    let len = data.len() as u32;
    [&IHAVEOPT.to_be_bytes()[..], &option.to_be_bytes(), &len.to_be_bytes(), data].concat()
}

/// Returns the data of the options INFO and GO.
pub fn info(name: &str, asked: &[u16]) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend(name.as_bytes());
    data.extend((asked.len() as u16).to_be_bytes());
    asked.iter().for_each(|kind| data.extend(kind.to_be_bytes()));
    data
}

/// Returns the data of the options LIST_META_CONTEXT and SET_META_CONTEXT.
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

/// Reads `len` bytes of an answer, which must arrive.
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

/// Reads the server's greeting.
pub fn greeting(from: &mut impl Read) {
    assert_eq!((u64(from), u64(from)), (NBDMAGIC, IHAVEOPT));
    assert_eq!(u16(from), FIXED_NEWSTYLE | NO_ZEROES);
}

/// Reads one reply to an option. Returns its kind and its data.
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
    /// The parts of the data of a read, each with its offset.
    pub parts: Vec<(u64, Vec<u8>)>,
    /// The extents of a block status. Each element holds an extent's length and flags.
    pub extents: Vec<(u32, u32)>,
}

/// Replies that are not complete yet. Other replies can arrive between their chunks.
#[derive(Debug, Default)]
pub struct Replies(HashMap<u64, Reply>);

impl Replies {
    /// Reads until a reply is complete, and returns it. `len` returns the number of data bytes in a
    /// simple reply with the given cookie.
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

    /// Returns true if all replies that have begun are complete.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads the remaining bytes of a chunk, and further chunks until a structured reply is
    /// complete.
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
