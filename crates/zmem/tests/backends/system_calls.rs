//! System calls on memory of a region. If the backend does not report faults of system calls, the
//! memory is locked.

use crate::{MIB, PAGE, for_each_backend, is_answered_by_threads};
use std::fs::File;
use std::io::{Read, Write};
use zmem::{Error, Options, Region};

fn evicted(options: Options) -> Region {
    let mut region = Region::new(4 * MIB, options).unwrap();
    region.fill(1);
    region.reclaim(usize::MAX >> 1);
    region
}

#[test]
fn what_is_locked_stays_and_can_be_given_to_the_kernel() {
    for_each_backend(|backend| {
        let region = evicted(Options { backend, ..Options::default() });
        let mut zeros = File::open("/dev/zero").unwrap();
        let start = region.as_ptr();
        let locked = region.lock(5000..50_000).unwrap();
        region.reclaim(usize::MAX >> 1);
        assert_eq!(region.stats().resident, 12 * 4096);
        // SAFETY: the bytes are in the region, and no other reference to them exists.
        let bytes = unsafe { std::slice::from_raw_parts_mut(start.add(5000), 45_000) };
        zeros.read_exact(bytes).unwrap();
        // SAFETY: no reference to these bytes exists.
        let locked_range = unsafe { region.dont_need_shared(0..MIB) };
        assert_eq!(locked_range, Err(Error::Locked { at: 4096, end: 8192 }));
        drop(locked);
        region.reclaim(usize::MAX >> 1);
        assert_eq!(region.stats().resident, 0);
        assert!(region[5000..50_000].iter().all(|&byte| byte == 0));
        region.check();
    });
}

#[test]
fn a_system_call_on_what_is_absent_fails_or_works_as_is_said() {
    for_each_backend(|backend| {
        let mut region = evicted(Options { backend, ..Options::default() });
        let (mut zeros, mut sink) = (
            File::open("/dev/zero").unwrap(),
            File::options().write(true).open("/dev/null").unwrap(),
        );
        let (mut from, mut to) = std::io::pipe().unwrap();
        let filled = region.stats().filled;
        if is_answered_by_threads(&region) {
            zeros.read_exact(&mut region[5000..50_000]).unwrap();
            to.write_all(&region[MIB..MIB + PAGE]).unwrap();
            let mut found = [0; PAGE];
            from.read_exact(&mut found).unwrap();
            assert_eq!(found, [1; PAGE]);
            assert!(region[5000..50_000].iter().all(|&byte| byte == 0));
            assert!(region.stats().filled > filled);
        } else {
            let refused = zeros.read(&mut region[5000..50_000]).unwrap_err();
            assert_eq!(refused.raw_os_error(), Some(libc::EFAULT));
            let refused = to.write(&region[MIB..MIB + PAGE]).unwrap_err();
            assert_eq!(refused.raw_os_error(), Some(libc::EFAULT));
            assert_eq!(region.stats().filled, filled);
        }
        sink.write_all(b"done").unwrap();
        region.check();
    });
}
