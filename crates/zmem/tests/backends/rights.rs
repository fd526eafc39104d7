//! A region needs no right: as user nobody, under a filter that refuses what containers refuse.

use crate::{MIB, turn};
use testkit::child::in_child;
use zmem::{BackendKind, Error, Options, Region};

const NOBODY: u32 = 65_534;

/// Calls that a container's filter refuses, or that would be a right.
const REFUSED: [i64; 9] = [
    libc::SYS_userfaultfd,
    libc::SYS_process_madvise,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_mbind,
    libc::SYS_io_uring_setup,
    libc::SYS_ptrace,
    libc::SYS_perf_event_open,
    libc::SYS_bpf,
];

/// Has this process be nobody's, and refuses it those calls.
pub(crate) fn give_up_rights() {
    // SAFETY: they change this process alone, and `program` stays where it is for the last call.
    unsafe {
        if libc::getuid() == 0 {
            assert_eq!(libc::setgroups(0, std::ptr::null()), 0);
            assert_eq!(libc::setgid(NOBODY), 0);
            assert_eq!(libc::setuid(NOBODY), 0);
            // As of a program that nobody started: it may look at its own memory.
            assert_eq!(libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0), 0);
        }
        let statement =
            |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
        let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
        let mut filter = vec![statement(load, 0)];
        for call in REFUSED {
            let equal = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
            filter.push(libc::sock_filter { code: equal, jt: 0, jf: 1, k: call as u32 });
            let refused = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
            filter.push(statement(libc::BPF_RET | libc::BPF_K, refused));
        }
        filter.push(statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW));
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_MODE_FILTER;
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program), 0);
        assert_eq!(libc::syscall(libc::SYS_userfaultfd, 1), -1);
    }
}

/// A region of this backend keeps its data, and its limit to so many per cent.
fn check(backend: &str, most: u64) {
    const LIMIT: u64 = 8 * MIB as u64;
    let options = Options { limit: Some(LIMIT), ..Options::default() };
    let mut region = Region::new(24 * MIB, options).unwrap();
    assert_eq!(region.stats().backend, backend, "{}", region.stats().backend_reason);
    for (nth, page) in region.chunks_mut(4096).enumerate() {
        page[..8].copy_from_slice(&nth.to_le_bytes());
    }
    let verify = |region: &Region| {
        let mut pages = region.chunks(4096).enumerate();
        assert!(pages.all(|(nth, page)| page[..8] == nth.to_le_bytes()));
    };
    verify(&region);
    in_child(|| verify(&region));
    let stats = region.stats();
    assert!(stats.filled > 0 && stats.held_max <= LIMIT / 100 * most, "{stats:?}");
    region.check();
}

#[test]
fn a_region_needs_no_right() {
    let _turn = turn();
    in_child(|| {
        give_up_rights();
        for backend in [BackendKind::Userfaultfd, BackendKind::UserfaultfdSigbus] {
            let refused = Region::new(MIB, Options { backend, ..Options::default() });
            assert!(matches!(refused, Err(Error::Userfaultfd { .. })), "{refused:?}");
        }
        check("signal", 105);
    });
}

/// A process that may not be looked at may not look at its own memory either.
#[test]
fn a_region_needs_no_look_at_memory_by_file() {
    let _turn = turn();
    in_child(|| {
        give_up_rights();
        // SAFETY: they change this process alone; what it has open is of no use to it.
        unsafe {
            libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
            libc::close_range(3, u32::MAX, 0);
        }
        assert!(std::fs::File::open("/proc/self/mem").is_err());
        // Eviction may lag behind: it takes a mapping for each run.
        check("signal-remap", 125);
    });
}
