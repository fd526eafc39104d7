//! Bytes as a client of the NBD server, whatever they are: first as they come, then as requests behind a handshake that is
//! good, so that most of them are read as such. How they are cut on their way changes nothing of what is answered.
#![no_main]

use arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use serve::nbd::bounds::PART;
use serve::nbd::{Export, Exports, Mode, converse};
use std::sync::Arc;
use zram::{Config, Device};

const SIZE: u64 = 1 << 20;
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
    kind: u8,
    offset: u32,
    len: u16,
    /// Whether a read is about as long as one that the server goes another way with.
    is_long: bool,
    /// Instead of the payload that belongs to it.
    payload: Option<Vec<u8>>,
}

impl Request {
    fn new(input: &mut Unstructured) -> Result<Self> {
        Ok(Request {
            flags: input.arbitrary()?,
            kind: input.arbitrary()?,
            offset: input.arbitrary()?,
            len: input.arbitrary()?,
            is_long: input.arbitrary()?,
            payload: if input.ratio(1, 8)? { Some(input.arbitrary()?) } else { None },
        })
    }

    fn bytes(&self, cookie: u64) -> Vec<u8> {
        let kind = u16::from(self.kind % 10);
        // Mostly on the disk, sometimes beyond it.
        let offset = u64::from(self.offset) % (SIZE + 4096);
        let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
        bytes.extend((self.flags % 64).to_be_bytes());
        bytes.extend(kind.to_be_bytes());
        bytes.extend(cookie.to_be_bytes());
        bytes.extend(offset.to_be_bytes());
        let about = if kind == 0 && self.is_long { PART as u32 - 1024 } else { 0 };
        bytes.extend((about + u32::from(self.len)).to_be_bytes());
        match &self.payload {
            Some(payload) => bytes.extend(payload),
            None if kind == 1 => bytes.extend(vec![self.flags as u8; self.len.into()]),
            None => {}
        }
        bytes
    }
}

fn option(kind: u32, data: &[u8]) -> Vec<u8> {
    [IHAVEOPT, &kind.to_be_bytes(), &(data.len() as u32).to_be_bytes(), data].concat()
}

fn session(input: &mut Unstructured) -> Result<Vec<u8>> {
    let mut bytes = 3_u32.to_be_bytes().to_vec();
    for _ in 0..input.int_in_range(0..=4)? {
        bytes.extend(option(input.int_in_range(2..=12)?, input.arbitrary::<&[u8]>()?));
    }
    if input.ratio(3, 4)? {
        bytes.extend(option(8, &[]));
        let contexts =
            [&[0; 4][..], &1_u32.to_be_bytes(), &15_u32.to_be_bytes(), b"base:allocation"];
        bytes.extend(option(10, &contexts.concat()));
    }
    match input.ratio(3, 4)? {
        true => bytes.extend(option(7, &[0; 6])),
        false => bytes.extend(option(1, b"r")),
    }
    let mut cookie = 0;
    while !input.is_empty() {
        cookie += 1;
        bytes.extend(Request::new(input)?.bytes(cookie));
    }
    Ok(bytes)
}

fuzz_target!(|data: &[u8]| {
    converse(&exports(), data, usize::MAX);
    let mut input = Unstructured::new(data);
    let Ok(step) = input.int_in_range(1..=64) else { return };
    let Ok(bytes) = session(&mut input) else { return };
    let whole = converse(&exports(), &bytes, usize::MAX);
    assert!(
        converse(&exports(), &bytes, step) == whole,
        "by {step} bytes it is answered otherwise"
    );
});
