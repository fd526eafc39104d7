//! Thresholds of this crate, each with its reason.

// Slots

/// The time between two searches for processes that have ended, in milliseconds. A search makes
/// system calls for each process of the group.
pub(crate) const LOOK_TIME: u64 = 20;
/// Figures of ended processes are kept only in this number of slots, the first ones. The reason is
/// that a sum of the memory held reads all slots up to the last one that was ever used.
pub(crate) const KEPT: usize = 128;
/// The number of bytes that is added to `changed` in a slot when the next process takes the slot.
/// No process has 2^40 bytes.
pub(crate) const LIFE: u64 = 1 << 40;
/// The number of times that a thread checks whether another process has sent its signal. After
/// these checks, that process is treated as killed, because sending takes only one system call.
pub(crate) const SIGNAL_LOOKS: usize = 100_000;

// The limit

/// The minimum floor in bytes. The floor is the memory that a process keeps resident, whatever the
/// other processes hold.
pub(crate) const FLOOR_MIN: u64 = 1 << 20;
/// The maximum floor in bytes. N processes may exceed the limit by N floors.
pub(crate) const FLOOR_MAX: u64 = 16 << 20;
/// The floor is at most this share (1/8) of the limit, even if that is less than `FLOOR_MIN`.
pub(crate) const FLOOR_SHARE_MAX: u64 = 8;
/// A process is large if it holds at least this share (1/16) of the limit.
pub(crate) const LARGE_SHARE: u64 = 16;
/// A group's limit is reported as impossible to keep if unevictable memory exceeds it by more than
/// this share (1/64) of the limit.
pub(crate) const OVER_LIMIT_SHARE: u64 = 64;
/// The limit counts as exceeded if the processes held more than the limit plus this share (1/20) of
/// it. A smaller excess may be an error of the measurement.
pub(crate) const EXCEEDED_SHARE: u64 = 20;
/// A fork closes no blocks if all processes, including a child that copies all blocks, would hold
/// at most this share (1/2) of the limit.
pub(crate) const UNCLOSED_SHARE: u64 = 2;
/// A process that found no room counts as needing room for this time, in milliseconds.
pub(crate) const WANT_TIME: u64 = 200;
/// The maximum number of steps in which a share is computed. If more steps would be needed, the
/// share is inexact.
pub(crate) const STEPS: usize = 8;

// Measurements

/// The number of faults between two measurements of the process's memory.
pub(crate) const SAMPLE: usize = 256;
/// The number of faults between two measurements while some open blocks are not yet written.
pub(crate) const SAMPLE_OPENED: usize = 4;
/// A fault measures the process's memory if this time has passed since the last measurement, in
/// milliseconds. A program that seldom faults may have written many blocks that were opened ahead.
pub(crate) const SAMPLE_TIME: u64 = 10;
/// The approximate number of bytes of pages that change for each byte of an object that is stored
/// between other objects. An object of 1.5 KiB overlaps 1.4 pages of 4 KiB on average. An object of
/// less than 1 KiB counts as 1 KiB.
pub(crate) const WEIGHT: u64 = 4;
/// The maximum duration of a walk over the shared memory of all processes, in milliseconds. After
/// this time, the walking process is treated as killed, and another process may walk.
pub(crate) const WALK_TIME_MAX: u64 = 60_000;
/// The minimum time between two walks, in milliseconds.
pub(crate) const WALK_PAUSE: u64 = 250;
/// Walks take at most 1/`WALK_SHARE` of the time, because the kernel reads the page tables of these
/// processes.
pub(crate) const WALK_SHARE: u64 = 100;
