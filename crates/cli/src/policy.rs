//! Tunable choices of the command: limits, times, and sizes of samples. Sizes that are part of a
//! format or a structure are defined in other files.

use rustix::event::Timespec;
use std::ops::RangeInclusive;
use std::time::Duration;

/// The maximum percentage of the available memory that a device may use by default. Some must be
/// left, because if memory is short at the first touch of a page, the kernel kills a process.
pub(crate) const LIMIT_PERCENT: u64 = 85;

/// The minimum limit of pool pages in bytes, because each size class in use needs at least one
/// page.
pub(crate) const LIMIT_MIN: u64 = 64 << 10;

/// The bytes of the program itself, including some for page tables and the page cache.
pub(crate) const PROGRAM_BYTES: u64 = 6 << 20;

/// The bytes by which a backing file exceeds the input, because data may not fill blocks.
pub(crate) const BACKING_SPARE: u64 = 1 << 20;

/// The maximum time to wait until a full pipe or a stopped terminal accepts a line. After such a
/// wait has failed, lines are lost without a wait until the pipe or terminal accepts data again.
pub(crate) const LOG_PATIENCE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// The maximum number of characters of a value that an error repeats, which is enough to recognize
/// the value.
pub(crate) const REPEATED: usize = 80;

/// The interval of a progress bar's animation if the length of the work is unknown.
pub(crate) const PROGRESS_TICK: Duration = Duration::from_millis(100);

/// The maximum size of a configuration file in bytes. A section takes a few hundred bytes, so
/// thousands of disks fit.
pub(crate) const CONFIG_BYTES_MAX: u64 = 1 << 20;

/// The maximum time within which the writer of a pipe with a configuration has to close the pipe,
/// for example the pipe of a shell's `<(...)`. A program that only prints a file needs less time.
pub(crate) const CONFIG_WITHIN: Duration = Duration::from_secs(10);

/// The maximum depth of nested brackets in a size of a configuration file.
pub(crate) const CONFIG_DEPTH: usize = 32;

/// The interval between two requests for the progress of a server's job.
pub(crate) const JOB_EVERY: Duration = Duration::from_millis(250);

/// The interval between two lines of `uzram stat --watch`.
pub(crate) const WATCH_EVERY: Duration = Duration::from_secs(1);

/// The number of lines after which the head of the columns is printed again, because the previous
/// head has scrolled away.
pub(crate) const WATCH_LINES: u64 = 20;

/// The minimum and maximum width of a bar in characters.
pub(crate) const WATCH_BAR: RangeInclusive<usize> = 4..=16;

/// The maximum number of bytes of a disk's name in the label of each metric. This maximum bounds
/// the size of a response, for which the server reserves memory.
pub(crate) const METRICS_NAME_MAX: usize = 128;

/// The width in characters of a line of `uzram stat --watch` with two bars, not counting the bars
/// themselves: the other columns, and the brackets, the percentage and the spaces of each bar.
pub(crate) const WATCH_BESIDE: usize = 64 + 2 * 9;

/// The number of bytes of an image that are written at a time.
pub(crate) const IMAGE_PIECE: usize = 1 << 20;

/// The number of bytes of a block device that one call zeroes.
pub(crate) const IMAGE_ZEROED: u64 = 256 << 20;

/// The stack size of each thread that takes part in the server's end, in bytes.
pub(crate) const STACK: usize = 512 << 10;

/// The number of threads that may start later. Two threads of the device's pool may start at any
/// time. At the server's end, two save the disk and read the backing store, and three sync the
/// mount, search for its users and unmount it.
pub(crate) const LATER_THREADS: usize = 7;

/// The number of bytes of address space by which the allocator grows at a time, plus the bytes of
/// the guard pages of the threads' stacks.
pub(crate) const ADDRESS_SLACK: usize = 2 << 20;

/// The number of descriptors that a server opens at its start: sockets, wake-ups of the sockets'
/// threads, and files.
pub(crate) const DESCRIPTORS_AT_START: usize = 24;

/// The minimum number of clients that may choose their export at the same time.
pub(crate) const HALF_OPEN_LEAST: usize = 8;

/// The number of connections for which the device's pool leaves memory free.
pub(crate) const FREE_CONNECTIONS: usize = 2;

/// The maximum number of bytes of the reserve that are in use at a time for data that exist once
/// per server, such as log lines, the paths of a save, and jobs.
pub(crate) const RESERVE_OF_SERVER: usize = 512 << 10;

