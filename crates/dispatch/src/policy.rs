//! Thresholds and sizes of this crate, each with its reason. `instructions.rs` passes some of these
//! constants to the assembler.

// Sites and simple calls

/// The number of simple calls (`simple.rs`) that a `syscall` instruction makes before it is
/// replaced by a jump. A replacement takes a dozen system calls, so only frequently used
/// instructions are replaced.
pub(crate) const SITE_CALLS: u32 = 16;
/// The maximum number of sites, and of their tails. Programs make most calls from few instructions.
pub(crate) const SITES: usize = 256;
/// The maximum number of table entries that are searched for the site of a dispatched simple call.
pub(crate) const PROBES: usize = 8;
/// The least and the greatest distance in bytes between code and the stubs to which its pads jump.
/// The stubs lie below the code, because the memory above a program's code often becomes its heap.
/// Code reaches stubs at distances of up to 2 GiB.
pub(crate) const NEAREST_STUB: usize = 64 << 10;
pub(crate) const FARTHEST_STUB: usize = 1 << 30;
/// The maximum number of managed blocks in the buffer of a simple call. A longer buffer has more
/// than 120 KiB, and copying the buffer takes longer than dispatching the call.
pub(crate) const SIMPLE_BLOCKS_MAX: usize = 32;

// Waiting

/// The number of rounds of a wait in which the thread spins. In later rounds, the thread yields.
pub(crate) const SPINS: u32 = 100;
/// The number of rounds of a wait after which a debug build ends the process. That many rounds take
/// minutes.
pub(crate) const ROUNDS_MAX: u32 = 1 << 28;
/// The maximum number of tries to stop a thread outside of code of this crate and the hook, and the
/// pause after each try.
pub(crate) const STOP_TRIES: usize = 10_000;
pub(crate) static STOP_PAUSE: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 20_000 };

// Memory

/// The page size of x86-64 in bytes.
pub(crate) const PAGE: usize = 4096;
/// The size in bytes of a thread's dispatch block, which is more than a hook that decompresses
/// needs. Pages that are never touched use no memory.
pub(crate) const BLOCK_BYTES: usize = 256 << 10;
/// The length in bytes of a dispatch block's head, and of its guard. The length is a multiple of
/// every page size, and more than the thread's state needs.
pub(crate) const PART_BYTES: usize = 16 << 10;
/// The number of bytes of a dispatch block before its stack, for the thread's state and a guard.
pub(crate) const HEAD_BYTES: usize = 2 * PART_BYTES;
/// The maximum size of thread-local storage inside a dispatch block. Larger storage has a separate
/// mapping.
pub(crate) const STORAGE_BYTES_MAX: usize = 32 << 10;
/// An upper bound for the size in bytes of the C library's thread descriptor, which begins at a
/// thread's pointer.
pub(crate) const DESCRIPTOR_BYTES: usize = 4096;
/// The alignment of a thread pointer in bytes: the size of a cache line, as in the C library.
pub(crate) const POINTER_ALIGN: usize = 64;
/// An upper bound for the number of bytes of the C library's thread-local storage that lie below
/// `errno`.
pub(crate) const AROUND: usize = 1024;
/// The size of a `Room`'s stack in bytes. Only pages that are touched use memory.
pub(crate) const STACK_BYTES: usize = 256 << 10;
/// The number of words (8 bytes each) of [`Call::room`].
pub(crate) const ROOM_WORDS: usize = 4096;
/// The number of words that a hook can store with a call. The words suffice for three other values
/// and three ranges of memory, which are enough for most calls.
pub const NOTE_WORDS: usize = 9;
/// The maximum number of words of a structure that `clone3` receives. The structure of Linux 6 has
/// 11 words. A program for a later Linux can pass a longer structure.
pub(crate) const RECORD_WORDS: usize = 32;
/// The number of bytes of /proc/self/maps that are searched at a time. If the line of a mapping is
/// longer, code in the mapping is not changed.
pub(crate) const MAPS_BYTES: usize = 4096;
