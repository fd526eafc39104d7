//! A connection without a network, for tests and fuzzing: a client's bytes and the server's
//! answers.

use super::connection::{Service, serve};
use super::export::Exports;
use super::extra_workers::ExtraWorkers;
use super::large_writes::LargeWrites;
use super::stream::Stream;
use rustix_futex_sync::Mutex;
use std::io;
use std::sync::atomic::AtomicBool;

struct Script<'b> {
    /// The bytes that the server has not received yet.
    left: Mutex<&'b [u8]>,
    /// The maximum number of bytes that a call receives.
    step: usize,
    answers: Mutex<Vec<u8>>,
}

impl Stream for Script<'_> {
    fn receive(&self, buf: &mut [u8]) -> io::Result<usize> {
        let mut left = self.left.lock();
        let len = left.len().min(buf.len()).min(self.step);
        let (now, rest) = left.split_at(len);
        buf[..len].copy_from_slice(now);
        *left = rest;
        Ok(len)
    }

    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.answers.lock().extend(bytes);
        Ok(bytes.len())
    }

    fn hang_up(&self) {}
}

/// Returns the server's answers to a client that sends `bytes` and then closes the connection. The
/// server receives `step` bytes at a time, and serves one request at a time.
pub fn converse(exports: &Exports, bytes: &[u8], step: usize) -> Vec<u8> {
    let service = Service {
        exports: exports.clone(),
        large: LargeWrites::new(exports.write_max()),
        extra_workers: ExtraWorkers::default(),
        stop: AtomicBool::new(false),
        workers: 1,
    };
    let left = Mutex::new(bytes);
    let script = Script { left, step: step.max(1), answers: Mutex::new(Vec::new()) };
    serve(&service, &script, || true);
    script.answers.into_inner()
}
