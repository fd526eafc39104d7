//! The server's limits, and assertions on how they depend on each other. Tests use all of them.

use super::wire::{CHUNK_HEADER, OPTION_HEADER, REQUEST_HEADER};
pub use super::wire::{OPTION_DATA_MAX, OPTIONS_MAX, PAYLOAD_MAX, STRING_MAX};

/// The longest read that is answered by one call, and the longest write that is received into a
/// worker's own buffer; longer writes use memory that all connections share.
pub const READ_PART: usize = 256 << 10;

/// Bytes of a worker's buffer: payloads in front, replies behind them.
pub const WORKER_BUFFER: usize = READ_PART + 2 * SHORT_MAX;

/// Most requests that a worker takes together.
pub const REQUESTS: usize = 64;

/// A batch that compresses this many bytes is heavy: while it is served, another worker receives.
/// A byte that is decompressed counts a quarter, a byte that is freed or looked at a 64th.
pub const HEAVY_BYTES: usize = 32 << 10;

/// Most extents in a reply.
pub const EXTENTS_MAX: usize = 1024;

/// The longest reply to a request other than a read.
pub const SHORT_MAX: usize = CHUNK_HEADER + 4 + EXTENTS_MAX * 8;

/// The longest reply that has no data: success, or an error.
pub const DONE_MAX: usize = CHUNK_HEADER + 6;

/// Bytes of a connection's input buffer. An option has to fit in it. What a payload has beyond the
/// bytes in it is received straight into the payload's own buffer.
pub const INPUT_BUFFER: usize = 128 << 10;

/// Most bytes of memory that all long writes share: enough for one write of the greatest length.
pub const LARGE_BYTES: usize = PAYLOAD_MAX as usize;

/// Most workers that connections have beside their first ones, all connections together.
pub const EXTRA_WORKERS: usize = 128;

/// Most bytes of memory that a client's thread takes: the touched part of its stack, and small
/// allocations.
pub const THREAD_MEMORY: usize = 48 << 10;

/// Returns the most bytes of memory that the clients of a server take together, whatever they do
/// and however many workers a connection may have. If the extra workers or the memory for long
/// writes are used up, further requests wait in the kernel's socket buffers; each connection has
/// its first worker, whose buffer no other connection can use.
pub const fn memory_max(connections: usize) -> usize {
    let worker = THREAD_MEMORY + WORKER_BUFFER;
    let half_open = HALF_OPEN_MAX * (THREAD_MEMORY + INPUT_BUFFER);
    half_open + connections * (INPUT_BUFFER + worker) + EXTRA_WORKERS * worker + LARGE_BYTES
}

/// Most connections that have not chosen an export yet; if another client comes, the oldest of them
/// is closed.
pub const HALF_OPEN_MAX: usize = 128;

/// The default number of connections takes 122 MiB.
const _: () = assert!(memory_max(64) >> 20 == 122);
/// Any short request fits in a worker's buffer.
const _: () = assert!(READ_PART + CHUNK_HEADER + size_of::<u64>() <= WORKER_BUFFER);
const _: () = assert!(DONE_MAX <= SHORT_MAX);
/// Any option, and any request's header, fits in the input buffer.
const _: () = assert!(INPUT_BUFFER >= OPTION_HEADER + OPTION_DATA_MAX);
const _: () = assert!(INPUT_BUFFER >= REQUEST_HEADER);
