//! The system calls that the runtime needs, and the effect of a filter that refuses some of these
//! calls (pl-28).

use crate::filter::Answer::{self, Other};
use crate::filter::Filter;
use crate::kernel::{CWD, MADV_GUARD_INSTALL, MADV_GUARD_REMOVE, PAGE};
use crate::own_thread::FLAGS;
use calls::Need;
use dispatch::PR_SET_SYSCALL_USER_DISPATCH;
use libc::{
    MADV_DONTNEED, MAP_ANONYMOUS, MAP_FIXED, MAP_NORESERVE, MAP_PRIVATE, MREMAP_FIXED,
    MREMAP_MAYMOVE, PROT_EXEC, PROT_NONE, PROT_READ, PROT_WRITE, SIG_SETMASK,
};
use std::ffi::c_int;

/// The size of a signal mask in bytes.
const MASK_BYTES: usize = size_of::<u64>();
/// `madvise` values that the runtime uses for blocks. The runtime works even if calls with these
/// values fail.
const HINTS: [c_int; 4] =
    [libc::MADV_COLD, libc::MADV_POPULATE_WRITE, libc::MADV_HUGEPAGE, libc::MADV_NOHUGEPAGE];
/// The options of `prctl` that a host needs.
const OPTIONS: [c_int; 9] = [
    PR_SET_SYSCALL_USER_DISPATCH as c_int,
    libc::PR_CAPBSET_READ,
    libc::PR_GET_MDWE,
    libc::PR_GET_NAME,
    libc::PR_GET_NO_NEW_PRIVS,
    libc::PR_GET_SECCOMP,
    libc::PR_SET_MM,
    libc::PR_SET_NAME,
    libc::PR_SET_PDEATHSIG,
];
/// The calls that append a line to a file.
const OF_REPORTS: [(i64, [usize; 6]); 3] = [
    (libc::SYS_openat, [CWD, 0, APPENDED, 0, 0, 0]),
    (libc::SYS_write, [0; 6]),
    (libc::SYS_close, [0; 6]),
];
const APPENDED: usize = (libc::O_WRONLY | libc::O_APPEND | libc::O_CLOEXEC) as usize;
/// Calls that may fail, because the runtime has alternatives. The first call queries mappings
/// (PROCMAP_QUERY), and the second call permits a tracer.
const OTHERS: [(i64, [usize; 6]); 2] = [
    (libc::SYS_ioctl, [0, 0xc068_6611, 0, 0, 0, 0]),
    (libc::SYS_prctl, [libc::PR_SET_PTRACER as usize, 1, 0, 0, 0, 0]),
];

/// The effect on the runtime of a filter or another restriction of system calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    None,
    /// The calls that evict and fill blocks are allowed, but some other calls of the runtime are
    /// not. `executes` is true if the process is allowed to execute programs, and `reports` if it
    /// is allowed to append to a file.
    Confines {
        executes: bool,
        reports: bool,
    },
    Refuses,
}

impl Effect {
    /// Returns the effect of a filter, or `None` if the filter is invalid.
    pub(crate) fn of(filter: &Filter) -> Option<Self> {
        let answers = |calls: &[(i64, [usize; 6])]| {
            let answers = calls.iter().map(|(number, args)| filter.answer(*number, *args));
            answers.collect::<Option<Vec<Answer>>>()
        };
        let are_allowed = |answers: &[Answer]| answers.iter().all(|it| *it == Answer::Allowed);
        if !are_allowed(&answers(&of_blocks())?) || answers(&HINTS.map(advice))?.contains(&Other) {
            return Some(Effect::Refuses);
        }
        let any = |number: i64| (number, [0; 6]);
        let of_need = |need| {
            let specs = calls::specs().filter(move |spec| spec.need == need);
            specs.map(|spec| any(spec.number as i64)).collect::<Vec<_>>()
        };
        let needed = [of_need(Need::Needed), of_hosts()].concat();
        let optional = answers(&[&of_need(Need::Optional)[..], &OTHERS].concat())?;
        Some(match are_allowed(&answers(&needed)?) && !optional.contains(&Other) {
            true => Effect::None,
            false => Effect::Confines {
                executes: are_allowed(&answers(&[any(libc::SYS_execve)])?),
                reports: are_allowed(&answers(&OF_REPORTS)?),
            },
        })
    }
}

/// Returns the calls that a host (the program that loads the runtime) needs, with the arguments
/// that filters check. Among these calls are those that map the host, write its stubs, and create
/// and prepare a helper or a thread of the runtime.
fn of_hosts() -> Vec<(i64, [usize; 6])> {
    let code = (PROT_READ | PROT_EXEC) as usize;
    let mapped = [
        (libc::SYS_mmap, [0, PAGE, code, MAP_PRIVATE as usize, 0, 0]),
        (libc::SYS_mprotect, [PAGE, PAGE, code, 0, 0, 0]),
    ];
    let open =
        |flags: c_int| (libc::SYS_openat, [CWD, 0, (flags | libc::O_CLOEXEC) as usize, 0, 0, 0]);
    let clone = |flags: c_int| (libc::SYS_clone, [flags as usize, 0, 0, 0, 0, 0]);
    let option = |option: c_int| (libc::SYS_prctl, [option as usize, 1, 0, 0, 0, 0]);
    let fcntl = |command: c_int| (libc::SYS_fcntl, [0, command as usize, 0, 0, 0, 0]);
    let opened = [libc::O_RDONLY, libc::O_WRONLY, libc::O_RDWR].map(open);
    let made = [FLAGS, inject::HELPER_FLAGS, libc::SIGCHLD].map(clone);
    let options = OPTIONS.map(option);
    let descriptors = [libc::F_DUPFD_CLOEXEC, libc::F_GETFD, libc::F_SETFD].map(fcntl);
    [&mapped[..], &opened, &made, &options, &descriptors, &OF_REPORTS].concat()
}

fn advice(advice: c_int) -> (i64, [usize; 6]) {
    (libc::SYS_madvise, [PAGE, PAGE, advice as usize, 0, 0, 0])
}

/// Returns the system calls that a process with one thread needs to evict and fill blocks, and to
/// handle signals.
fn of_blocks() -> [(i64, [usize; 6]); 14] {
    let block = PAGE;
    let mapped = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;
    let map = |prot: c_int| [block, PAGE, prot as usize, mapped as usize, usize::MAX, 0];
    let moved = (MREMAP_MAYMOVE | MREMAP_FIXED) as usize;
    let both = PROT_READ | PROT_WRITE;
    [
        (libc::SYS_mmap, map(both)),
        (libc::SYS_mmap, map(PROT_NONE)),
        (libc::SYS_munmap, [block, PAGE, 0, 0, 0, 0]),
        (libc::SYS_mprotect, [block, PAGE, both as usize, 0, 0, 0]),
        (libc::SYS_mremap, [block, PAGE, PAGE, moved, block + PAGE, 0]),
        advice(MADV_DONTNEED),
        advice(MADV_GUARD_INSTALL),
        advice(MADV_GUARD_REMOVE),
        (libc::SYS_futex, [block, libc::FUTEX_WAKE as usize, 1, 0, 0, 0]),
        (libc::SYS_rt_sigprocmask, [SIG_SETMASK as usize, block, 0, MASK_BYTES, 0, 0]),
        (libc::SYS_rt_sigreturn, [0; 6]),
        (libc::SYS_sched_yield, [0; 6]),
        (libc::SYS_getpid, [0; 6]),
        (libc::SYS_rt_sigaction, [libc::SIGSEGV as usize, block, 0, MASK_BYTES, 0, 0]),
    ]
}
