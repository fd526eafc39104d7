//! Rows of calls that exist only on x86-64: older forms of other calls, and calls that access
//! registers. Calls of removed subsystems fail with ENOSYS, and their rows have no arguments.

use crate::argument::Access::Both;
use crate::argument::Argument::{Plain, Text};
use crate::argument::{both, boths, input, mask, output, outputs};
use crate::count::Count::Int;
use crate::named::{ENDED, NamedSpec, accepted};
use crate::options;
use crate::sizes::{EPOLL_EVENT, POLLFD, SIGSET, STAT, TIME, TIMES};
use crate::spec::SimpleClass::Path;
use crate::spec::Special::{AddressSpace, Process, Signals};
use crate::spec::{Special, Wait};
use crate::when::When::{Always, Negative};

/// Operations on shadow stacks change the address space. A pager can't support tagged addresses, so
/// the option that enables them is forbidden.
const ARCH_PRCTL: Special = Special::By {
    argument: 0,
    cases: &[(0x4002, Special::Forbidden), (0x5001, AddressSpace), (0x5002, AddressSpace)],
};

/// The sizes of `ustat` and `utimbuf` in bytes.
const USTAT: usize = 32;
const UTIMBUF: usize = 16;

pub(super) const ROWS: &[NamedSpec] = &[
    row!(SYS_open, Text; simple(Path), needed),
    row!(SYS_creat, Text),
    row!(SYS_stat, Text, output(STAT); brief, simple(Path)),
    row!(SYS_lstat, Text, output(STAT); brief, simple(Path)),
    row!(SYS_access, Text; brief, simple(Path), needed),
    row!(SYS_chmod, Text),
    row!(SYS_chown, Text),
    row!(SYS_lchown, Text),
    row!(SYS_mkdir, Text),
    row!(SYS_rmdir, Text),
    row!(SYS_mknod, Text),
    row!(SYS_link, Text, Text),
    row!(SYS_unlink, Text),
    row!(SYS_symlink, Text, Text),
    row!(SYS_rename, Text, Text),
    row!(SYS_readlink, Text, outputs(Int(2), 1); brief, simple(Path), needed),
    row!(SYS_utime, Text, input(UTIMBUF)),
    row!(SYS_utimes, Text, input(TIMES)),
    row!(SYS_futimesat, Plain, Text, input(TIMES)),
    row!(SYS_ustat, Plain, output(USTAT)),
    row!(SYS_getdents, Plain, outputs(Int(2), 1)),
    row!(SYS_dup2; brief, needed),
    row!(SYS_pipe, output(8); brief),
    row!(SYS_poll, boths(Int(1), POLLFD); waits(Wait { repeats: Negative(2), ..ENDED }), needed),
    row!(SYS_select, Plain, mask(Both, Int(0), 0), mask(Both, Int(0), 0), mask(Both, Int(0), 0),
        both(TIME); waits(Wait { repeats: Always, ..ENDED })),
    row!(SYS_epoll_create),
    row!(SYS_epoll_wait, Plain, outputs(Int(2), EPOLL_EVENT);
        waits(Wait { repeats: Negative(3), ..ENDED })),
    row!(SYS_eventfd),
    row!(SYS_signalfd, Plain, input(SIGSET); is(Signals), masks(accepted(1, 2))),
    row!(SYS_inotify_init),
    row!(SYS_fork; is(Process)),
    row!(SYS_vfork; is(Process)),
    row!(SYS_getpgrp; needed),
    row!(SYS_pause; waits(Wait { repeats: Always, ..ENDED })),
    row!(SYS_alarm; brief),
    row!(SYS_time, output(8)),
    row!(SYS_sysfs, Plain, options::SYSFS_1, options::SYSFS_2),
    row!(SYS_uselib, Text),
    row!(SYS_iopl),
    row!(SYS_ioperm),
    row!(SYS_modify_ldt, Plain, options::MODIFY_LDT),
    row!(SYS_arch_prctl, Plain, options::ARCH_PRCTL; is(ARCH_PRCTL), brief, optional),
    // Only trampolines of the kernel issue `uretprobe` and `uprobe`.
    row!(SYS_uretprobe),
    row!(SYS_uprobe),
    row!(SYS__sysctl),
    row!(SYS_afs_syscall),
    row!(SYS_create_module),
    row!(SYS_epoll_ctl_old),
    row!(SYS_epoll_wait_old),
    row!(SYS_get_kernel_syms),
    row!(SYS_get_thread_area),
    row!(SYS_getpmsg),
    row!(SYS_putpmsg),
    row!(SYS_query_module),
    row!(SYS_security),
    row!(SYS_set_thread_area),
    row!(SYS_tuxcall),
    row!(SYS_vserver),
];
