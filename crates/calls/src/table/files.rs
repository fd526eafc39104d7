//! Calls that open, read, write and watch files.

use crate::count::Count::{Int, Long};
use crate::named_row::NamedRow;
use crate::options;
use crate::row::Access::{Both, Read, Write};
use crate::row::Argument::{Form, Plain, Text};
use crate::row::Form::{Ioctl, Iovecs, Sigset};
use crate::row::{Lasting, Special, both, boths, input, inputs, mask, output, outputs};
use crate::sizes::{EPOLL_EVENT, POLLFD, SIGSET, TIME};

/// Requests of `ioctl` whose memory is used after the call: memory of virtual machines, transfers,
/// DMA.
const IOCTL_LASTING: Lasting = Lasting::Values {
    argument: 1,
    values: &[0x4020_ae46, 0x40a0_ae49, 0x3b71, 0x8038_550a, 0x4008_af03],
};

/// The request that registers a range with `userfaultfd`. The program then handles page faults in
/// the range itself.
const IOCTL_SPECIAL: Special =
    Special::By { argument: 1, cases: &[(0xc020_aa00, Special::AddressSpace)] };

pub(super) const ROWS: &[NamedRow] = &[
    row!(SYS_read, Plain, outputs(Long(2), 1)),
    row!(SYS_write, Plain, inputs(Long(2), 1)),
    row!(SYS_pread64, Plain, outputs(Long(2), 1)),
    row!(SYS_pwrite64, Plain, inputs(Long(2), 1)),
    row!(SYS_readv, Plain, Form(Iovecs(Write, Long(2)))),
    row!(SYS_writev, Plain, Form(Iovecs(Read, Long(2)))),
    row!(SYS_preadv, Plain, Form(Iovecs(Write, Long(2)))),
    row!(SYS_pwritev, Plain, Form(Iovecs(Read, Long(2)))),
    row!(SYS_preadv2, Plain, Form(Iovecs(Write, Long(2)))),
    row!(SYS_pwritev2, Plain, Form(Iovecs(Read, Long(2)))),
    row!(SYS_sendfile, Plain, Plain, both(8)),
    row!(SYS_copy_file_range, Plain, both(8), Plain, both(8)),
    row!(SYS_splice, Plain, both(8), Plain, both(8)),
    row!(SYS_tee),
    // A pipe keeps references to the pages, with or without SPLICE_F_GIFT.
    row!(SYS_vmsplice, Plain, Form(Iovecs(Both, Long(2)))).lasts(Lasting::Yes),
    row!(SYS_openat, Plain, Text),
    row!(SYS_openat2, Plain, Text, inputs(Long(3), 1)),
    row!(SYS_close),
    row!(SYS_close_range),
    row!(SYS_lseek),
    row!(SYS_dup),
    row!(SYS_dup3),
    row!(SYS_pipe2, output(8)),
    row!(SYS_fcntl, Plain, Plain, options::FCNTL),
    row!(SYS_ioctl, Plain, Plain, Form(Ioctl)).lasts(IOCTL_LASTING).is(IOCTL_SPECIAL),
    row!(SYS_flock),
    row!(SYS_fsync),
    row!(SYS_fdatasync),
    row!(SYS_sync),
    row!(SYS_syncfs),
    row!(SYS_sync_file_range),
    row!(SYS_fallocate),
    row!(SYS_fadvise64),
    row!(SYS_readahead),
    row!(SYS_truncate, Text),
    row!(SYS_ftruncate),
    row!(SYS_getdents64, Plain, outputs(Int(2), 1)),
    row!(SYS_memfd_create, Text),
    row!(SYS_eventfd2),
    row!(SYS_cachestat, Plain, input(16), output(40)),
    row!(SYS_epoll_create1),
    row!(SYS_epoll_ctl, Plain, Plain, Plain, options::EPOLL_EVENT),
    row!(SYS_epoll_pwait, Plain, outputs(Int(2), EPOLL_EVENT), Plain, Plain, input(SIGSET))
        .is(Special::Signals),
    row!(SYS_epoll_pwait2, Plain, outputs(Int(2), EPOLL_EVENT), Plain, input(TIME), input(SIGSET))
        .is(Special::Signals),
    row!(SYS_ppoll, boths(Int(1), POLLFD), Plain, both(TIME), input(SIGSET)).is(Special::Signals),
    row!(
        SYS_pselect6,
        Plain,
        mask(Both, Int(0), 0),
        mask(Both, Int(0), 0),
        mask(Both, Int(0), 0),
        both(TIME),
        Form(Sigset)
    )
    .is(Special::Signals),
    row!(SYS_inotify_init1),
    row!(SYS_inotify_add_watch, Plain, Text),
    row!(SYS_inotify_rm_watch),
    row!(SYS_fanotify_init),
    row!(SYS_fanotify_mark, Plain, Plain, Plain, Plain, Text),
    row!(SYS_lookup_dcookie, Plain, outputs(Long(2), 1)),
];
