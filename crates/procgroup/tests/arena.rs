//! Tests arenas that share one limit in a group of processes.
//!
//! # Safety
//! Each test has its own arena, and only one thread uses the arena.
#![allow(unsafe_code, clippy::unwrap_used)]

mod support;

use fastrand::Rng;
use support::{MIB, arena, group};
use testkit::arena::defer_stores;
use testkit::child::in_child;
use zmem::Options;

/// The program can write open blocks without a fault, so the pager counts them before the kernel
/// does.
#[test]
fn batches_in_a_group_are_bounded_though_nothing_is_written() {
    let (limit, batch) = (64 * MIB, 64 * 4096);
    let options = Options { limit: Some(limit as u64), ..Options::default() };
    let (arena, _member) = arena(512 * MIB, &options, group());
    // The stride is not a multiple of a batch, so no access is adjacent to the previous access.
    for (nth, at) in arena.addresses().step_by(batch * 3 / 2).enumerate() {
        // SAFETY: the byte is readable and writable, and only this thread uses it.
        unsafe { (at as *mut u8).write_volatile(1) };
        if nth % 16 == 0 {
            arena.weigh_process();
        }
    }
    let (opened, touched) = (arena.stats().first_touches as usize * 4096, 512 * MIB / batch * 4096);
    assert!(opened <= limit / 4 + batch + touched, "{opened}");
    arena.check();
}

/// In another PID namespace, the child's process ID may be the ID of a process in the group. So the
/// child must not use its ID in the group.
#[test]
fn a_child_in_another_space_of_numbers_is_in_no_group() {
    let options = Options { limit: Some(8 * MIB as u64), ..Options::default() };
    let (arena, member) = arena(4 * MIB, &options, group());
    let is_in = || member.figures(&arena).in_tree == 1;
    in_child(|| {
        assert!(is_in());
        // SAFETY: the call changes only the namespaces of this process and its children.
        if unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWPID) } != 0 {
            return println!("left out: no other space of numbers may be made");
        }
        in_child(|| {
            assert!(!is_in());
            in_child(|| assert!(!is_in()));
        });
    });
    assert!(is_in());
}

/// Without a record of failed evictions, each call of a program would try to evict all
/// incompressible blocks.
#[test]
fn what_does_not_compress_is_not_tried_for_each_call() {
    let options = Options { limit: Some(8 * MIB as u64), ..Options::default() };
    let (arena, _member) = arena(12 * MIB, &options, group());
    defer_stores(&arena);
    // SAFETY: the bytes are readable and writable, and only this thread uses them.
    let bytes =
        unsafe { std::slice::from_raw_parts_mut(arena.addresses().start as *mut u8, 12 * MIB) };
    Rng::with_seed(testkit::seed(84)).fill(bytes);
    arena.yield_room(false);
    let before = arena.stats().incompressible;
    (0..300).for_each(|_| arena.yield_room(false));
    let tried = (arena.stats().incompressible - before) as usize;
    assert!(tried < 4 * 12 * MIB / 4096, "{tried}");
    arena.rest();
    arena.check();
}
