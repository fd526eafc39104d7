//! Bytes as a client of the NBD server, whatever they are: as they come, behind a handshake that is
//! good, and as what clients do, beside the protocol's document.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serve::nbd::{Export, Exports, Mode, converse};
use std::sync::Arc;
use testkit::nbd::model::NbdModel;
use testkit::nbd::{GO, STRUCTURED_REPLY, info, option};
use zram::{Config, Device};

const SIZE: u64 = 1 << 20;

/// What comes before the bytes, which are requests then if they begin as such.
fn handshake() -> Vec<u8> {
    [&3_u32.to_be_bytes()[..], &option(STRUCTURED_REPLY, &[]), &option(GO, &info("", &[]))].concat()
}

/// What a server with a new disk answers.
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
    // Devices are what takes time: of the two ways, each input goes one.
    let sent = match bytes.len() % 2 {
        0 => bytes.to_vec(),
        _ => [&handshake()[..], bytes].concat(),
    };
    let step = 1 + bytes.len() % 61;
    assert!(answers(&sent, usize::MAX) == answers(&sent, step), "by {step} bytes it is others");
    testkit::fuzz::<NbdModel>(bytes);
});
