//! Tunable choices of the command `uzram`: limits, times and sizes. Sizes that a format or a
//! structure fixes are defined in other files.

use rustix::event::Timespec;
use std::ops::RangeInclusive;
use std::time::Duration;

/// By default, the limit of a device is this percentage of the available memory. The remaining
/// memory is a margin, because the kernel kills a process if no memory is left for a page.
pub(crate) const LIMIT_PERCENT: u64 = 85;

/// The minimum limit of pool pages in bytes, because each size class in use needs at least one
/// page.
pub(crate) const LIMIT_MIN: u64 = 64 << 10;

/// The bytes that this process uses besides its buffers and the device, including page tables and
/// page cache.
pub(crate) const PROGRAM_BYTES: u64 = 6 << 20;

/// The reserve in bytes that the maximum size of a backing file includes, because data do not
/// always fill whole blocks.
pub(crate) const BACKING_SPARE: u64 = 1 << 20;

/// The maximum time to wait until a full pipe or a stopped terminal accepts a line. After a failed
/// wait, further lines are lost at once, until the pipe or terminal accepts data again.
pub(crate) const LOG_PATIENCE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// The maximum number of characters of a value that an error message quotes. With this length, a
/// user can still recognize the value.
pub(crate) const REPEATED: usize = 80;

/// The interval of the animation of a progress bar whose total is unknown.
pub(crate) const PROGRESS_TICK: Duration = Duration::from_millis(100);

/// The maximum size of a configuration file in bytes. A disk's section has a few hundred bytes, so
/// thousands of disks fit.
pub(crate) const CONFIG_BYTES_MAX: u64 = 1 << 20;

/// The maximum time to read a configuration from a pipe, such as a shell's `<(...)`. A program that
/// only prints a file needs less time.
pub(crate) const CONFIG_WITHIN: Duration = Duration::from_secs(10);

/// The maximum depth of nested brackets in a size of a configuration file.
pub(crate) const CONFIG_DEPTH: usize = 32;

/// The interval between two requests for the progress of a server's job.
pub(crate) const JOB_EVERY: Duration = Duration::from_millis(250);

/// The interval between two lines of `uzram stat --watch`.
pub(crate) const WATCH_EVERY: Duration = Duration::from_secs(1);

/// After this number of lines, the heads of the columns are printed again, because the previous
/// heads have scrolled away.
pub(crate) const WATCH_LINES: u64 = 20;

/// The minimum and maximum width of a bar in characters.
pub(crate) const WATCH_BAR: RangeInclusive<usize> = 4..=16;

/// The maximum number of bytes of a disk's name in a metric's label. The maximum bounds the size of
/// a response, for which the server reserves memory.
pub(crate) const METRICS_NAME_MAX: usize = 128;

/// The width in characters of a line of `uzram stat --watch` without its two bars. The width
/// includes the brackets, the percentage and the spaces of each bar.
pub(crate) const WATCH_BESIDE: usize = 64 + 2 * 9;

/// The number of bytes of an image that one write contains.
pub(crate) const IMAGE_PIECE: usize = 1 << 20;

/// The number of bytes of a block device that one call zeroes.
pub(crate) const IMAGE_ZEROED: u64 = 256 << 20;

/// The stack size in bytes of each thread that the server may start at its end.
pub(crate) const STACK: usize = 512 << 10;

/// The maximum number of threads that start after the server's start. The device's pool starts up
/// to two threads, at any time. At the server's end, two threads save the disk and read the backing
/// store. Three threads sync the mount, search for its users, and unmount it.
pub(crate) const LATER_THREADS: usize = 7;

/// The bytes of address space by which the allocator grows at a time, plus the bytes of the
/// threads' guard pages.
pub(crate) const ADDRESS_SLACK: usize = 2 << 20;

/// The number of descriptors that a server opens at its start: sockets, files, and the descriptors
/// that wake the sockets' threads.
pub(crate) const DESCRIPTORS_AT_START: usize = 24;

/// The server always has descriptors for this number of half-open connections.
pub(crate) const HALF_OPEN_LEAST: usize = 8;

/// The device's pool leaves memory for this number of connections.
pub(crate) const FREE_CONNECTIONS: usize = 2;

/// The bytes of the reserve for data that exist once per server, such as log lines, the paths of a
/// save, and jobs.
pub(crate) const RESERVE_OF_SERVER: usize = 512 << 10;

