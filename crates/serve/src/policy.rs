//! Limits, time limits and reserves of the server. Tests reach all limits of the NBD protocol, and
//! `nbd::bounds` asserts relations between them.

use std::time::Duration;

/// The pause before the next attempt to accept a connection if the system lacks resources for a
/// connection.
pub(crate) const ACCEPT_RETRY_AFTER: Duration = Duration::from_millis(100);
/// The stack size of the accepting thread, in bytes.
pub(crate) const ACCEPT_STACK: usize = 256 << 10;
/// The maximum number of connections that wait to be accepted.
pub(crate) const SOCKET_BACKLOG: i32 = 128;
/// The maximum number of attempts to create a socket while other servers start at its path.
pub(crate) const SOCKET_TRIES: usize = 100;
/// If an evicted client does not disconnect within this time, the new client is refused.
pub(crate) const EVICTED_WITHIN: Duration = Duration::from_secs(1);
/// The number of descriptors that a save, an unmount, a log and a refused client need together: for
/// files, their directories, a lock, and files of /proc.
pub(crate) const DESCRIPTORS_FOR_WORK: usize = 24;
/// The number of bytes of replies that the kernel buffers for a client. The kernel may permit only
/// a smaller buffer.
pub(crate) const SEND_BUFFER: usize = 1 << 20;

/// The maximum number of lines that the log writes in a period. Further lines are only counted.
pub(crate) const LOG_LINES: usize = 20;
pub(crate) const LOG_PERIOD: Duration = Duration::from_secs(10);

/// The maximum number of entries that one call of `extents` examines, which are the entries of 1
/// GiB.
pub(crate) const EXTENT_ENTRIES_MAX: usize = 1 << 18;
/// The maximum depth to which the search for holders follows devices that are stacked on a disk.
pub(crate) const HOLDERS_DEPTH: usize = 8;
/// The maximum depth of stacked devices that `own` follows from a file to a disk.
pub(crate) const OWN_DEPTH: usize = 16;

/// The time within which a server has to respond to a client of its control socket. A server
/// answers `stat` in milliseconds. But on a machine that swaps, a server's threads can wait for
/// seconds.
pub const ANSWERS_WITHIN: Duration = Duration::from_secs(10);
/// The maximum size of a request in bytes, and the number of bytes that one call receives.
pub(crate) const CONTROL_REQUEST_MAX: usize = 64 << 10;
pub(crate) const CONTROL_RECEIVED: usize = 4 << 10;
/// The time within which a client has to send one more byte of its request, or to receive one more
/// byte of the answer.
pub(crate) const CONTROL_WITHIN: Duration = Duration::from_secs(10);
/// The maximum number of clients of the control socket. If another client connects, the oldest
/// client with an incomplete request is disconnected. If all requests are complete, the new client
/// is refused.
pub const CONTROL_CLIENTS: usize = 16;
/// The stack size of a client's thread, in bytes.
pub(crate) const CONTROL_STACK: usize = 256 << 10;
/// The maximum number of bytes of small allocations that one client has in use at a time. A
/// request's buffer grows to 64 KiB while its old buffer of 32 KiB is live. The buffer of the
/// answer takes 8 KiB. The remaining bytes are for a path or an attribute's text.
pub const CONTROL_RESERVE: usize = 128 << 10;
/// The maximum length in bytes of a request to the control socket that is admitted without a check
/// for free memory.
pub(crate) const CONTROL_SHORT: usize = 8 << 10;

/// The stack size of a thread that `fuse` starts, in bytes.
pub(crate) const FUSE_STACK: usize = 256 << 10;
/// The number of bytes of address space that each thread of the FUSE library takes: a buffer, and a
/// stack of the default size.
pub(crate) const FUSE_THREAD_BYTES: usize = (16 << 20) + (2 << 20) + (64 << 10);
/// The minimum number of threads. With two threads, one thread that waits for the backing store
/// does not block the disk.
pub(crate) const FUSE_THREADS_MIN: usize = 2;
/// The maximum time to wait for the start of the FUSE library's threads, and the interval between
/// checks.
pub(crate) const READY_WITHIN: Duration = Duration::from_secs(1);
pub(crate) const READY_STEP: Duration = Duration::from_millis(1);
/// The time for which the kernel is allowed to cache a file's attributes. The attributes never
/// change.
pub(crate) const TTL: Duration = Duration::from_secs(60);
/// The maximum size, in bytes, of a request that the kernel sends.
pub(crate) const FUSE_REQUEST_MAX: u32 = 1 << 20;
/// The maximum time that `fusermount3` is allowed to take.
pub(crate) const FUSERMOUNT_WITHIN: Duration = Duration::from_secs(10);
/// The maximum number of dead mounts at one directory that are unmounted.
pub(crate) const DEAD_MOUNTS_MAX: usize = 16;
/// If a mount's server does not answer within this time, it counts as running but stuck.
pub(crate) const MOUNT_ANSWERS_WITHIN: Duration = Duration::from_secs(2);

