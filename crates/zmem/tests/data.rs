//! `Region::new` fails if the kernel would later refuse to make the region readable and writable.
#![allow(unsafe_code, clippy::unwrap_used)]

use testkit::child::in_child;
use zmem::{Error, Options, Region};

const MIB: usize = 1 << 20;

/// Returns the number of bytes of this process that the kernel counts as data.
fn data() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmData:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

#[test]
fn more_than_may_be_data_is_refused_when_it_is_made() {
    in_child(|| {
        let most = data() + 24 * MIB as u64;
        let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
        // SAFETY: the call changes only a limit of this process.
        unsafe { assert_eq!(libc::setrlimit(libc::RLIMIT_DATA, &limit), 0) };
        let refused = Region::new(64 * MIB, Options::default()).map(drop).unwrap_err();
        assert!(matches!(refused, Error::System { errno: libc::ENOMEM, .. }), "{refused}");
        let mut region = Region::new(MIB, Options::default()).unwrap();
        region.fill(7);
        region.reclaim(MIB);
        assert!(region.iter().all(|&byte| byte == 7));
    });
}
