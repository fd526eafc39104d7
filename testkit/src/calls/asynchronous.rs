//! System calls for asynchronous input and output.

use super::files::file;
use super::trial::{Case, Need, Trial, must, raw};
use libc::*;

fn context() -> usize {
    let mut context = 0_usize;
    must(SYS_io_setup, &[1, &raw mut context as usize]);
    context
}

/// Returns an `iocb`: the operation, its file, the address of its memory, and the number of bytes.
fn block(operation: usize, file: usize, memory: usize, bytes: usize) -> [usize; 8] {
    [0, 0, operation | file << 32, memory, bytes, 0, 0, 0]
}

/// Returns a context with a completed event that a call can receive.
fn with_event() -> usize {
    let (context, target) = (context(), Box::leak(Box::new([0_u8; 5])));
    let block = Box::leak(Box::new(block(0, file(b"hello"), target.as_mut_ptr() as usize, 5)));
    let blocks = [block.as_ptr() as usize];
    must(SYS_io_submit, &[context, 1, blocks.as_ptr() as usize]);
    context
}

fn ring(trial: &mut Trial) -> Option<usize> {
    let mut parameters = [0_u8; 120];
    let answer = raw(SYS_io_uring_setup, &[1, parameters.as_mut_ptr() as usize]);
    if answer < 0 {
        trial.leave_out();
    }
    usize::try_from(answer).ok()
}

pub const CASES: &[Case] = &[
    ("io_setup", |t| vec![1, t.zeros(8)]),
    ("io_submit", |t| {
        let (context, file) = (context(), file(b"hello"));
        // If the kernel can't write the memory, the event reports the error. The call itself
        // succeeds.
        let target = t.room(5, Need::Maybe);
        let block = t.words(&block(0, file, target, 5));
        vec![context, 1, t.words(&[block])]
    }),
    ("io_submit vector", |t| {
        let (context, file) = (context(), file(b"hello"));
        let target = t.room(5, Need::Maybe);
        let vector = t.words(&[target, 5]);
        let block = t.words(&block(7, file, vector, 1));
        vec![context, 1, t.words(&[block])]
    }),
    ("io_cancel", |t| vec![context(), t.place(&[0; 64], Need::Part), 0]),
    ("io_getevents", |t| vec![with_event(), 0, 1, t.output(32), t.zeros(16)]),
    ("io_pgetevents", |t| {
        let set = t.zeros(8);
        let packed = t.words(&[set, 8]);
        vec![with_event(), 0, 1, t.output(32), t.zeros(16), packed]
    }),
    ("io_uring_setup", |t| vec![1, t.zeros(120)]),
    ("io_uring_enter set", |t| match ring(t) {
        // The kernel reads the signal set only if the call is allowed to wait.
        Some(ring) => vec![ring, 0, 0, 1, t.room(8, Need::Maybe), 8],
        None => vec![],
    }),
    ("io_uring_enter time", |t| match ring(t) {
        Some(ring) => {
            let (set, time) = (t.zeros(8), t.zeros(16));
            vec![ring, 0, 1, 1 | 8, t.words(&[set, 8, time]), 24]
        }
        None => vec![],
    }),
    ("io_uring_register buffers", |t| match ring(t) {
        Some(ring) => {
            let buffer = t.output(5);
            vec![ring, 0, t.words(&[buffer, 5]), 1]
        }
        None => vec![],
    }),
    ("io_uring_register probe", |t| match ring(t) {
        Some(ring) => vec![ring, 8, t.zeros(24), 1],
        None => vec![],
    }),
];
