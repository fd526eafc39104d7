//! System calls on processes, threads, users and scheduling.

use super::files::file;
use super::trial::{Case, Need, Trial, must, raw};
use libc::*;

/// Returns the id of a child that has exited and was not waited for.
fn ended() -> usize {
    // SAFETY: the child makes only system calls, and exits at once.
    unsafe {
        let child = fork();
        if child == 0 {
            _exit(0);
        }
        child as usize
    }
}

fn program(trial: &mut Trial) -> (usize, usize) {
    let (first, second, variable) = (trial.text("a"), trial.text("bc"), trial.text("A=b"));
    (trial.words(&[first, second, 0]), trial.words(&[variable, 0]))
}

/// Returns a `sched_attr` in which only the size is set, so that the call changes no attribute.
fn attributes(trial: &mut Trial) -> usize {
    let mut attributes = [0; 12];
    attributes[0] = 48;
    trial.ints(&attributes)
}

/// Returns the capabilities of the process.
fn capabilities() -> [u8; 24] {
    let header = [0x2008_0522_u32, 0];
    let mut data = [0; 24];
    must(SYS_capget, &[header.as_ptr() as usize, data.as_mut_ptr() as usize]);
    data
}

const VERSION: [i32; 2] = [0x2008_0522, 0];
const CURRENT: [u8; 4] = [0; 4];
/// LSM_ATTR_CURRENT.
const LSM_CURRENT: usize = 100;
/// The size and the signature with which the C library registers `rseq`. RSEQ_FLAG_UNREGISTER ends
/// the registration.
const RSEQ: usize = 32;
const RSEQ_SIGNATURE: usize = 0x5305_3053;
const RSEQ_END: usize = 1;

/// Unregisters the C library's `rseq` of this thread. Returns true if no `rseq` is registered
/// afterwards.
fn end_rseq() -> bool {
    // SAFETY: the name is a C string. If the symbol exists, it refers to a number that is always
    // readable.
    let offset = unsafe {
        let offset: *const isize = dlsym(RTLD_DEFAULT, c"__rseq_offset".as_ptr()).cast();
        offset.as_ref().copied()
    };
    let (Some(offset), mut thread) = (offset, 0_usize) else { return true };
    // ARCH_GET_FS.
    must(SYS_arch_prctl, &[0x1003, &raw mut thread as usize]);
    let area = thread.wrapping_add_signed(offset);
    raw(SYS_rseq, &[area, RSEQ, RSEQ_END, RSEQ_SIGNATURE]) == 0
}

const PIDFD: usize = CLONE_PIDFD as usize;

/// Returns a filter of one instruction that allows all calls.
fn filter(trial: &mut Trial) -> usize {
    must(SYS_prctl, &[PR_SET_NO_NEW_PRIVS as usize, 1, 0, 0, 0]);
    let allow = trial.input(&[6, 0, 0, 0, 0, 0, 0xff, 0x7f]);
    trial.words(&[1, allow])
}

/// Returns `clone_args`: the flags, the address for the descriptor, the address of the child's ids
/// and the number of these ids.
fn clone_arguments(trial: &mut Trial, [flags, pidfd, numbers, count]: [usize; 4]) -> usize {
    trial.words(&[flags, pidfd, 0, 0, SIGCHLD as usize, 0, 0, 0, numbers, count, 0])
}

