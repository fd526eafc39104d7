//! Limits and sizes of this crate, each with its reason. The helper allocates nothing (in-1), so
//! its buffers have fixed sizes.

/// The page size of x86-64 in bytes.
pub(crate) const PAGE: usize = 4096;

/// The interval in nanoseconds between checks during a wait. A waiting process checks that its
/// helper still runs, and a waiting helper checks that the process still runs.
pub(crate) const CHECK_AFTER: usize = 100_000_000;
/// The maximum time in milliseconds that a helper waits for standard error to accept its report.
pub(crate) const READER_WITHIN: usize = 10_000;
/// The number of processors that a CPU set can contain.
pub(crate) const PROCESSORS: usize = 1024;
/// The maximum number of pairs in an auxiliary vector. The kernel writes about 25 pairs.
pub(crate) const PAIRS: usize = 64;
/// The number of 8-byte words that are read from the traced process at a time.
pub(crate) const CHUNK: usize = 512;
/// The maximum size in bytes of the data on a host's stack. These data include the settings, which
/// contain file names.
pub(crate) const STACK_DATA_BYTES: usize = 32 << 10;
/// The maximum number of loadable segments in a host's file.
pub(crate) const SEGMENTS: usize = 8;
/// The maximum length of a loader's path in bytes, with its NUL.
pub(crate) const PATH_BYTES: usize = 256;
/// The maximum end address of a segment, as given in the file.
pub(crate) const END_MAX: usize = 1 << 30;
/// The size in bytes of the host's own stack. The stack is a mapping, so the program's stack limit
/// does not apply to it. Pages that are never touched use no memory.
pub(crate) const HOST_STACK_BYTES: usize = 512 << 10;
/// The helper writes a file path at this number of bytes below the program's stack pointer. The
/// distance exceeds the red zone.
pub(crate) const SCRATCH: usize = 1024;
/// The maximum length in bytes of the target of a namespace link, for example `pid:[4026531836]`.
pub(crate) const LINK_BYTES: usize = 64;
/// The helper searches this number of bytes at the start of the vDSO for a `syscall` instruction.
pub(crate) const VDSO_BYTES: usize = 2 * PAGE;
/// The maximum length of a report in bytes.
pub(crate) const LINE_BYTES: usize = 320;
