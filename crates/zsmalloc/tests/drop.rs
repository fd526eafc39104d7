//! Tests pools that are dropped with objects in them. The test runs alone in its process, so that
//! no other test changes the measured memory.
#![allow(clippy::unwrap_used)]

use std::process::Command;
use zsmalloc::{Columns, Config, EntryPool, Geometry, KernelGeometry, Pool};

const ROUNDS: usize = 200;
const MIB: usize = 1 << 20;
/// The minimum address space in bytes of a process under a sanitizer. Other processes have far less
/// address space.
const SHADOW_MIN: usize = 1 << 40;

/// Returns a value of /proc/self/status in bytes.
fn status(name: &str) -> usize {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap();
    let kib: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib << 10
}

fn config(round: usize) -> Config {
    let kernel = Geometry::Kernel(KernelGeometry::default());
    let geometry = if round.is_multiple_of(2) { Geometry::default() } else { kernel };
    Config { geometry, ..Config::default() }
}

/// Returns a pool of handles and a pool of entries, which contain objects of all sizes (about 5
/// MiB). Some objects were freed.
fn filled(round: usize) -> (Pool, EntryPool) {
    let pool = Pool::new(config(round)).unwrap();
    let core = EntryPool::new(config(round), 2000, Columns::default()).unwrap();
    for nth in 0..1500 {
        let len = 1 + (nth * 997 + round) % 4096;
        let handle = pool.store(&vec![nth as u8; len]).unwrap();
        if nth % 3 == 0 {
            pool.free(handle).unwrap();
        }
        let staged = core.stage(nth as u32, &vec![nth as u8; len]).unwrap();
        core.lock(nth as u32).unwrap().replace(staged, 0);
    }
    assert!(pool.len() == 1000 && pool.pages().used() > 100 && core.pages().used() > 200);
    (pool, core)
}

fn dropped_pools_leave_nothing() {
    // The first rounds cause permanent allocations: those of the allocator itself, and the list of
    // pools for forks.
    (0..4).for_each(|round| drop(filled(round)));
    let before = ["VmSize:", "RssAnon:"].map(status);
    if before[0] > SHADOW_MIN {
        return println!("a sanitizer's own memory is among the figures: they say nothing");
    }
    (0..ROUNDS).for_each(|round| drop(filled(round)));
    let after = ["VmSize:", "RssAnon:"].map(status);
    for (before, after) in before.into_iter().zip(after) {
        assert!(after <= before + 4 * MIB, "{before} -> {after} bytes after {ROUNDS} rounds");
    }
    // Existing pools raise the measured values, so these values would reveal a leak.
    let alive: Vec<_> = (0..8).map(filled).collect();
    let full = ["VmSize:", "RssAnon:"].map(status);
    assert!(full.iter().zip(after).all(|(full, after)| *full > after + 16 * MIB), "{full:?}");
    drop(alive);
}

/// The environment variable that is set in the child that leaks.
const LEAK: &str = "UZRAM_TEST_LEAK";

/// Prints the report that the drop of a pool should print.
fn leak() {
    let pool = Pool::new(Config::default()).unwrap();
    assert_eq!(pool.leak_report(), None);
    let raw: Vec<_> = (0..3).map(|nth| pool.store(&[nth; 9]).unwrap().into_raw()).collect();
    pool.free(zsmalloc::Handle::from_raw(raw[1]).unwrap()).unwrap();
    let report = pool.leak_report().unwrap();
    assert!(report.contains("2 objects"), "{report}");
    let named = |raw: &u64| report.split_whitespace().any(|word| word == format!("{raw:#x}"));
    assert_eq!([0, 1, 2].map(|nth| named(&raw[nth])), [true, false, true], "{report}");
    pool.free(zsmalloc::Handle::from_raw(raw[0]).unwrap()).unwrap();
    println!("<{}>", pool.leak_report().unwrap());
    drop(pool);
    drop(Pool::new(Config::default()).unwrap()); // no report is printed for this pool
}

fn a_leak_is_reported() {
    let mut child = Command::new(std::env::current_exe().unwrap());
    let child = child.args(["--nocapture", "--test-threads=1"]).env(LEAK, "1").output().unwrap();
    let (out, err) = (String::from_utf8(child.stdout), String::from_utf8(child.stderr));
    let (out, err) = (out.unwrap(), err.unwrap());
    assert!(child.status.success(), "{out}{err}");
    let report = out.split(['<', '>']).nth(1).unwrap();
    let told = if cfg!(debug_assertions) { format!("zsmalloc: {report}\n") } else { String::new() };
    assert_eq!(err, told);
}

// The file has a single test, so that no other test's memory is counted.
#[test]
fn pools_go_with_their_objects() {
    if std::env::var_os(LEAK).is_some() {
        return leak();
    }
    dropped_pools_leave_nothing();
    a_leak_is_reported();
}
