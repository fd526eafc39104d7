//! Thresholds and sizes of this crate, each with its reason.

// The arena and its windows

/// The minimum size of an arena in bytes.
pub(crate) const ARENA_MIN: usize = 64 << 20;
/// The maximum size of an arena in bytes. The size is limited, because each block takes a state
/// word. With 32 GiB and the kernel's default limit on mappings, a chunk would have 8 MiB instead
/// of 4 MiB. A program that uses few pages would then take 0.2 ms longer to mark the blocks of its
/// first chunks.
pub(crate) const ARENA_MAX: usize = (32 << 30) - (64 << 20);
/// If the limit on the number of mappings makes blocks larger than `UNIT_MAX`, the arena is halved
/// repeatedly. A larger block would often be larger than a mapping of the program. The arena's size
/// stays at least `LIMITS` times the memory limit.
pub(crate) const UNIT_MAX: usize = 16 << 10;
pub(crate) const LIMITS: usize = 4;
/// The arena is not halved to less than this number of bytes.
pub(crate) const ARENA_LEAST: usize = 256 << 20;
/// 1/`ROOM_SHARE` of the arena's size is reserved for windows (pl-24).
pub(crate) const ROOM_SHARE: usize = 4;
/// The alignment in bytes of the arena, and of mappings of at least this size.
pub(crate) const CHUNK: usize = 2 << 20;
/// The part for libraries, at the arena's end, is 1/`LIBRARIES_SHARE` of the arena.
pub(crate) const LIBRARIES_SHARE: usize = 8;
/// The number of bytes that remain free above a library. The stubs of glibc lie 4 and 20 MiB above
/// the `syscall` instructions that they replace. The instructions after each `syscall` determine
/// this distance (di-13).
pub(crate) const ABOVE_LIBRARY: usize = 24 << 20;
/// The minimum size of a window in bytes. The number of windows is limited, so smaller mappings get
/// no window.
pub(crate) const WINDOW_MIN: usize = 2 << 20;
/// If a reservation is larger than the remaining address space for windows, its window gets this
/// share (3/4) of the remaining space. The window covers the reservation's start, because programs
/// use a reservation from its start upwards.
pub(crate) const RESERVED_SHARE: (usize, usize) = (3, 4);
/// After the program maps read-only shared memory of at least this number of bytes, the group's
/// shared memory is measured. Most smaller mappings are files of the C library.
pub(crate) const SHARED_MIN: usize = 1 << 20;
/// The number of bytes that `mremap` copies in one step. If the old addresses lie in one window,
/// each step frees the addresses from which it has copied.
pub(crate) const MOVE_STEP: usize = 1 << 20;

/// If the break is below this address, the program is not position-independent. A program of this
/// type is linked for the lowest 2 GiB, and its break is at most 1 GiB higher. The break of a
/// position-independent program lies far above this address.
pub(crate) const LOW_END: usize = 1 << 32;

// Calls and their memory

/// A large read or write is divided into parts of 1/`PART_SHARE` of the limit, but at least
/// `PART_MIN` bytes.
pub(crate) const PART_SHARE: usize = 8;
pub(crate) const PART_MIN: usize = 1 << 20;
/// If it is unknown how a call uses an address, the call is assumed to access this number of bytes
/// at the address.
pub(crate) const UNKNOWN_BYTES: usize = 64 << 10;
/// If a call pinned more than 1/`MUCH_SHARE` of the limit, the runtime evicts blocks after the
/// call.
pub(crate) const MUCH_SHARE: u64 = 16;
/// The number of calls between two measurements of the process's memory outside of its arena.
pub(crate) const WEIGHED: u64 = 128;
/// The process's memory outside of its arena is also measured when calls have mapped more than this
/// share (1/64) of the limit since the last such measurement. At most this share is evicted before
/// a call maps memory, because the program may never write to that memory.
pub(crate) const OPENED_SHARE: usize = 64;

// Faults, helpers and the compressor thread

/// The maximum number of times that a fault at one address is retried while no thread changes
/// mappings. After these retries, the fault is passed to the program.
pub(crate) const FAULT_TRIES: u32 = 8;
/// The maximum number of times that a fault at one address is retried while the lock of `Space` is
/// held.
pub(crate) const LOCKED_TRIES: u32 = 10_000;
/// The number of consecutive interrupted `execve` calls of a thread after which the thread starts
/// no helper.
pub(crate) const EXEC_TRIES: u32 = 8;
/// The number of slots for threads whose `execve` calls are interrupted. Few threads of a process
/// execute programs. Threads that share a slot reset each other's counts, so they can make more
/// than `EXEC_TRIES` calls.
pub(crate) const EXEC_SLOTS: usize = 16;
/// The maximum number of checks whether the kernel has released a thread that is ending.
pub(crate) const END_LOOKS: usize = 10_000;

// Other processes

/// The number of bytes that a process fills for each request of another process.
pub(crate) const BROUGHT: usize = 256 << 10;
/// The pause between two tries of a request to another process. The request's signal is sent again
/// after every `TRIES_OF_SIGNAL` tries, because the other process may not have handled the previous
/// signal.
pub(crate) static PEER_PAUSE: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 50_000 };
pub(crate) const TRIES_OF_SIGNAL: usize = 40;
/// The maximum number of tries of a request to another process. All tries together take a quarter
/// of a second.
pub(crate) const PEER_TRIES: usize = 5000;
/// The maximum number of tries of a request while the other process fills its blocks. All tries
/// together take one or two minutes.
pub(crate) const TRIES_OF_KEEPING: usize = 1 << 20;
/// The maximum number of tries to notify a process that a debugger has detached. If all tries fail,
/// the process itself detects later that the debugger has left.
pub(crate) const TRIES_OF_LOOK: usize = 10 * TRIES_OF_SIGNAL;
/// The number of milliseconds between two checks whether debuggers are still attached. A debugger
/// that has requested that the process stay resident must attach within this time.
pub(crate) const LOOK_TIME: u64 = 1000;
/// The process that holds the most memory should write the message that the limit can't be kept.
/// Any other process writes the message only after it has left the message to that process this
/// number of times.
pub(crate) const LEFT_MAX: u32 = 64;

// The heap and measurements

/// The granularity of dlmalloc's mappings in bytes.
pub(crate) const GRAIN: usize = 1 << 20;
/// The minimum size in bytes of a large allocation, which gets a mapping of its own.
pub(crate) const LARGE: usize = 16 << 10;
/// The cost of entering and leaving the runtime (`signal`) is the minimum of this number of
/// measurements.
pub(crate) const SIGNAL_TRIES: usize = 4;
/// One call in 2^6 is timed. `SPREAD` is 2^64 divided by the golden ratio. Modulo 2^64, the
/// multiples of `SPREAD` are distributed evenly, so every pattern of a program's calls is sampled
/// evenly.
pub(crate) const TIMED_SHARE: u32 = 6;
pub(crate) const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
/// The number of buckets of the histogram of the times that parts of calls take. The last bucket
/// begins at two seconds (2^31 ns). A part takes that long only if its thread was stopped.
pub(crate) const BUCKETS: usize = 32;
/// Parts of calls that took at least 2^`FAR` times the median are outliers if there are fewer than
/// `OUTLIERS` such parts.
pub(crate) const OUTLIERS: u64 = 8;
pub(crate) const FAR: usize = 4;
