//! A model of a job that only one thread does at a time, such as the release of retained pages. A
//! thread that finds the job taken leaves the work to the other thread.
#![allow(clippy::unwrap_used)]

use super::model_of;
use crate::sync::JobGuard;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

#[derive(Default)]
struct Job {
    taken: AtomicBool,
    /// The amount of work left.
    left: AtomicUsize,
}

/// Adds work. If no other thread has the job, does all work that is left, as `clear_slot` and
/// `purge_excess` do.
fn add(job: &Job) {
    job.left.fetch_add(1, Relaxed);
    while job.left.load(Relaxed) > 0
        && let Some(_alone) = JobGuard::begin(&job.taken)
    {
        let left = job.left.load(Relaxed);
        job.left.fetch_sub(left, Relaxed);
    }
}

#[test]
fn loom_what_comes_up_during_a_job_is_done() {
    model_of(
        4,
        Job::default,
        |_| (),
        [add, add],
        |_| (),
        |job| {
            assert_eq!(job.left.load(Relaxed), 0, "left undone");
        },
    );
}
