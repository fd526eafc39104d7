//! Random bytes from a client of the NBD server: alone, after a valid handshake, and as the choices
//! of a client whose answers are checked against the protocol's document.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serve::nbd::{Export, Exports, Mode, converse};
use std::sync::Arc;
use testkit::nbd::model::NbdModel;
use testkit::nbd::{GO, STRUCTURED_REPLY, info, option};
use zram::{Config, Device};

const SIZE: u64 = 1 << 20;

/// Returns a valid handshake, after which the bytes are requests if they begin like one.
fn handshake() -> Vec<u8> {
    [&3_u32.to_be_bytes()[..], &option(STRUCTURED_REPLY, &[]), &option(GO, &info("", &[]))].concat()
}

/// Returns the answers of a server with a new disk.
fn answers(bytes: &[u8], step: usize) -> Vec<u8> {
    let config = Config::new(SIZE).expect("the size is possible");
    let export = Export {
        name: String::new(),
        description: String::new(),
        disk: Arc::new(Arc::new(Device::new(config).expect("there is memory"))),
        mode: Mode::ReadWrite,
    };
    converse(&Exports::new([export]), bytes, step)
}

fuzz_target!(|bytes: &[u8]| {
    // Creating devices takes most of the time, so each input is sent in one of the two ways only.
    let sent = match bytes.len() % 2 {
        0 => bytes.to_vec(),
        _ => [&handshake()[..], bytes].concat(),
    };
    let step = 1 + bytes.len() % 61;
    assert!(answers(&sent, usize::MAX) == answers(&sent, step), "by {step} bytes it is others");
    testkit::fuzz::<NbdModel>(bytes);
});
