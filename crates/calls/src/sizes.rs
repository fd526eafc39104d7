//! The sizes of the structures that system calls access, as the kernel defines them. A constant is
//! a literal number if the C library's type has a different size.

use libc::*;

pub(crate) const WORD: usize = size_of::<usize>();
pub(crate) const INT: usize = size_of::<c_int>();
/// The size in bytes of one `timespec` or `timeval`. `TIMES` is the size of two such structures.
pub(crate) const TIME: usize = size_of::<timespec>();
pub(crate) const TIMES: usize = 2 * TIME;
pub(crate) const TIMEX: usize = size_of::<timex>();
pub(crate) const STAT: usize = size_of::<stat>();
pub(crate) const STATX: usize = size_of::<statx>();
pub(crate) const STATFS: usize = size_of::<statfs>();
pub(crate) const RUSAGE: usize = size_of::<rusage>();
pub(crate) const RLIMIT: usize = size_of::<rlimit>();
pub(crate) const SYSINFO: usize = size_of::<sysinfo>();
pub(crate) const UTSNAME: usize = size_of::<utsname>();
pub(crate) const FLOCK: usize = size_of::<flock>();
pub(crate) const SIGINFO: usize = size_of::<siginfo_t>();
pub(crate) const STACK: usize = size_of::<stack_t>();
pub(crate) const SIGEVENT: usize = size_of::<sigevent>();
/// The size in bytes of the kernel's signal sets, which have 64 bits. The C library's signal sets
/// have 1024 bits.
pub(crate) const SIGSET: usize = 8;
/// The size of the kernel's `sigaction` in bytes: handler, flags, restorer, mask.
pub(crate) const SIGACTION: usize = 32;
/// The size in bytes of the cookie for `mq_notify`. A `sigevent` with SIGEV_THREAD points to this
/// cookie.
pub(crate) const COOKIE: usize = 32;
pub(crate) const POLLFD: usize = size_of::<pollfd>();
pub(crate) const EPOLL_EVENT: usize = size_of::<epoll_event>();
pub(crate) const IOVEC: usize = size_of::<iovec>();
pub(crate) const MSGHDR: usize = size_of::<msghdr>();
/// The size in bytes of an `mmsghdr`: a `msghdr`, followed by the received length.
pub(crate) const MMSGHDR: usize = size_of::<mmsghdr>();
/// The maximum length of a socket address in bytes.
pub(crate) const SOCKADDR: usize = size_of::<sockaddr_storage>();
pub(crate) const MQ_ATTR: usize = size_of::<mq_attr>();
pub(crate) const IOCB: usize = 64;
pub(crate) const IO_EVENT: usize = 32;
pub(crate) const SEMBUF: usize = 6;
/// The sizes of `semid64_ds`, `shmid64_ds` and `msqid64_ds` in bytes.
pub(crate) const SEMID: usize = if cfg!(target_arch = "x86_64") { 104 } else { 88 };
pub(crate) const SHMID: usize = 112;
pub(crate) const MSGID: usize = 120;
pub(crate) const SEMINFO: usize = 40;
pub(crate) const SHMINFO: usize = 72;
pub(crate) const SHM_INFO: usize = 48;
pub(crate) const MSGINFO: usize = 32;
pub(crate) const FUTEX_WAITV: usize = 24;
/// The size in bytes of one instruction of a socket filter.
pub(crate) const SOCK_FILTER: usize = size_of::<sock_filter>();
pub(crate) const ROBUST_LIST_HEAD: usize = 24;
pub(crate) const IO_URING_PARAMS: usize = 120;
/// `mount` copies this number of bytes from its last argument, even if the data are shorter.
pub(crate) const MOUNT_DATA: usize = 4096;
/// The offsets of a `msghdr`'s fields.
pub(crate) mod msghdr_at {
    pub(crate) const NAME: usize = 0;
    pub(crate) const NAME_LEN: usize = 8;
    pub(crate) const IOV: usize = 16;
    pub(crate) const IOV_LEN: usize = 24;
    pub(crate) const CONTROL: usize = 32;
}
/// The offsets of the fields of `clone_args`.
pub(crate) mod clone_at {
    pub(crate) const PIDFD: usize = 8;
    pub(crate) const CHILD_TID: usize = 16;
    pub(crate) const PARENT_TID: usize = 24;
    pub(crate) const SET_TID: usize = 64;
    pub(crate) const SET_TID_SIZE: usize = 72;
}
/// The offsets of an `iocb`'s fields.
pub(crate) mod iocb_at {
    pub(crate) const OPCODE: usize = 16;
    pub(crate) const BUF: usize = 24;
    pub(crate) const NBYTES: usize = 32;
}