/// The maximum time that a client is allowed to take to send its request, and also to receive its
/// answer. A scrape takes milliseconds, and Prometheus itself gives up after 10 seconds.
pub(crate) const METRICS_WITHIN: Duration = Duration::from_secs(5);
/// After an answer, the server waits at most this time for the client to close the connection, and
/// drops at most [`DRAINED_MAX`] bytes from the client. If a connection is closed with unread
/// bytes, the client can lose the answer.
pub(crate) const DRAINED_WITHIN: Duration = Duration::from_secs(1);
pub(crate) const DRAINED_MAX: usize = 64 << 10;
/// The number of bytes that one call receives and drops.
pub(crate) const DRAINED_STEP: usize = 4 << 10;
/// The maximum size of a request's head in bytes, and the maximum number of its header lines.
pub(crate) const HTTP_HEAD_MAX: usize = 4 << 10;
pub(crate) const HTTP_HEADERS_MAX: usize = 32;
/// The maximum number of clients of the metrics server. A machine has only a few scrapers. Most
/// places are for clients that keep their connection open.
pub const METRICS_CLIENTS: usize = 32;
/// The minimum time for which a client keeps its place before it can be evicted. The value exceeds
/// the time of a round trip to the other side of the Earth.
pub(crate) const METRICS_GRACE: Duration = Duration::from_millis(250);
/// The time limit of calls on a client's socket. Calls on a client's socket never block, so the
/// time limit has no effect.
pub(crate) const METRICS_NEVER: Duration = Duration::from_secs(1);
/// The maximum number of bytes of small allocations for the metrics' text and a client's answer.
pub(crate) const METRICS_TEXT_RESERVE: usize = 96 << 10;
pub(crate) const METRICS_ANSWER_RESERVE: usize = 16 << 10;

/// The maximum length in bytes of short reads and writes. One call sends the whole reply to a short
/// read, and a worker receives a short write into its own buffer. Longer writes use memory that all
/// connections share.
pub const READ_PART: usize = 256 << 10;
/// The maximum number of requests that a worker takes together.
pub const REQUESTS: usize = 64;
/// A batch of short requests is heavy if it compresses at least this number of bytes. While a
/// worker serves a heavy batch, another worker receives. A decompressed byte counts as 1/4 of a
/// compressed byte, a freed or examined byte as 1/64.
pub const HEAVY_BYTES: usize = 32 << 10;
/// The maximum number of extents in a reply.
pub const EXTENTS_MAX: usize = 1024;
/// The size of a connection's input buffer in bytes. An option has to fit in the buffer. If a
/// payload has arrived in part, its remaining bytes bypass the input buffer.
pub const INPUT_BUFFER: usize = 128 << 10;
/// The maximum number of extra workers of all connections together. The first worker of a
/// connection is no extra worker.
pub const EXTRA_WORKERS: usize = 128;
/// The maximum number of bytes that a client's thread takes, for the touched part of its stack and
/// for small allocations.
pub const THREAD_MEMORY: usize = 48 << 10;
/// The maximum number of connections that have not chosen an export yet. If another client
/// connects, the oldest half-open connection is closed.
pub const HALF_OPEN_MAX: usize = 128;
/// The time within which a client has to choose an export.
pub(crate) const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);
/// The time without work after which an extra worker of a connection ends.
pub(crate) const IDLE_WITHIN: Duration = Duration::from_secs(1);
/// The number of bytes of address space that a thread takes in addition to its stack, for the
/// stack's guard and the allocator's growth.
pub(crate) const BESIDE_STACK: usize = 64 << 10;
/// The stack size of a worker in bytes.
pub(crate) const WORKER_STACK: usize = 512 << 10;
/// The maximum number of bytes of small allocations that a worker has in use at a time. A failed
/// small allocation ends the process, so the reserve must be large enough. The allocations hold the
/// list of tasks (4 KiB), the states of slots that are examined together (1.5 KiB), the thread's
/// own data, and the entries of a block. Extents take no memory, because the reply itself stores
/// them.
pub const WORKER_RESERVE: usize = 20 << 10;
/// The number of bytes of a long write that are written in one step. Before each step, the worker
/// checks whether the server is ending.
pub(crate) const WRITE_STEP: u64 = 1 << 20;
/// If the pending answers take at least this number of bytes, the answers are sent before the next
/// option is handled. The pending answers exceed this size by at most one answer.
pub(crate) const ANSWERED_MAX: usize = 4096;
/// The remaining bytes of a request have to arrive within this time, plus their number divided by
/// `REST_BYTES_PER_SECOND`.
pub(crate) const REST_WITHIN: Duration = Duration::from_secs(30);
pub(crate) const REST_BYTES_PER_SECOND: u64 = 256 << 10;
/// If other writes wait, a client has to send its long write within this time, plus the write's
/// length divided by `LARGE_BYTES_PER_SECOND`.
pub(crate) const LARGE_GRACE: Duration = Duration::from_secs(1);
pub(crate) const LARGE_BYTES_PER_SECOND: u64 = 16 << 20;
/// The time for which spare buffers are kept after the end of the last long write.
pub(crate) const SPARE_WITHIN: Duration = Duration::from_secs(1);
/// The interval at which waiting threads check the time.
pub(crate) const TICK: Duration = Duration::from_secs(1);
/// The maximum number of bytes of small allocations that a half-open connection uses at a time. The
/// allocations hold the thread's own data and the answers. The answers exceed 4 KiB by at most one
/// reply.
pub const HALF_OPEN_RESERVE: usize = 32 << 10;
/// The time within which a client has to receive at least one byte of a reply.
pub(crate) const TAKEN_WITHIN: Duration = Duration::from_secs(300);
