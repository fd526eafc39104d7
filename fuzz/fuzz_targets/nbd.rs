//! A client sends random bytes to the NBD server, alone or after a valid handshake. The random
//! bytes also determine the requests of a model client. The answers to the model client are checked
//! against the protocol's document.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serve::nbd::{Export, Exports, Mode, converse};
use std::sync::Arc;
use testkit::nbd::model::NbdModel;
use testkit::nbd::{GO, STRUCTURED_REPLY, info, option};
use zram::{Config, Device};

const SIZE: u64 = 1 << 20;

/// Returns a valid handshake. Random bytes after the handshake are requests if they begin like a
/// request.
fn handshake() -> Vec<u8> {
    [&3_u32.to_be_bytes()[..], &option(STRUCTURED_REPLY, &[]), &option(GO, &info("", &[]))].concat()
}

/// Returns the answers of a server with a new disk, which receives `bytes` in steps of `step`
/// bytes.
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
    // The creation of devices takes most of the time. So each input is sent only once: alone, or
    // after a handshake.
    let sent = match bytes.len() % 2 {
        0 => bytes.to_vec(),
        _ => [&handshake()[..], bytes].concat(),
    };
    let step = 1 + bytes.len() % 61;
    assert!(answers(&sent, usize::MAX) == answers(&sent, step), "by {step} bytes it is others");
    testkit::fuzz::<NbdModel>(bytes);
});
