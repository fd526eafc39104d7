//! Rows of calls that concern processes, threads, users and scheduling.

use crate::argument::Access::{Both, Read};
use crate::argument::Argument::{self, Buffer, Plain, Pointee, Text};
use crate::argument::Pointee::{CloneArgs, Texts};
use crate::argument::{both, input, inputs, output, outputs};
use crate::count::Count::{Int, Long};
use crate::count::Length;
use crate::named::{NamedSpec, REPEATED};
use crate::options::{self, PRCTL_1, PRCTL_2, PRCTL_4};
use crate::sizes::{INT, RLIMIT, ROBUST_LIST_HEAD, RUSAGE, SIGINFO, TIME, WORD};
use crate::spec::SimpleClass::Direct;
use crate::spec::Special;
use crate::when::When::{self, Always};
use libc::{
    PR_CAP_AMBIENT, PR_CAPBSET_DROP, PR_SET_KEEPCAPS, PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP,
    PR_SET_SECUREBITS, PTRACE_ATTACH, PTRACE_SEIZE,
};

/// CLONE_CHILD_CLEARTID: the kernel clears 4 bytes of memory when the thread ends.
const CLEARS: When = When::Bits { argument: 0, bits: libc::CLONE_CHILD_CLEARTID as usize };

/// A pager can't work if the program uses syscall user dispatch or tagged addresses.
const PRCTL: Special = Special::By {
    argument: 0,
    cases: &[
        (22, Special::Filter),
        (35, Special::AddressSpace),
        (55, Special::Forbidden),
        (59, Special::Forbidden),
        (0x5356_4d41, Special::AddressSpace),
    ],
};

/// The kernel reads the selector of syscall user dispatch after the call returns.
const PRCTL_KEEPS: When = by_value!(0, u32::MAX; 59 => Always);

/// The `prctl` options that set a property of the calling thread. New threads inherit the property.
const PRCTL_ENDS: When = by_value!(0, u32::MAX;
    PR_SET_SECCOMP | PR_SET_NO_NEW_PRIVS | PR_CAPBSET_DROP | PR_CAP_AMBIENT | PR_SET_SECUREBITS |
    PR_SET_KEEPCAPS => Always);

/// With these requests, a process can stop all threads of another process with the same memory.
const ATTACHES: When = by_value!(0, u32::MAX; PTRACE_ATTACH | PTRACE_SEIZE => Always);

/// A `sched_attr`, whose first field is its size. The kernel writes the size that it supports.
const SCHED_ATTR: Argument = Buffer(Both, Length::Own { at: 0, more: 0, least: 48, most: 4096 });

/// The architecture determines which arguments point to thread IDs.
#[cfg(target_arch = "x86_64")]
const CLONE: NamedSpec = row!(SYS_clone, Plain, Plain, output(INT), output(INT));
#[cfg(not(target_arch = "x86_64"))]
const CLONE: NamedSpec = row!(SYS_clone, Plain, Plain, output(INT), Plain, output(INT));

