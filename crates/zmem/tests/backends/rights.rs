//! A region needs no privileges. The user `nobody` can use a region, even under a filter that
//! refuses the system calls that containers refuse.

use crate::{MIB, turn};
use testkit::child::in_child;
use testkit::rights;
use zmem::{BackendKind, Error, Options, Region};

/// Further system calls that the filter refuses, because older containers refuse them or they need
/// privileges.
const REFUSED: [i64; 3] =
    [libc::SYS_process_vm_readv, libc::SYS_process_vm_writev, libc::SYS_ptrace];

/// Changes the user of this process to `nobody`, and installs the filter.
pub(crate) fn give_up_rights() {
    rights::give_up(&REFUSED);
}

/// Checks that a region keeps its data, and that the region's backend is `backend`. Also checks
/// that the held memory never exceeds `most` per cent of the limit.
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

/// A process that is not dumpable can't open the file of its own memory, and uses another backend.
#[test]
fn a_region_needs_no_look_at_memory_by_file() {
    let _turn = turn();
    in_child(|| {
        give_up_rights();
        // SAFETY: the calls change only this process, which needs none of its descriptors.
        unsafe {
            libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
            libc::close_range(3, u32::MAX, 0);
        }
        assert!(std::fs::File::open("/proc/self/mem").is_err());
        // Eviction with this backend is slow, so the held memory can exceed the limit for a time.
        check("signal-remap", 125);
    });
}
