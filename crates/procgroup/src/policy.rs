//! Thresholds of this crate, each with its reason.

// Slots

/// The time between two searches for processes that have ended, in milliseconds. A search takes
/// system calls for each process.
pub(crate) const LOOK_TIME: u64 = 20;
/// Figures of ended processes are kept in at most this number of slots, the first ones, because a
/// sum of the memory held reads all slots up to the last that was ever used.
pub(crate) const KEPT: usize = 128;
/// The distance between the numbers of two processes that use a slot one after the other. No
/// process has 2^40 bytes.
pub(crate) const LIFE: u64 = 1 << 40;
/// If a process is still sending a signal after this number of loads of a word, it is treated as
/// killed. A signal is sent by one system call.
pub(crate) const SIGNAL_LOOKS: usize = 100_000;

// The limit

/// The minimum floor in bytes.
pub(crate) const FLOOR_MIN: u64 = 1 << 20;
/// The maximum floor in bytes. Each process may add one floor to the excess over the limit.
pub(crate) const FLOOR_MAX: u64 = 16 << 20;
/// For a small limit, the floor is at most this share (1/8) of the limit.
pub(crate) const FLOOR_SHARE_MAX: u64 = 8;
/// A process is large if it holds at least this share (1/16) of the limit.
pub(crate) const LARGE_SHARE: u64 = 16;
/// A group's limit is reported as impossible to keep if unevictable memory exceeds it by more than
/// this share (1/64).
pub(crate) const OVER_LIMIT_SHARE: u64 = 64;
/// The limit was exceeded if the processes held more than the limit and this share (1/20) of it.
/// Less may be an error of the measurement.
pub(crate) const EXCEEDED_SHARE: u64 = 20;
/// A fork closes no blocks if all processes would hold at most this share (1/2) of the limit, even
/// if the child copied all blocks.
pub(crate) const UNCLOSED_SHARE: u64 = 2;
/// A process that found no room counts as needing room for this time, in milliseconds.
pub(crate) const WANT_TIME: u64 = 200;
/// The maximum number of steps to compute a share. After them, the share may be inexact.
pub(crate) const STEPS: usize = 8;

// Measurements

/// The number of faults between two samples of the process's memory.
pub(crate) const SAMPLE: usize = 256;
/// The number of faults between two samples while some open blocks were not written yet.
pub(crate) const SAMPLE_OPENED: usize = 4;
/// Blocks that were opened ahead and not written count as written beyond this share (1/32) of the
/// limit, because the program may write all of them before the next sample.
pub(crate) const UNWRITTEN_SHARE: u64 = 32;
/// Each process may have opened this number of bytes ahead, whatever the limit is.
pub(crate) const UNWRITTEN_MIN: u64 = 1 << 20;
/// The approximate number of bytes of pages that change for each byte that is stored between
/// objects. An object of 1.5 KiB overlaps 1.4 pages of 4 KiB on average; a smaller object counts as
/// less.
pub(crate) const WEIGHT: u64 = 4;
/// The maximum duration of a walk over the shared memory of all processes, in milliseconds. After
/// this time, the process that walks counts as killed.
pub(crate) const WALK_TIME_MAX: u64 = 60_000;
/// The minimum time between two walks, in milliseconds.
pub(crate) const WALK_PAUSE: u64 = 250;
/// Walks take at most 1/`WALK_SHARE` of the time, because the kernel walks over page tables.
pub(crate) const WALK_SHARE: u64 = 100;
