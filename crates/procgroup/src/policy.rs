//! Thresholds of this crate, each with its reason.

// Slots

/// The minimum time between two searches for ended processes, in milliseconds. A search makes
/// system calls for each process of the group.
pub(crate) const LOOK_TIME: u64 = 20;
/// The first `KEPT` slots keep the figures of ended processes as long as possible. A larger number
/// would slow down the sums of held memory, because a sum reads all slots up to the last slot ever
/// used.
pub(crate) const KEPT: usize = 128;
/// The number that is added to the word `changed` of a slot when the next process takes the slot.
/// It exceeds the memory of any process, so the values of the previous and the next process can't
/// be confused.
pub(crate) const LIFE: u64 = 1 << 40;
/// The number of times that a thread checks whether another process has sent its signal. After this
/// number of checks, the other process is treated as killed, because sending takes only one system
/// call.
pub(crate) const SIGNAL_LOOKS: usize = 100_000;

// The limit

/// The minimum floor in bytes. A process keeps its floor resident, whatever the other processes
/// hold.
pub(crate) const FLOOR_MIN: u64 = 1 << 20;
/// The maximum floor in bytes. Together, N processes can exceed the limit by N floors.
pub(crate) const FLOOR_MAX: u64 = 16 << 20;
/// The floor is at most 1/`FLOOR_SHARE_MAX` of the limit, even if that is less than `FLOOR_MIN`.
pub(crate) const FLOOR_SHARE_MAX: u64 = 8;
/// A process is large if it holds at least 1/`LARGE_SHARE` of the limit.
pub(crate) const LARGE_SHARE: u64 = 16;
/// A group reports that its limit can't be kept if unevictable memory exceeds the limit by more
/// than 1/`OVER_LIMIT_SHARE` of it.
pub(crate) const OVER_LIMIT_SHARE: u64 = 64;
/// A group reports that its limit was exceeded if the processes held more than the limit plus
/// 1/`EXCEEDED_SHARE` of it. A smaller excess may be a measurement error.
pub(crate) const EXCEEDED_SHARE: u64 = 20;
/// A fork closes no blocks if all processes together would hold at most 1/`UNCLOSED_SHARE` of the
/// limit, even if the child copied all blocks.
pub(crate) const UNCLOSED_SHARE: u64 = 2;
/// After a process found no room, it is treated as needing room for this time in milliseconds.
pub(crate) const WANT_TIME: u64 = 200;
/// The maximum number of iterations in the computation of a share. If more iterations would be
/// needed, the share is inexact.
pub(crate) const STEPS: usize = 8;

// Measurements

/// The number of faults between two measurements of the process's memory.
pub(crate) const SAMPLE: usize = 256;
/// The number of faults between two measurements while some open blocks have not been written yet.
pub(crate) const SAMPLE_OPENED: usize = 4;
/// At a fault, a process measures its memory if the last measurement is older than this time, in
/// milliseconds. Since that measurement, a program that seldom faults may have written many blocks
/// that were opened before their first access.
pub(crate) const SAMPLE_TIME: u64 = 10;
/// The estimated number of bytes in changed pages per byte of an object, if the object is stored or
/// freed between other objects. An object of 1.5 KiB overlaps 1.4 pages of 4 KiB on average.
/// Objects of less than 1 KiB are treated as objects of 1 KiB.
pub(crate) const WEIGHT: u64 = 4;
/// The maximum duration of a walk over the shared memory of all processes, in milliseconds. After
/// this time, the walking process is treated as killed, and another process can walk.
pub(crate) const WALK_TIME_MAX: u64 = 60_000;
/// The minimum time between two walks over shared memory, in milliseconds.
pub(crate) const WALK_PAUSE: u64 = 250;
/// Walks over shared memory take at most 1/`WALK_SHARE` of the time. They are slow, because the
/// kernel reads the page tables of the processes.
pub(crate) const WALK_SHARE: u64 = 100;
