//! Calls that concern processes, threads, users and scheduling.

use crate::count::Count::{Int, Long};
use crate::count::Length;
use crate::named_row::NamedRow;
use crate::options::{self, PRCTL_1, PRCTL_2, PRCTL_4};
use crate::row::Access::{Both, Read};
use crate::row::Argument::{self, Buffer, Form, Plain, Text};
use crate::row::Form::{CloneArgs, Texts};
use crate::row::{Lasting, Special, both, input, inputs, output, outputs};
use crate::sizes::{INT, RLIMIT, ROBUST_LIST_HEAD, RUSAGE, SIGINFO, TIME, WORD};

/// CLONE_CHILD_CLEARTID: the kernel writes the word when the thread ends.
const CLEARS: Lasting = Lasting::Bits { argument: 0, bits: libc::CLONE_CHILD_CLEARTID as usize };

/// A pager can't work if the program dispatches system calls itself, or uses tagged addresses.
const PRCTL: Special = Special::By {
    argument: 0,
    cases: &[
        (22, Special::Filter),
        (35, Special::AddressSpace),
        (55, Special::Withheld),
        (59, Special::Withheld),
        (0x5356_4d41, Special::AddressSpace),
    ],
};

/// A `sched_attr`, whose first field is its size. The kernel writes the size that it supports.
const SCHED_ATTR: Argument = Buffer(Both, Length::Own { at: 0, more: 0, least: 48, most: 4096 });

/// The positions of the thread IDs' addresses depend on the architecture.
#[cfg(target_arch = "x86_64")]
const CLONE: NamedRow = row!(SYS_clone, Plain, Plain, output(INT), output(INT));
#[cfg(not(target_arch = "x86_64"))]
const CLONE: NamedRow = row!(SYS_clone, Plain, Plain, output(INT), Plain, output(INT));

pub(super) const ROWS: &[NamedRow] = &[
    CLONE.is(Special::Process).lasts(CLEARS),
    row!(SYS_clone3, Form(CloneArgs(Long(1)))).is(Special::Process).lasts(Lasting::Yes),
    row!(SYS_execve, Text, Form(Texts), Form(Texts)).is(Special::Process),
    row!(SYS_execveat, Plain, Text, Form(Texts), Form(Texts)).is(Special::Process),
    row!(SYS_exit),
    row!(SYS_exit_group),
    row!(SYS_wait4, Plain, output(INT), Plain, output(RUSAGE)),
    row!(SYS_waitid, Plain, Plain, output(SIGINFO), Plain, output(RUSAGE)),
    row!(SYS_set_tid_address, output(INT)).lasts(Lasting::Yes),
    row!(SYS_set_robust_list, both(ROBUST_LIST_HEAD)).lasts(Lasting::Yes),
    row!(SYS_get_robust_list, Plain, output(WORD), output(WORD)),
    row!(SYS_rseq, Buffer(Both, Length::Items { count: Int(1), bytes: 1, more: 0 }))
        .lasts(Lasting::Yes),
    row!(SYS_prctl, Plain, PRCTL_1, PRCTL_2, Plain, PRCTL_4)
        .is(PRCTL)
        .lasts(Lasting::Values { argument: 0, values: &[59] }),
    row!(SYS_ptrace, Plain, Plain, options::PTRACE_ADDRESS, options::PTRACE_DATA),
    row!(SYS_seccomp, Plain, Plain, options::SECCOMP)
        .is(Special::By { argument: 0, cases: &[(0, Special::Filter), (1, Special::Filter)] }),
    row!(SYS_unshare),
    row!(SYS_setns),
    row!(SYS_personality),
    row!(SYS_pidfd_open),
    row!(SYS_getpid),
    row!(SYS_getppid),
    row!(SYS_gettid),
    row!(SYS_getuid),
    row!(SYS_geteuid),
    row!(SYS_getgid),
    row!(SYS_getegid),
    row!(SYS_setuid),
    row!(SYS_setgid),
    row!(SYS_setreuid),
    row!(SYS_setregid),
    row!(SYS_setresuid),
    row!(SYS_setresgid),
    row!(SYS_getresuid, output(INT), output(INT), output(INT)),
    row!(SYS_getresgid, output(INT), output(INT), output(INT)),
    row!(SYS_setfsuid),
    row!(SYS_setfsgid),
    row!(SYS_getgroups, Plain, outputs(Int(0), 4)),
    row!(SYS_setgroups, Plain, inputs(Int(0), 4)),
    row!(SYS_getpgid),
    row!(SYS_setpgid),
    row!(SYS_getsid),
    row!(SYS_setsid),
    row!(SYS_capget, both(8), output(24)),
    row!(SYS_capset, both(8), input(24)),
    row!(SYS_getpriority),
    row!(SYS_setpriority),
    row!(SYS_getrlimit, Plain, output(RLIMIT)),
    row!(SYS_setrlimit, Plain, input(RLIMIT)),
    row!(SYS_prlimit64, Plain, Plain, input(RLIMIT), output(RLIMIT)),
    row!(SYS_getrusage, Plain, output(RUSAGE)),
    row!(SYS_ioprio_get),
    row!(SYS_ioprio_set),
    row!(SYS_sched_yield),
    row!(SYS_sched_setparam, Plain, input(INT)),
    row!(SYS_sched_getparam, Plain, output(INT)),
    row!(SYS_sched_setscheduler, Plain, Plain, input(INT)),
    row!(SYS_sched_getscheduler),
    row!(SYS_sched_get_priority_max),
    row!(SYS_sched_get_priority_min),
    row!(SYS_sched_rr_get_interval, Plain, output(TIME)),
    row!(SYS_sched_setattr, Plain, SCHED_ATTR),
    row!(SYS_sched_getattr, Plain, outputs(Int(2), 1)),
    row!(SYS_sched_setaffinity, Plain, Plain, inputs(Int(1), 1)),
    row!(SYS_sched_getaffinity, Plain, Plain, outputs(Int(1), 1)),
    row!(SYS_getcpu, output(INT), output(INT)),
    row!(SYS_lsm_get_self_attr, Plain, crate::row::told(Both, 2), both(INT)),
    row!(SYS_lsm_set_self_attr, Plain, Buffer(Read, LSM)),
    row!(SYS_lsm_list_modules, crate::row::told(Both, 1), both(INT)),
];

const LSM: Length = Length::Items { count: Int(2), bytes: 1, more: 0 };
