//! Limits and sizes of this crate, each with its reason. The helper allocates nothing, so its
//! buffers have fixed sizes (in-1).

/// The page size of x86-64 in bytes.
pub(crate) const PAGE: usize = 4096;

/// The interval in nanoseconds at which the process and its helper check, while one waits for the
/// other, whether the other still runs.
pub(crate) const CHECK_AFTER: usize = 100_000_000;
/// The maximum time in milliseconds that a helper waits until its report can be written.
pub(crate) const READER_WITHIN: usize = 10_000;
/// The number of processors in a CPU set.
pub(crate) const PROCESSORS: usize = 1024;
/// The maximum number of pairs in an auxiliary vector. The kernel writes about 25 pairs.
pub(crate) const PAIRS: usize = 64;
/// The number of words that one call reads from the traced process.
pub(crate) const CHUNK: usize = 512;
/// The maximum size in bytes of the data that are written to a host's stack. These data include the
/// settings, which contain file names.
pub(crate) const STACK_DATA_BYTES: usize = 32 << 10;
/// The maximum number of loadable segments in a host's file.
pub(crate) const SEGMENTS: usize = 8;
/// The maximum length of a loader's path in bytes, with its NUL.
pub(crate) const PATH_BYTES: usize = 256;
/// The maximum address, in the file, at which a segment may end.
pub(crate) const END_MAX: usize = 1 << 30;
/// The size in bytes of the host's own stack. The program's limit for its stack may be lower. Pages
/// that are never touched use no memory.
pub(crate) const HOST_STACK_BYTES: usize = 512 << 10;
/// The number of bytes between the program's stack pointer and the file path that the helper writes
/// below it: more than the red zone.
pub(crate) const SCRATCH: usize = 1024;
/// The maximum length in bytes of the text of a link to a namespace, for example
/// `pid:[4026531836]`.
pub(crate) const LINK_BYTES: usize = 64;
/// The number of bytes of the vDSO that are searched for a `syscall` instruction.
pub(crate) const VDSO_BYTES: usize = 2 * PAGE;
/// The maximum length of a report in bytes.
pub(crate) const LINE_BYTES: usize = 320;