/// The bytes of metadata for each slot, including the values of all columns.
pub(crate) const SERVED_ENTRY_BYTES: u64 = 22;

/// The bytes that the default limit leaves for connections. All connections together use at most
/// `bounds::memory_max` bytes.
pub(crate) const CONNECTION_BYTES: u64 = 64 << 20;

/// One write of a client can use at most 1/ROOM_OF_WRITES of the memory that this process is
/// allowed to use.
pub(crate) const ROOM_OF_WRITES: u64 = 16;

/// The maximum value of `--connections`.
pub(crate) const CONNECTIONS_MAX: u16 = 1024;

/// A disk is near its memory limit if it uses at least this percentage of the limit.
pub(crate) const NEAR_PERCENT: u64 = 90;

/// The server warns again only after the disk's use of memory has fallen below this percentage of
/// the limit.
pub(crate) const CALM_PERCENT: u64 = 80;

/// The interval between checks of the disk's memory use.
pub(crate) const FULLNESS_EVERY: Duration = Duration::from_secs(1);

/// The interval between checks while a thread waits for a signal or for another program.
pub(crate) const SIGNAL_TICK: Duration = Duration::from_millis(20);

/// The maximum time to wait until standard output accepts the server's announcement.
pub(crate) const PRINTED_WITHIN: Duration = Duration::from_secs(10);

/// The maximum time to find the mount's directory.
pub(crate) const FOUND_WITHIN: Duration = Duration::from_secs(2);

/// The number of checks for signals after the first signal that ends the server. Signals that these
/// checks find are ignored, because one request to end the server often causes several signals. For
/// example, a terminal and a program that forwards signals each send SIGINT. `timeout` sends a
/// signal to the process and to its group. A program that gets SIGINT often sends SIGTERM to its
/// children. If SIGTERM and SIGHUP are sent together, the kernel delivers SIGHUP first. The limit
/// is a number of checks and not a time, because the process may be stopped. The first check after
/// a stop finds all signals that arrived during the stop.
pub(crate) const SIGNAL_LOOKS: u32 = 15;

/// The time between two of the checks that `SIGNAL_LOOKS` counts.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The maximum time that the server waits at its end for clients to disconnect.
pub(crate) const GOODBYE: Duration = Duration::from_secs(3);

/// After the save at the server's end, clients of the control socket have this time to read their
/// answers.
pub(crate) const ANSWERED: Duration = Duration::from_secs(2);

/// The maximum time to wait at the server's end until the kernel has written the data of shared
/// mappings to the disk.
pub(crate) const SYNCED_WITHIN: Duration = Duration::from_secs(2);

/// The interval between log lines about the progress of a save.
pub(crate) const LOGGED_EVERY: Duration = Duration::from_secs(10);

/// The maximum time to wait until a cancelled save ends.
pub(crate) const GIVEN_UP_WITHIN: Duration = Duration::from_secs(1);

/// The maximum time to wait until a cancelled job ends. A job that waits for the backing store may
/// never end.
pub(crate) const JOB_WITHIN: Duration = Duration::from_secs(5);

/// A save without progress during this time is stuck. A sync of the file to a slow disk can take
/// almost this time.
pub(crate) const STUCK_AFTER: Duration = Duration::from_secs(300);

/// The pause after the first failed save. Each further pause is twice the previous pause.
pub(crate) const AGAIN_AFTER: Duration = Duration::from_secs(5);

/// The maximum pause after a failed save.
pub(crate) const AGAIN_AFTER_MAX: Duration = Duration::from_secs(60);

/// The largest number that is appended to a file name to find an unused name.
pub(crate) const NAMES_MAX: u32 = 99;

/// The number of bytes of the first thread's stack that long-running commands touch at their start.
/// If the stack had to grow later in a full address space, the kernel would kill the process.
pub(crate) const FIRST_STACK: usize = 256 << 10;

/// The number of bytes that the process must be able to allocate at its start. If the heap can't
/// grow, the C library maps memory in steps of 1 MiB.
pub(crate) const AT_START: usize = 2 << 20;

/// The default limit of `uzram run`, as a percentage of the cgroup's limit. The cgroup also charges
/// memory that uzram does not count, such as files and page tables.
pub(crate) const RUN_LIMIT_PERCENT: u8 = 85;

/// The table combines small ended processes in one line, because they hardly affect the sum. A
/// process is small if it held less than 1/`TABLE_SHARE` of the maximum memory of all processes
/// together.
pub(crate) const TABLE_SHARE: u64 = 100;
