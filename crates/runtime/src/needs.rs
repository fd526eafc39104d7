//! System calls that the runtime needs, and the effect of a filter that refuses some (pl-28).

use crate::filter::Answer::{self, Other};
use crate::filter::Filter;
use libc::{
    CLONE_FILES, CLONE_FS, CLONE_SETTLS, CLONE_SIGHAND, CLONE_THREAD, CLONE_VM, MADV_DONTNEED,
    MAP_ANONYMOUS, MAP_FIXED, MAP_NORESERVE, MAP_PRIVATE, MREMAP_FIXED, MREMAP_MAYMOVE, PROT_EXEC,
    PROT_NONE, PROT_READ, PROT_WRITE, SIG_SETMASK,
};
use std::ffi::c_int;

const PAGE: usize = 4096;
/// Bytes of a mask of signals.
const MASK_BYTES: usize = 8;
/// Other calls of the runtime, of its thread, and of a host that begins.
const NEEDED: [i64; 54] = [
    libc::SYS_access,
    libc::SYS_brk,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_close,
    libc::SYS_dup2,
    libc::SYS_execve,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_faccessat,
    libc::SYS_fcntl,
    libc::SYS_fgetxattr,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_futex,
    libc::SYS_getdents64,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getpgrp,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getrandom,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_kill,
    libc::SYS_lseek,
    libc::SYS_madvise,
    libc::SYS_mincore,
    libc::SYS_munlock,
    libc::SYS_nanosleep,
    libc::SYS_newfstatat,
    libc::SYS_open,
    libc::SYS_openat,
    libc::SYS_poll,
    libc::SYS_prctl,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_read,
    libc::SYS_readlink,
    libc::SYS_readlinkat,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_setpgid,
    libc::SYS_sigaltstack,
    libc::SYS_tgkill,
    libc::SYS_uname,
    libc::SYS_wait4,
    libc::SYS_write,
];
/// Calls for whose errors the runtime has another way.
const OPTIONAL: [i64; 19] = [
    libc::SYS_arch_prctl,
    libc::SYS_capget,
    libc::SYS_clone3,
    libc::SYS_close_range,
    libc::SYS_faccessat2,
    libc::SYS_get_robust_list,
    libc::SYS_getcpu,
    libc::SYS_prlimit64,
    libc::SYS_process_madvise,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_rseq,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_statx,
    libc::SYS_sysinfo,
    libc::SYS_userfaultfd,
    libc::SYS_waitid,
];
const MADV_GUARD_INSTALL: c_int = 102;
const MADV_GUARD_REMOVE: c_int = 103;
/// Advice about blocks that the kernel may refuse.
const HINTS: [c_int; 4] =
    [libc::MADV_COLD, libc::MADV_POPULATE_WRITE, libc::MADV_HUGEPAGE, libc::MADV_NOHUGEPAGE];
/// The flags of a thread's `clone`.
const THREAD: c_int =
    CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SETTLS;
/// PR_SET_SYSCALL_USER_DISPATCH.
pub(crate) const SET_DISPATCH: usize = 59;

/// The effect of a restriction on the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    None,
    /// Blocks are evicted and filled. The flag says whether the process may execute programs.
    Confines(bool),
    Refuses,
}

impl Effect {
    /// Returns the effect of a filter, if it is sound.
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
        let needed = [&NEEDED.map(any)[..], &of_hosts()].concat();
        let optional = answers(&OPTIONAL.map(any))?;
        Some(match are_allowed(&answers(&needed)?) && !optional.contains(&Other) {
            true => Effect::None,
            false => Effect::Confines(filter.answer(libc::SYS_execve, [0; 6])? == Answer::Allowed),
        })
    }
}

/// Returns calls that map a host and make a thread of the runtime.
fn of_hosts() -> [(i64, [usize; 6]); 4] {
    let code = (PROT_READ | PROT_EXEC) as usize;
    [
        (libc::SYS_mmap, [0, PAGE, code, MAP_PRIVATE as usize, 0, 0]),
        (libc::SYS_mprotect, [PAGE, PAGE, code, 0, 0, 0]),
        (libc::SYS_clone, [THREAD as usize, 0, 0, 0, 0, 0]),
        (libc::SYS_prctl, [SET_DISPATCH, 1, 0, 0, 0, 0]),
    ]
}

fn advice(advice: c_int) -> (i64, [usize; 6]) {
    (libc::SYS_madvise, [PAGE, PAGE, advice as usize, 0, 0, 0])
}

/// Returns calls by which the memory of a process of one thread is evicted and brought back, and
/// signals are answered.
fn of_blocks() -> [(i64, [usize; 6]); 12] {
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
    ]
}
