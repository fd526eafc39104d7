//! Threads that work for a pager: the pager thread and fault threads.
//!
//! # Safety
//! Each thread holds a reference to its pager until the thread has ended.
#![allow(unsafe_code)]

use crate::error::fatal;
use crate::pager::Pager;
use crate::process::generation;
use crate::threads::OwnThread;
use crate::{Error, signals};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

/// A thread that was started by this process or by its parent.
#[derive(Debug)]
pub(crate) struct PagerThread {
    thread: JoinHandle<()>,
    generation: u32,
}

impl PagerThread {
    /// Starts a thread that calls `work`, which returns when the thread is requested to end. `what`
    /// describes the thread in the message about a panic. The
    /// thread blocks all signals except those that the C library uses itself, because other threads
    /// may wait until the thread has handled one of these.
    pub(crate) fn start(
        pager: &Arc<Pager>,
        name: &str,
        what: &'static str,
        work: impl FnOnce(&Pager) + Send + 'static,
    ) -> Result<Self, Error> {
        let own = pager.clone();
        let spawned = signals::without_programs_signals(|| {
            Builder::new().name(name.into()).spawn(move || run_counted(what, || work(&own)))
        });
        let thread = spawned.map_err(|error| Error::of_thread(&error))?;
        Ok(PagerThread { thread, generation: generation() })
    }

    /// Returns whether the thread belongs to this process, and not to its parent.
    pub(crate) fn is_here(&self) -> bool {
        self.generation == generation()
    }

    /// Waits for the end of the thread, which was requested to end.
    pub(crate) fn join(self, pager: &Arc<Pager>) {
        if self.is_here() {
            let _panicked = self.thread.join();
        } else {
            // A child of fork lacks the thread, which held a reference to the pager.
            std::mem::forget(self.thread);
            // SAFETY: `start` gave this reference to the thread, which drops it only when it ends.
            // The thread did not end before the fork, because only this function ends the thread's
            // life, and the thread does not run in the child.
            unsafe { Arc::decrement_strong_count(Arc::as_ptr(pager)) };
        }
    }
}

/// Calls `work`, which accesses no managed memory, on a thread of this crate. If `work` panics,
/// aborts the process with a message about `what`.
pub(crate) fn run_counted(what: &str, work: impl FnOnce()) {
    let _counted = OwnThread::begin();
    if catch_unwind(AssertUnwindSafe(work)).is_err() {
        fatal(what, &"it panicked");
    }
}
