//! The server's limits, and assertions on relations between them. Tests reach every limit.

use super::wire::{CHUNK_HEADER, OPTION_HEADER, REQUEST_HEADER};
pub use super::wire::{DONE_MAX, OPTION_DATA_MAX, OPTIONS_MAX, PAYLOAD_MAX, SHORT_MAX, STRING_MAX};
pub use crate::policy::{
    EXTENTS_MAX, EXTRA_WORKERS, HALF_OPEN_MAX, HEAVY_BYTES, INPUT_BUFFER, READ_PART, REQUESTS,
    THREAD_MEMORY,
};

/// The size of a worker's buffer in bytes. The buffer holds payloads, followed by replies.
pub const WORKER_BUFFER: usize = READ_PART + SHORT_MAX + SHORT_MAX;

/// The number of bytes of memory that all long writes share, which is enough for one write of the
/// maximum length.
pub const LARGE_BYTES: usize = PAYLOAD_MAX as usize;

/// Returns the maximum number of bytes of memory that the clients of a server take together. The
/// maximum holds for any requests, and for any number of workers of a connection. If the extra
/// workers or the memory for long writes are used up, further requests wait in the kernel's socket
/// buffers. Each connection has a first worker, whose buffer no other connection can use.
pub const fn memory_max(connections: usize) -> usize {
    let worker = THREAD_MEMORY + WORKER_BUFFER;
    let half_open = HALF_OPEN_MAX * (THREAD_MEMORY + INPUT_BUFFER);
    half_open + connections * (INPUT_BUFFER + worker) + EXTRA_WORKERS * worker + LARGE_BYTES
}

/// The default maximum of 64 connections takes at most 122 MiB.
const _: () = assert!(memory_max(64) >> 20 == 122);
/// Any short request fits in a worker's buffer.
const _: () = assert!(READ_PART + CHUNK_HEADER + size_of::<u64>() <= WORKER_BUFFER);
const _: () = assert!(DONE_MAX <= SHORT_MAX);
/// Any option, and any request's header, fits in the input buffer.
const _: () = assert!(INPUT_BUFFER >= OPTION_HEADER + OPTION_DATA_MAX);
const _: () = assert!(INPUT_BUFFER >= REQUEST_HEADER);
