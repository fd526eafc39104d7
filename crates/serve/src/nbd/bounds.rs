//! The server's limits, and assertions on their relations. Tests reach all of the limits.

use super::wire::{CHUNK_HEADER, OPTION_HEADER, REQUEST_HEADER};
pub use super::wire::{OPTION_DATA_MAX, OPTIONS_MAX, PAYLOAD_MAX, STRING_MAX};

/// The maximum length in bytes of a read that is answered by one call, and of a write that is
/// received into a worker's own buffer. Longer writes use memory that all connections share.
pub const READ_PART: usize = 256 << 10;

/// The size of a worker's buffer in bytes. The buffer holds payloads, followed by replies.
pub const WORKER_BUFFER: usize = READ_PART + 2 * SHORT_MAX;

/// The maximum number of requests that a worker takes together.
pub const REQUESTS: usize = 64;

/// The minimum number of bytes that a heavy batch compresses; while a worker serves a heavy batch,
/// another worker receives. A decompressed byte counts as 1/4 of a compressed one, a freed or
/// examined byte as 1/64.
pub const HEAVY_BYTES: usize = 32 << 10;

/// The maximum number of extents in a reply.
pub const EXTENTS_MAX: usize = 1024;

/// The maximum length in bytes of a reply to a request other than a read.
pub const SHORT_MAX: usize = CHUNK_HEADER + 4 + EXTENTS_MAX * 8;

/// The maximum length in bytes of a reply without data: success, or an error.
pub const DONE_MAX: usize = CHUNK_HEADER + 6;

/// The size of a connection's input buffer in bytes. An option has to fit in the buffer. If a part
/// of a payload has arrived in the buffer, the rest is received directly into the payload's own
/// buffer.
pub const INPUT_BUFFER: usize = 128 << 10;

/// The number of bytes of memory that all long writes share: enough for one write of the maximum
/// length.
pub const LARGE_BYTES: usize = PAYLOAD_MAX as usize;

/// The maximum number of workers in addition to the first one of each connection, for all
/// connections together.
pub const EXTRA_WORKERS: usize = 128;

/// The maximum number of bytes of memory that a client's thread takes: the touched part of the
/// thread's stack, and small allocations.
pub const THREAD_MEMORY: usize = 48 << 10;

/// Returns the maximum number of bytes of memory that the clients of a server take together, for
/// any requests and any number of workers of a connection. If the extra workers or the memory for
/// long writes are used up, further requests wait in the kernel's socket buffers. Each connection
/// keeps its first worker, whose buffer no other connection can use.
pub const fn memory_max(connections: usize) -> usize {
    let worker = THREAD_MEMORY + WORKER_BUFFER;
    let half_open = HALF_OPEN_MAX * (THREAD_MEMORY + INPUT_BUFFER);
    half_open + connections * (INPUT_BUFFER + worker) + EXTRA_WORKERS * worker + LARGE_BYTES
}

/// The maximum number of connections that have not chosen an export yet. If another client
/// connects, the oldest of these connections is closed.
pub const HALF_OPEN_MAX: usize = 128;

/// The default number of connections takes at most 122 MiB.
const _: () = assert!(memory_max(64) >> 20 == 122);
/// Any short request fits in a worker's buffer.
const _: () = assert!(READ_PART + CHUNK_HEADER + size_of::<u64>() <= WORKER_BUFFER);
const _: () = assert!(DONE_MAX <= SHORT_MAX);
/// Any option, and any request's header, fits in the input buffer.
const _: () = assert!(INPUT_BUFFER >= OPTION_HEADER + OPTION_DATA_MAX);
const _: () = assert!(INPUT_BUFFER >= REQUEST_HEADER);
