//! Regions are compared with arrays of their expected contents. Each run has a process of its own,
//! with one thread until the run starts another thread.
#![allow(unsafe_code, clippy::unwrap_used)]

use std::panic::{UnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::{Mutex, PoisonError};
use testkit::child::in_child;
use testkit::pager::{Event::*, PagerModel, Setup, *};
use testkit::{Run, replay, run, run_any, scaled, seed};

/// Runs `work` in a child that has enough time to shorten a failing list of events. Only one child
/// runs at a time. If a process forked while another test printed a panic, locks of `std` would
/// stay locked in the child.
fn alone(work: impl FnOnce()) {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    in_child(|| {
        // SAFETY: the call only delays the signal that ends the child.
        unsafe { libc::alarm(scaled(200, 1200) as u32) };
        work();
    });
}

fn of(seed: u64, steps: usize) -> Run {
    Run { seed, steps, first: 20, every: 50 }
}

/// The runs differ in their backend, block size, codec, limit and `Fork`.
#[test]
fn any_region_agrees_with_its_mirror() {
    for nth in 0..scaled(8, 150) as u64 {
        println!("run {nth}");
        alone(|| _ = run_any::<PagerModel>(nth, scaled(160, 1000)));
    }
}

/// With the default options, a run of each backend reaches most code of the pager.
#[test]
fn each_backend_agrees_with_its_mirror() {
    for (nth, backend) in BACKENDS.into_iter().enumerate() {
        println!("{backend:?}");
        alone(|| {
            let setup = Setup { is_copied: true, ..Setup::new(backend, 3 << 20) };
            let Some(report) =
                run::<PagerModel>(setup, of(seed(50 + nth as u64), scaled(250, 10_000)))
            else {
                return println!("left out, as it is not permitted here");
            };
            println!("{report:?}");
            let all = [report.first_touches, report.filled, report.evicted];
            assert!(all.iter().all(|&count| count > 0), "{report:?}");
            assert!(report.in_place == 0 || setup.is_signal(), "{report:?}");
        });
    }
}

#[test]
fn a_block_has_a_largest_number_of_locks() {
    let locks = [LockOften { at: 5000 }, Lock { at: 0, len: 9000 }, LockOften { at: 4096 }];
    alone(|| replay::<PagerModel>(Setup::new(Signal, 3 << 12), &locks));
}

/// Returns events that make a region with the planted fault fail.
fn evicted_and_filled() -> [Event; 2] {
    [Write { at: 0, len: 4096, data: Pieces(1, 256) }, Reclaim { bytes: 4096 }]
}

/// Returns the message of a panic of `work`, and does not print the message.
fn failure(work: impl FnOnce() + UnwindSafe) -> String {
    let hook = take_hook();
    set_hook(Box::new(|_| {}));
    let result = catch_unwind(work);
    set_hook(hook);
    *result.unwrap_err().downcast().unwrap()
}

/// The length of the shortened list of events is not checked. With several threads, a list that
/// failed once can succeed when it is repeated.
#[test]
fn a_planted_fault_is_found() {
    let setup = Setup { has_fault: true, ..Setup::new(Signal, 1 << 20) };
    for nth in 0..scaled(1, 20) as u64 {
        alone(|| {
            let of = of(seed(60 + nth), 300);
            let failure = failure(|| _ = run::<PagerModel>(setup, of));
            assert!(failure.contains(" fails at event "), "{failure}");
        });
    }
    alone(|| {
        replay::<PagerModel>(Setup { has_fault: false, ..setup }, &evicted_and_filled());
        let failure = failure(|| replay::<PagerModel>(setup, &evicted_and_filled()));
        assert!(failure.contains("byte 4095 is 6, not 7"), "{failure}");
    });
}
