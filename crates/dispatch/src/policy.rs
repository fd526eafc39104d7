//! Thresholds and sizes of this crate, each with its reason. Sizes that instructions use are in the
//! files of these instructions.

// Sites and simple calls

/// The number of simple calls that a site makes before its instruction is replaced.
pub(crate) const SITE_CALLS: u32 = 16;
/// The maximum number of sites. Programs make most calls from few instructions.
pub(crate) const SITES: usize = 256;
/// The maximum number of table entries that are searched for a site.
pub(crate) const PROBES: usize = 8;

// Waiting

/// The number of rounds of a wait in which the thread spins. In later rounds, the thread yields.
pub(crate) const SPINS: u32 = 100;
/// The number of rounds after which a debug build ends the process. A wait of this many rounds
/// takes minutes.
pub(crate) const ROUNDS_MAX: u32 = 1 << 28;
/// The maximum number of times that a thread stopped in code of this crate or the hook is
/// continued, and the pause after each time.
pub(crate) const STOP_TRIES: usize = 10_000;
pub(crate) static STOP_PAUSE: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 20_000 };

// Memory

/// The maximum size of storage inside the block. Larger storage has a separate mapping.
pub(crate) const STORAGE_BYTES_MAX: usize = 32 << 10;
/// An upper bound for the size in bytes of the C library's thread descriptor, which begins at a
/// thread's pointer.
pub(crate) const DESCRIPTOR_BYTES: usize = 4096;
/// An upper bound for the bytes of the C library's storage below its variable `errno`.
pub(crate) const AROUND: usize = 1024;
/// The size of a room's stack in bytes. Only pages that are touched use memory.
pub(crate) const STACK_BYTES: usize = 256 << 10;
/// The number of words of [`Call::room`].
pub(crate) const ROOM_WORDS: usize = 4096;
