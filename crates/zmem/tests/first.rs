//! The first region of a process, created while another thread forks.
#![allow(clippy::unwrap_used)]

use std::sync::Barrier;
use std::thread;
use testkit::child::in_child;
use testkit::scaled;
use zmem::{Options, Region};

const MIB: usize = 1 << 20;

fn use_a_region() {
    let mut region = Region::new(MIB, Options::default()).unwrap();
    region.fill(7);
    assert!(region.iter().all(|&byte| byte == 7));
}

#[test]
fn a_fork_beside_the_first_region_copies_no_lock() {
    for _ in 0..scaled(40, 1000) {
        in_child(|| {
            let start = Barrier::new(2);
            thread::scope(|scope| {
                scope.spawn(|| {
                    start.wait();
                    use_a_region();
                });
                start.wait();
                for _ in 0..4 {
                    in_child(use_a_region);
                }
            });
        });
    }
}