/// The number of bytes that a server needs for each slot besides the pool's pages: the slot's
/// entry, with all columns.
pub(crate) const SERVED_ENTRY_BYTES: u64 = 22;

/// The number of bytes that the default limit leaves for connections, which use at most
/// `bounds::memory_max` bytes.
pub(crate) const CONNECTION_BYTES: u64 = 64 << 20;

/// A single write may take at most 1/ROOM_OF_WRITES of the memory that this process may use.
pub(crate) const ROOM_OF_WRITES: u64 = 16;

/// The maximum value of `--connections`.
pub(crate) const CONNECTIONS_MAX: u16 = 1024;

/// A disk counts as near its memory limit if it uses at least this percentage of the limit.
pub(crate) const NEAR_PERCENT: u64 = 90;

/// The percentage of a limit below which the use must fall before the server warns again.
pub(crate) const CALM_PERCENT: u64 = 80;

/// The interval between checks of whether the disk is near its memory limit.
pub(crate) const FULLNESS_EVERY: Duration = Duration::from_secs(1);

/// The interval between checks while a thread waits for a signal or for another program.
pub(crate) const SIGNAL_TICK: Duration = Duration::from_millis(20);

/// The maximum time that the server waits until standard output accepts the announcement.
pub(crate) const PRINTED_WITHIN: Duration = Duration::from_secs(10);

/// The maximum time of the search for the mount's directory.
pub(crate) const FOUND_WITHIN: Duration = Duration::from_secs(2);

/// Signals within this number of checks after the first signal belong to the same request to end,
/// which often consists of several signals. For example, a terminal and a program that forwards its
/// signals both send the signal. `timeout` sends the signal to the process and to its group. A
/// program that is interrupted by the terminal's SIGINT often sends SIGTERM to its children. If
/// SIGTERM and SIGHUP are sent at once, the kernel delivers SIGHUP first. The limit is a number of
/// checks, not a time, because the first check after the process was stopped finds all signals that
/// arrived while it was stopped.
pub(crate) const SIGNAL_LOOKS: u32 = 15;

/// The time between two of the checks that `SIGNAL_LOOKS` counts.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The maximum time that the server waits at its end until clients have disconnected.
pub(crate) const GOODBYE: Duration = Duration::from_secs(3);

/// The maximum time that clients of the control socket have to read their answers after the save at
/// the server's end.
pub(crate) const ANSWERED: Duration = Duration::from_secs(2);

/// The maximum time that the kernel has to write the data of shared mappings to the disk when the
/// server ends.
pub(crate) const SYNCED_WITHIN: Duration = Duration::from_secs(2);

/// The interval between log lines about the progress of a save.
pub(crate) const LOGGED_EVERY: Duration = Duration::from_secs(10);

/// The maximum time that the server waits for the end of a save that was cancelled.
pub(crate) const GIVEN_UP_WITHIN: Duration = Duration::from_secs(1);

/// The maximum time that the server waits for the end of a job that it has cancelled. A job that
/// waits for the backing store may never end.
pub(crate) const JOB_WITHIN: Duration = Duration::from_secs(5);

/// A save that makes no progress during this time counts as stuck. Syncing a file to a slow disk
/// may take about as long.
pub(crate) const STUCK_AFTER: Duration = Duration::from_secs(300);

/// The first pause before the save is tried again; each further pause is twice as long.
pub(crate) const AGAIN_AFTER: Duration = Duration::from_secs(5);

/// The maximum pause before the save is tried again.
pub(crate) const AGAIN_AFTER_MAX: Duration = Duration::from_secs(60);

/// The largest number that is appended to a name to find a new name.
pub(crate) const NAMES_MAX: u32 = 99;

/// The number of bytes of the first thread's stack that long-running commands touch at their start.
/// The stack grows when it is touched; if the address space were full, the kernel would kill the
/// process.
pub(crate) const FIRST_STACK: usize = 256 << 10;

/// The number of bytes that the process must be able to allocate at its start. If the heap can't
/// grow, the C library maps 1 MiB at a time instead.
pub(crate) const AT_START: usize = 2 << 20;

/// The default limit of `uzram run`, as a percentage of the cgroup's limit. The rest is for memory
/// that uzram does not count, such as files and page tables.
pub(crate) const RUN_LIMIT_PERCENT: u8 = 85;

/// Ended processes that held less than 1/`TABLE_SHARE` of the maximum memory of all processes
/// together are combined in one line of the table, because their figures hardly affect the sum.
pub(crate) const TABLE_SHARE: u64 = 100;
