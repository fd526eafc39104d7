//! Rows of calls that open, read, write and watch files.

use crate::argument::Access::{Both, Read, Write};
use crate::argument::Argument::{Ioctl, Plain, Pointee, Text};
use crate::argument::Pointee::{Iovecs, Sigset};
use crate::argument::{both, boths, input, inputs, mask, output, outputs};
use crate::count::Count::{Int, Long};
use crate::named::{ENDED, NamedSpec, REPEATED, RESTARTED, behind, temporary};
use crate::options;
use crate::sizes::{EPOLL_EVENT, POLLFD, SIGSET, TIME};
use crate::spec::SimpleClass::{Buffer, Close, Direct, PathAt, Status};
use crate::spec::{Special, Wait};
use crate::when::When::{self, Always, Negative, Null};

/// These `ioctl` requests make the kernel use memory after the call, for virtual machines, USB
/// transfers or DMA.
const IOCTL_KEEPS: When = by_value!(1, u32::MAX;
    0x4020_ae46 | 0x40a0_ae49 | 0x3b71 | 0x8038_550a | 0x4008_af03 => Always);

/// CLOSE_RANGE_UNSHARE: the calling thread gets its own table of descriptors.
const UNSHARES: When = When::Bits { argument: 2, bits: 2 };

/// The `ioctl` request that registers a range with `userfaultfd`. The program then handles page
/// faults in the range itself.
const IOCTL_SPECIAL: Special =
    Special::By { argument: 1, cases: &[(0xc020_aa00, Special::AddressSpace)] };

pub(super) const ROWS: &[NamedSpec] = &[
    row!(SYS_read, Plain, outputs(Long(2), 1); waits(REPEATED), simple(Buffer), needed),
    row!(SYS_write, Plain, inputs(Long(2), 1); waits(RESTARTED), simple(Buffer), needed),
    row!(SYS_pread64, Plain, outputs(Long(2), 1); simple(Buffer), needed),
    row!(SYS_pwrite64, Plain, inputs(Long(2), 1); simple(Buffer), needed),
    row!(SYS_readv, Plain, Pointee(Iovecs(Write, Long(2))); waits(RESTARTED)),
    row!(SYS_writev, Plain, Pointee(Iovecs(Read, Long(2))); waits(RESTARTED)),
    row!(SYS_preadv, Plain, Pointee(Iovecs(Write, Long(2)))),
    row!(SYS_pwritev, Plain, Pointee(Iovecs(Read, Long(2)))),
    row!(SYS_preadv2, Plain, Pointee(Iovecs(Write, Long(2)))),
    row!(SYS_pwritev2, Plain, Pointee(Iovecs(Read, Long(2)))),
    row!(SYS_sendfile, Plain, Plain, both(8)),
    row!(SYS_copy_file_range, Plain, both(8), Plain, both(8)),
    row!(SYS_splice, Plain, both(8), Plain, both(8)),
    row!(SYS_tee),
    // A pipe keeps references to the pages, even without SPLICE_F_GIFT.
    row!(SYS_vmsplice, Plain, Pointee(Iovecs(Both, Long(2))); keeps(Always)),
    row!(SYS_openat, Plain, Text; simple(PathAt), needed),
    row!(SYS_openat2, Plain, Text, inputs(Long(3), 1)),
    row!(SYS_close; simple(Close), needed),
    row!(SYS_close_range; ends(UNSHARES), optional),
    row!(SYS_lseek; brief, simple(Direct), needed),
    row!(SYS_dup; brief),
    row!(SYS_dup3; brief),
    row!(SYS_pipe2, output(8); brief),
    row!(SYS_fcntl, Plain, Plain, options::FCNTL; simple(Status), needed),
    row!(SYS_ioctl, Plain, Plain, Ioctl; keeps(IOCTL_KEEPS), is(IOCTL_SPECIAL)),
    row!(SYS_flock; waits(REPEATED)),
    row!(SYS_fsync; waits(ENDED)),
    row!(SYS_fdatasync; waits(ENDED)),
    row!(SYS_sync),
    row!(SYS_syncfs),
    row!(SYS_sync_file_range),
    row!(SYS_fallocate),
    row!(SYS_fadvise64),
    row!(SYS_readahead),
    row!(SYS_truncate, Text),
    row!(SYS_ftruncate),
    row!(SYS_getdents64, Plain, outputs(Int(2), 1); needed),
    row!(SYS_memfd_create, Text),
    row!(SYS_eventfd2),
    row!(SYS_cachestat, Plain, input(16), output(40)),
    row!(SYS_epoll_create1),
    row!(SYS_epoll_ctl, Plain, Plain, Plain, options::EPOLL_EVENT; brief, simple(Direct)),
    row!(SYS_epoll_pwait, Plain, outputs(Int(2), EPOLL_EVENT), Plain, Plain, input(SIGSET);
        is(Special::Signals), waits(Wait { repeats: Negative(3), ..ENDED }), masks(temporary(4))),
    row!(SYS_epoll_pwait2, Plain, outputs(Int(2), EPOLL_EVENT), Plain, input(TIME), input(SIGSET);
        is(Special::Signals), waits(Wait { repeats: Null(3), ..ENDED }), masks(temporary(4))),
    row!(SYS_ppoll, boths(Int(1), POLLFD), Plain, both(TIME), input(SIGSET);
        is(Special::Signals), waits(Wait { repeats: Always, ..ENDED }), masks(temporary(3))),
    row!(SYS_pselect6, Plain, mask(Both, Int(0), 0), mask(Both, Int(0), 0), mask(Both, Int(0), 0),
        both(TIME), Pointee(Sigset); is(Special::Signals), waits(Wait { repeats: Always, ..ENDED }),
        masks(behind(5))),
    row!(SYS_inotify_init1),
    row!(SYS_inotify_add_watch, Plain, Text),
    row!(SYS_inotify_rm_watch),
    row!(SYS_fanotify_init),
    row!(SYS_fanotify_mark, Plain, Plain, Plain, Plain, Text),
    row!(SYS_lookup_dcookie, Plain, outputs(Long(2), 1)),
];
