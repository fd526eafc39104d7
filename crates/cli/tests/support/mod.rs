//! What the tests of the command share: running it, and data to give it.
#![allow(dead_code, reason = "each test file uses a part")]

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The binary under test.
pub const UZRAM: &str = env!("CARGO_BIN_EXE_uzram");

/// Bytes of a page.
pub const PAGE: usize = 4096;

/// `uzram fill`, its output to be caught.
pub fn fill() -> Command {
    let mut command = Command::new(UZRAM);
    command.arg("fill").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// How a process ended: its code, if it was not killed, and what it said.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Ended {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        Ended {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// Runs the command to its end.
pub fn end(command: &mut Command) -> Ended {
    command.output().unwrap().into()
}

/// `bytes` random bytes.
pub fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed;
    let mut words = Vec::with_capacity(bytes + 8);
    while words.len() < bytes {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        words.extend_from_slice(
            &(mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb).to_le_bytes(),
        );
    }
    words.truncate(bytes);
    words
}

/// `bytes` of something like text, that shrinks to a third or so.
pub fn text(seed: u64, bytes: usize) -> Vec<u8> {
    let words = ["page ", "slot ", "zspage ", "compressed ", "object ", "handle\n", "in ", "the "];
    let noise = noise(seed, bytes / 2);
    let picked = noise.iter().map(|byte| words[usize::from(byte % 8)]);
    let mut text: Vec<u8> = picked.flat_map(str::bytes).take(bytes).collect();
    text.resize(bytes, b'.');
    text
}

/// Writes files into a directory.
pub fn write_all(dir: &Path, files: &[(&str, Vec<u8>)]) {
    for (name, data) in files {
        let path = dir.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, data).unwrap();
    }
}
