//! Bytes as a client of the NBD server, whatever they are: first as they come, then as requests
//! behind a handshake that is good, so that most of them are read as such. How they are cut on
//! their way changes nothing of what is answered, and each that is whole is answered once.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serve::nbd::{Export, Exports, Mode, converse};
use std::collections::HashMap;
use std::sync::Arc;
use testkit::Choices;
use zram::{Config, Device};

const SIZE: u64 = 1 << 20;
/// What bounds something in the server: a heavy request, its buffers, a part, the answers to a
/// batch, the disk, a payload.
const EDGES: [usize; 9] =
    [512, 32 << 10, 128 << 10, 256 << 10, 264 << 10, 272 << 10, 278_576, SIZE as usize, 32 << 20];
/// Of a write whose bytes come along.
const WRITTEN_MAX: usize = 300 << 10;
const READ: u16 = 0;
const WRITE: u16 = 1;
const DISCONNECT: u16 = 2;
const FLUSH: u16 = 3;
const IHAVEOPT: &[u8] = b"IHAVEOPT";

fn exports() -> Exports {
    let config = Config::new(SIZE).expect("the size is possible");
    let disk = Arc::new(Arc::new(Device::new(config).expect("there is memory")));
    let export = |name: &str, mode| Export {
        name: name.to_owned(),
        description: String::new(),
        disk: disk.clone(),
        mode,
    };
    Exports::new([export("", Mode::ReadWrite), export("r", Mode::ReadOnly)])
}

struct Request {
    flags: u16,
    kind: u16,
    offset: u64,
    len: usize,
    /// Instead of the payload that belongs to it.
    payload: Option<Vec<u8>>,
}

impl Request {
    fn draw(choices: &mut Choices, is_exact: bool) -> Self {
        let kind = match choices.below(16) as u16 {
            10..=12 => READ,
            13.. => WRITE,
            // Of 8 and 9 there are none.
            kind => kind,
        };
        let has_other = !is_exact && choices.one_in(8);
        let payload = has_other.then(|| choices.bytes(256));
        let most = if kind == WRITE && payload.is_none() { WRITTEN_MAX } else { (32 << 20) + 1 };
        // Mostly on the disk, sometimes beyond it.
        let offset = choices.beside(&[0, SIZE as usize / 2, SIZE as usize], SIZE as usize + 4096);
        let len = choices.beside(&EDGES, most);
        let len = if choices.one_in(3) { len % 4096 } else { len };
        let flags = choices.below(64) as u16;
        Request { flags, kind, offset: offset as u64, len, payload }
    }

    fn bytes(&self, cookie: u64) -> Vec<u8> {
        let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
        bytes.extend(self.flags.to_be_bytes());
        bytes.extend(self.kind.to_be_bytes());
        bytes.extend(cookie.to_be_bytes());
        bytes.extend(self.offset.to_be_bytes());
        bytes.extend((self.len as u32).to_be_bytes());
        match &self.payload {
            Some(payload) => bytes.extend(payload),
            None if self.kind == WRITE => bytes.extend(vec![self.flags as u8; self.len]),
            None => {}
        }
        bytes
    }

    /// A flush, which is answered wherever requests are.
    fn probe() -> Self {
        Request { flags: 0, kind: FLUSH, offset: 0, len: 0, payload: None }
    }
}

fn option(kind: u32, data: &[u8]) -> Vec<u8> {
    [IHAVEOPT, &kind.to_be_bytes(), &(data.len() as u32).to_be_bytes(), data].concat()
}

/// What comes before the requests.
fn handshake(choices: &mut Choices) -> Vec<u8> {
    let mut bytes = 3_u32.to_be_bytes().to_vec();
    for _ in 0..choices.below(5) {
        bytes.extend(option(choices.within(2..=12) as u32, &choices.bytes(256)));
    }
    if !choices.one_in(4) {
        bytes.extend(option(8, &[]));
        let contexts =
            [&[0; 4][..], &1_u32.to_be_bytes(), &15_u32.to_be_bytes(), b"base:allocation"];
        bytes.extend(option(10, &contexts.concat()));
    }
    match choices.one_in(4) {
        true => bytes.extend(option(1, b"r")),
        false => bytes.extend(option(7, &[0; 6])),
    }
    bytes
}

/// Numbers of the requests that are answered to the end, each with how often; `None`: these are no
/// replies.
fn answered(mut replies: &[u8], requests: &[Request]) -> Option<HashMap<u64, usize>> {
    let mut answered = HashMap::new();
    while let Some(magic) = replies.first_chunk() {
        let number = |at: usize| Some(u64::from_be_bytes(*replies.get(at..)?.first_chunk()?));
        let word = |at: usize| Some(u32::from_be_bytes(*replies.get(at..)?.first_chunk()?));
        let (cookie, len, is_last) = match u32::from_be_bytes(*magic) {
            0x6744_6698 => {
                let (error, cookie) = (word(4)?, number(8)?);
                let request = requests.get((cookie as usize).checked_sub(1)?)?;
                (
                    cookie,
                    16 + if error == 0 && request.kind == READ { request.len } else { 0 },
                    true,
                )
            }
            0x668e_33ef => (number(8)?, 20 + word(16)? as usize, replies[5] & 1 != 0),
            _ => return None,
        };
        *answered.entry(cookie).or_default() += usize::from(is_last);
        replies = replies.get(len..)?;
    }
    replies.is_empty().then_some(answered)
}

fn session(choices: &mut Choices) {
    let step = choices.within(1..=64);
    let mut bytes = handshake(choices);
    let before = converse(&exports(), &bytes, usize::MAX);
    let probed = [&bytes[..], &Request::probe().bytes(1)].concat();
    let is_open = converse(&exports(), &probed, usize::MAX).len() > before.len();
    // A payload of another length makes the next request begin somewhere.
    let is_exact = !choices.one_in(4);
    let mut requests = Vec::new();
    while !choices.is_over() && requests.len() < 200 {
        let request = Request::draw(choices, is_exact);
        bytes.extend(request.bytes(requests.len() as u64 + 1));
        requests.push(request);
    }
    let whole = converse(&exports(), &bytes, usize::MAX);
    if is_open && is_exact {
        let wanted = requests.iter().position(|request| request.kind == DISCONNECT);
        let wanted = wanted.unwrap_or(requests.len()) as u64;
        let answered = answered(&whole[before.len()..], &requests).expect("they are replies");
        for cookie in 1..=wanted {
            let request = &requests[cookie as usize - 1];
            let (kind, len) = (request.kind, request.len);
            assert_eq!(answered.get(&cookie), Some(&1), "request {cookie}, {kind} of {len} bytes");
        }
        assert_eq!(answered.len() as u64, wanted);
    }
    assert!(
        converse(&exports(), &bytes, step) == whole,
        "by {step} bytes it is answered otherwise"
    );
}

fuzz_target!(|data: &[u8]| {
    converse(&exports(), data, usize::MAX);
    session(&mut Choices::of_bytes(data));
});
