//! What bounds something in the server: the numbers, and how they hang together. Tests go to each.

use super::wire::{CHUNK_HEADER, OPTION_HEADER, REQUEST_HEADER};
pub use super::wire::{OPTION_DATA_MAX, OPTIONS_MAX, PAYLOAD_MAX, STRING_MAX};

/// The longest read that is answered at once, and write that is received without memory shared with
/// others.
pub const READ_PART: usize = 256 << 10;

/// Bytes of a worker's buffer: payloads in front, replies behind them.
pub const WORKER_BUFFER: usize = READ_PART + 2 * SHORT_MAX;

/// Most requests that a worker takes together.
pub const REQUESTS: usize = 64;

/// From so many bytes to be compressed on, another worker receives meanwhile. Those to be
/// decompressed count a quarter, those to be freed a 64th.
pub const HEAVY_BYTES: usize = 32 << 10;

/// Most extents in a reply.
pub const EXTENTS_MAX: usize = 1024;

/// The longest reply that is no read's.
pub const SHORT_MAX: usize = CHUNK_HEADER + 4 + EXTENTS_MAX * 8;

/// The longest reply that tells no more than that a request is done, or why not.
pub const DONE_MAX: usize = CHUNK_HEADER + 6;

/// Bytes received at once, and the longest option. Requests' payloads beyond go straight to where
/// they are needed.
pub const INPUT_BUFFER: usize = 128 << 10;

/// Memory for all long writes: one write of the longest.
pub const LARGE_BYTES: usize = PAYLOAD_MAX as usize;

/// Most connections that have chosen no export yet; if another comes, the first of them goes.
pub const HALF_OPEN_MAX: usize = 128;

/// Each request that is short has room, whatever it is.
const _: () = assert!(READ_PART + CHUNK_HEADER + size_of::<u64>() <= WORKER_BUFFER);
const _: () = assert!(DONE_MAX <= SHORT_MAX);
/// Each option, and each request's header, is received whole.
const _: () = assert!(INPUT_BUFFER >= OPTION_HEADER + OPTION_DATA_MAX);
const _: () = assert!(INPUT_BUFFER >= REQUEST_HEADER);