pub(super) const ROWS: &[NamedSpec] = &[
    CLONE.is(Special::Process).keeps(CLEARS),
    row!(SYS_clone3, Pointee(CloneArgs(Long(1))); is(Special::Process), keeps(Always), optional),
    row!(SYS_execve, Text, Pointee(Texts), Pointee(Texts);
        is(Special::Process), ends(Always), needed),
    row!(SYS_execveat, Plain, Text, Pointee(Texts), Pointee(Texts);
        is(Special::Process), ends(Always)),
    row!(SYS_exit; needed),
    row!(SYS_exit_group; ends(Always), needed),
    row!(SYS_wait4, Plain, output(INT), Plain, output(RUSAGE); waits(REPEATED), needed),
    row!(SYS_waitid, Plain, Plain, output(SIGINFO), Plain, output(RUSAGE);
        waits(REPEATED), optional),
    row!(SYS_set_tid_address, output(INT); keeps(Always), brief, needed),
    row!(SYS_set_robust_list, both(ROBUST_LIST_HEAD); keeps(Always), brief, needed),
    row!(SYS_get_robust_list, Plain, output(WORD), output(WORD); optional),
    row!(SYS_rseq, Buffer(Both, Length::Items { count: Int(1), bytes: 1, more: 0 });
        keeps(Always), brief, optional),
    row!(SYS_prctl, Plain, PRCTL_1, PRCTL_2, Plain, PRCTL_4;
        is(PRCTL), keeps(PRCTL_KEEPS), ends(PRCTL_ENDS), needed),
    row!(SYS_ptrace, Plain, Plain, options::PTRACE_ADDRESS, options::PTRACE_DATA;
        ends(ATTACHES), optional),
    row!(SYS_seccomp, Plain, Plain, options::SECCOMP;
        is(Special::By { argument: 0, cases: &[(0, Special::Filter), (1, Special::Filter)] }),
        ends(Always)),
    row!(SYS_unshare; ends(Always)),
    row!(SYS_setns; ends(Always)),
    row!(SYS_personality),
    row!(SYS_pidfd_open),
    row!(SYS_getpid; brief, simple(Direct)),
    row!(SYS_getppid; brief, needed),
    row!(SYS_gettid; brief, simple(Direct), needed),
    row!(SYS_getuid; brief, simple(Direct), needed),
    row!(SYS_geteuid; brief, simple(Direct), needed),
    row!(SYS_getgid; brief, needed),
    row!(SYS_getegid; brief, needed),
    row!(SYS_setuid; ends(Always)),
    row!(SYS_setgid; ends(Always)),
    row!(SYS_setreuid; ends(Always)),
    row!(SYS_setregid; ends(Always)),
    row!(SYS_setresuid; ends(Always)),
    row!(SYS_setresgid; ends(Always)),
    row!(SYS_getresuid, output(INT), output(INT), output(INT)),
    row!(SYS_getresgid, output(INT), output(INT), output(INT)),
    row!(SYS_setfsuid; ends(Always)),
    row!(SYS_setfsgid; ends(Always)),
    row!(SYS_getgroups, Plain, outputs(Int(0), 4)),
    row!(SYS_setgroups, Plain, inputs(Int(0), 4); ends(Always)),
    row!(SYS_getpgid),
    row!(SYS_setpgid; needed),
    row!(SYS_getsid),
    row!(SYS_setsid),
    row!(SYS_capget, both(8), output(24); optional),
    row!(SYS_capset, both(8), input(24); ends(Always)),
    row!(SYS_getpriority),
    row!(SYS_setpriority),
    row!(SYS_getrlimit, Plain, output(RLIMIT); brief),
    row!(SYS_setrlimit, Plain, input(RLIMIT)),
    row!(SYS_prlimit64, Plain, Plain, input(RLIMIT), output(RLIMIT); brief, optional),
    row!(SYS_getrusage, Plain, output(RUSAGE); brief),
    row!(SYS_ioprio_get),
    row!(SYS_ioprio_set),
    row!(SYS_sched_yield; brief),
    row!(SYS_sched_setparam, Plain, input(INT)),
    row!(SYS_sched_getparam, Plain, output(INT)),
    row!(SYS_sched_setscheduler, Plain, Plain, input(INT)),
    row!(SYS_sched_getscheduler),
    row!(SYS_sched_get_priority_max),
    row!(SYS_sched_get_priority_min),
    row!(SYS_sched_rr_get_interval, Plain, output(TIME)),
    row!(SYS_sched_setattr, Plain, SCHED_ATTR),
    row!(SYS_sched_getattr, Plain, outputs(Int(2), 1)),
    row!(SYS_sched_setaffinity, Plain, Plain, inputs(Int(1), 1); optional),
    row!(SYS_sched_getaffinity, Plain, Plain, outputs(Int(1), 1); brief, optional),
    row!(SYS_getcpu, output(INT), output(INT); optional),
    row!(SYS_lsm_get_self_attr, Plain, crate::argument::from_memory(Both, 2), both(INT)),
    row!(SYS_lsm_set_self_attr, Plain, Buffer(Read, LSM)),
    row!(SYS_lsm_list_modules, crate::argument::from_memory(Both, 1), both(INT)),
];

const LSM: Length = Length::Items { count: Int(2), bytes: 1, more: 0 };
