//! Errors of calls on regions, and failures that abort the process.

use crate::policy::MANY;
use rustix::io::Errno;
use std::fmt::Display;
use std::io::Write;

/// The reason why a region could not be created, or why a call on a region failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A region can't have this size.
    #[error("a region can't have {bytes} bytes: {}", size_hint(*bytes, *block))]
    Size {
        /// The requested size in bytes.
        bytes: usize,
        /// The size of a block in bytes.
        block: usize,
    },
    /// The limit is lower than the memory that an empty region and its reserve need.
    #[error("a limit of {limit} bytes is too low: {needed} is what these options need; raise it")]
    Limit {
        /// The requested limit.
        limit: u64,
        /// The lowest possible limit.
        needed: u64,
    },
    /// Arenas do not support this backend.
    #[error("an arena can't have this backend; take one of signals")]
    Backend,
    /// The store's limit is lower than the memory that a single stored block needs.
    #[error("a store limit of {limit} bytes is too low: {needed} is the least that stores a block")]
    StoreLimit {
        /// The requested limit.
        limit: u64,
        /// The lowest possible limit.
        needed: u64,
    },
    /// Blocks of this order are not possible on this system.
    #[error(
        "blocks of order {order} ({} bytes) are not possible here; take an order from {min} to \
         {max} ({} to {} bytes)",
        bytes_of(*order), bytes_of(*min), bytes_of(*max)
    )]
    Order {
        /// The requested order.
        order: u32,
        /// The lowest possible order.
        min: u32,
        /// The highest possible order.
        max: u32,
    },
    /// The process already has the maximum number of regions.
    #[error("there are {max} regions already; drop one, or make one larger region")]
    Regions {
        /// The maximum number of regions of a process.
        max: usize,
    },
    /// Some of the memory belongs to another region.
    #[error("memory at {start:#x} to {end:#x} is managed already; drop that region first")]
    Overlap {
        /// The first address of the other region.
        start: usize,
        /// The address after the end of the other region.
        end: usize,
    },
    /// This memory of the program can't be managed.
    #[error("memory at {at:#x} can't be managed: it is {what}; take private memory of no file")]
    Memory {
        /// The first address that can't be managed.
        at: usize,
        /// The kind of memory at that address.
        what: &'static str,
    },
    /// The range is not within the region.
    #[error("bytes {start} to {end} are not within a region of {bytes} bytes")]
    Range {
        /// The first byte of the range.
        start: usize,
        /// The byte after the last byte of the range.
        end: usize,
        /// The size of the region in bytes.
        bytes: usize,
    },
    /// A block of the range is locked, or already has the maximum number of locks.
    #[error("the block of bytes {at} to {end} is locked; end that lock first")]
    Locked {
        /// The first byte of the block.
        at: usize,
        /// The byte after the last byte of the block.
        end: usize,
    },
    /// [`BackendKind::SignalMappings`](crate::BackendKind) was requested, and this process can't
    /// use `/proc/self/mem`.
    #[error(
        "/proc/self/mem can't be used ({}), which this backend needs; take another",
        reason(*errno)
    )]
    ProcessMemory {
        /// The system's error number.
        errno: i32,
    },
    /// A userfaultfd was requested, and the system does not permit it or lacks a required feature.
    #[error(
        "userfaultfd can't be used ({}); take the backend that needs no right (`Signal`), or {}",
        reason(*errno),
        remedy(*errno)
    )]
    Userfaultfd {
        /// The system's error number.
        errno: i32,
    },
    /// This process is a child of fork, and the region exists only in its parent.
    #[error("the region was left to the parent; make it with `Fork::Copied`, or anew here")]
    Forked,
    /// The system refused memory, a mapping or a thread.
    #[error("the system refused {what}: {}", reason(*errno))]
    System {
        /// The resource that was requested.
        what: &'static str,
        /// The system's error number.
        errno: i32,
    },
    /// The device could not be created.
    #[error("{0}")]
    Device(#[from] zram::Error),
}

/// Returns a description of the possible sizes of a region.
fn size_hint(bytes: usize, block: usize) -> String {
    if bytes < MANY {
        return format!("it needs whole blocks of {block} bytes, at a multiple of that");
    }
    "less than 16 TiB are possible, or 10 TiB where blocks have more than 4096 bytes; take less"
        .into()
}

/// Returns the size in bytes of a block of this order as text. The text is an expression if the
/// size does not fit in 64 bits.
fn bytes_of(order: u32) -> String {
    match (zram::SLOT_BYTES as u64).checked_mul(1u64.checked_shl(order).unwrap_or(u64::MAX)) {
        Some(bytes) => bytes.to_string(),
        None => format!("{} << {order}", zram::SLOT_BYTES),
    }
}

/// Returns the part of the message that explains what to change so that a userfaultfd can be used.
fn remedy(errno: i32) -> &'static str {
    match errno {
        libc::ENOMEM => "allow more address space (ulimit -v), or end what takes memory",
        libc::EMFILE | libc::ENFILE => "allow more descriptors (ulimit -n), or close some",
        libc::ENOSYS | libc::EINVAL => "run a system that has it: Linux 5.7, on aarch64 6.10",
        _ => "permit it: by CAP_SYS_PTRACE, /dev/userfaultfd, or vm.unprivileged_userfaultfd = 1",
    }
}

fn reason(errno: i32) -> std::io::Error {
    std::io::Error::from_raw_os_error(errno)
}

/// Returns the error of this thread's last failed call of the C library.
pub(crate) fn last_error() -> Errno {
    let errno = std::io::Error::last_os_error().raw_os_error();
    errno.map_or(Errno::IO, Errno::from_raw_os_error)
}

impl Error {
    /// Returns a function that turns an error number into `Error::System` about the resource
    /// `what`.
    pub(crate) fn system(what: &'static str) -> impl FnOnce(Errno) -> Self {
        move |errno| Error::System { what, errno: errno.raw_os_error() }
    }

    pub(crate) fn of_thread(error: &std::io::Error) -> Self {
        let errno = error.raw_os_error().unwrap_or(Errno::AGAIN.raw_os_error());
        Error::System { what: "a thread", errno }
    }
}

/// Writes the failure and its reason to standard error, and aborts the process.
pub(crate) fn fatal(what: &str, why: &dyn Display) -> ! {
    // The message is composed on the stack, because the failed thread may have interrupted the
    // allocator.
    let mut text = [0; 512];
    let mut rest = &mut text[..];
    let _cut = writeln!(rest, "zmem: {what}: {why}; the process can't go on without it");
    let len = 512 - rest.len();
    let _unheard = rustix::io::write(rustix::stdio::stderr(), &text[..len]);
    std::process::abort()
}

/// Reports an operation that the kernel refused, and aborts the process. The message contains only
/// the error number, because the C library would allocate the error's text on the heap.
pub(crate) fn refused(what: &str, errno: Errno) -> ! {
    fatal(what, &format_args!("error {} of the system", errno.raw_os_error()))
}