pub const CASES: &[Case] = &[
    ("clone", |t| {
        let number = t.output(4);
        vec![PIDFD | SIGCHLD as usize, 0, number, t.room(4, Need::Maybe)]
    }),
    ("clone3", |t| {
        let pidfd = t.output(4);
        vec![clone_arguments(t, [PIDFD, pidfd, 0, 0]), 88]
    }),
    ("clone3 set_tid", |t| {
        let numbers = t.ints(&[1]);
        vec![clone_arguments(t, [0, 0, numbers, 1]), 88]
    }),
    ("execve", |t| {
        let path = format!("/proc/self/fd/{}", file(b"no program"));
        let path = t.text(&path);
        let (arguments, environment) = program(t);
        vec![path, arguments, environment]
    }),
    ("execveat", |t| {
        let (file, path) = (file(b"no program"), t.text(""));
        let (arguments, environment) = program(t);
        vec![file, path, arguments, environment, AT_EMPTY_PATH as usize]
    }),
    ("wait4", |t| vec![ended(), t.output(4), 0, t.output(144)]),
    ("waitid", |t| {
        vec![P_PID as usize, ended(), t.room(128, Need::Part), WEXITED as usize, t.output(144)]
    }),
    ("set_tid_address", |t| vec![t.room(4, Need::Maybe)]),
    ("set_robust_list", |t| vec![t.room(24, Need::Maybe), 24]),
    ("get_robust_list", |t| vec![0, t.output(8), t.output(8)]),
    ("rseq", |t| {
        if !end_rseq() {
            return t.leave_out();
        }
        // The kernel writes to the area whenever the thread resumes.
        let area = t.room(RSEQ, Need::Maybe);
        t.after(move || _ = must(SYS_rseq, &[area, RSEQ, RSEQ_END, RSEQ_SIGNATURE]));
        vec![area, RSEQ, 0, RSEQ_SIGNATURE]
    }),
    ("prctl PR_SET_NAME", |t| vec![PR_SET_NAME as usize, t.text("name")]),
    ("prctl PR_GET_NAME", |t| vec![PR_GET_NAME as usize, t.output(16)]),
    ("prctl PR_GET_PDEATHSIG", |t| vec![PR_GET_PDEATHSIG as usize, t.output(4)]),
    ("prctl PR_GET_CHILD_SUBREAPER", |t| vec![PR_GET_CHILD_SUBREAPER as usize, t.output(4)]),
    ("prctl PR_GET_TSC", |t| vec![PR_GET_TSC as usize, t.output(4)]),
    ("prctl PR_GET_TID_ADDRESS", |t| vec![40, t.output(8)]),
    ("prctl PR_GET_AUXV", |t| vec![0x4155_5856, t.output(16), 16]),
    ("prctl PR_SET_SECCOMP", |t| vec![PR_SET_SECCOMP as usize, 2, filter(t)]),
    ("prctl PR_SET_VMA", |t| {
        // SAFETY: this creates a private mapping at an address that the kernel chooses, so it
        // replaces no memory.
        let page = unsafe {
            let flags = MAP_PRIVATE | MAP_ANONYMOUS;
            mmap(std::ptr::null_mut(), 4096, PROT_READ, flags, -1, 0)
        };
        // Some kernels do not support names of mappings.
        vec![0x5356_4d41, 0, page as usize, 4096, t.place(b"name\0", Need::Maybe)]
    }),
    ("prctl PR_SET_MM_MAP_SIZE", |t| vec![35, 15, t.output(4), 0, 0]),
    ("arch_prctl ARCH_GET_FS", |t| vec![0x1003, t.output(8)]),
    ("arch_prctl ARCH_GET_GS", |t| vec![0x1004, t.output(8)]),
    ("arch_prctl ARCH_GET_XCOMP_SUPP", |t| vec![0x1021, t.output(8)]),
    ("modify_ldt", |t| vec![2, t.output(16), 16]),
    ("seccomp SET_MODE_FILTER", |t| vec![1, 0, filter(t)]),
    ("seccomp GET_ACTION_AVAIL", |t| vec![2, 0, t.zeros(4)]),
    ("seccomp GET_NOTIF_SIZES", |t| vec![3, 0, t.output(6)]),
    ("getresuid", |t| vec![t.output(4), t.output(4), t.output(4)]),
    ("getresgid", |t| vec![t.output(4), t.output(4), t.output(4)]),
    ("setgroups", |t| vec![1, t.zeros(4)]),
    ("getgroups", |t| {
        let answer = raw(SYS_setgroups, &[1, CURRENT.as_ptr() as usize]);
        if answer < 0 {
            return t.leave_out();
        }
        vec![1, t.output(4)]
    }),
    ("capget", |t| vec![t.ints(&VERSION), t.output(24)]),
    ("capset", |t| vec![t.ints(&VERSION), t.input(&capabilities())]),
    ("getrlimit", |t| vec![RLIMIT_CORE as usize, t.output(16)]),
    ("setrlimit", |t| vec![RLIMIT_CORE as usize, t.zeros(16)]),
    ("prlimit64", |t| vec![0, RLIMIT_CORE as usize, t.zeros(16), t.output(16)]),
    ("getrusage", |t| vec![0, t.output(144)]),
    ("sched_setparam", |t| vec![0, t.zeros(4)]),
    ("sched_getparam", |t| vec![0, t.output(4)]),
    ("sched_setscheduler", |t| vec![0, 0, t.zeros(4)]),
    ("sched_rr_get_interval", |t| vec![0, t.output(16)]),
    ("sched_setattr", |t| vec![0, attributes(t), 0]),
    ("sched_getattr", |t| vec![0, t.output(48), 48, 0]),
    ("sched_setaffinity", |t| vec![0, 8, t.input(&[0xff; 8])]),
    ("sched_getaffinity", |t| vec![0, 8, t.output(8)]),
    ("getcpu", |t| vec![t.output(4), t.output(4), 0]),
    ("lsm_get_self_attr", |t| vec![LSM_CURRENT, t.room(256, Need::Maybe), t.ints(&[256]), 0]),
    // With LSM_FLAG_SINGLE, the kernel expects the number of a module in the structure, which
    // contains none.
    ("lsm_get_self_attr single", |t| vec![LSM_CURRENT, t.zeros(32), t.ints(&[32]), 1]),
    // The length field of the attribute is shorter than the attribute's header.
    ("lsm_set_self_attr", |t| vec![LSM_CURRENT, t.zeros(32), 32, 0]),
    ("lsm_list_modules", |t| vec![t.room(256, Need::Maybe), t.ints(&[256]), 0]),
];
