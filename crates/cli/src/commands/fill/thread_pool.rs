//! Threads that execute the phases of `uzram fill` together.
//!
//! The threads start before memory is measured, and wait between the phases. So only the device
//! causes later growth of the process's memory.

use super::job::{FillJob, Phase};
use super::totals::Totals;
use super::worker::Worker;
use crate::error::Error;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{Builder, Scope, ScopedJoinHandle};

/// The threads, which end when this value is dropped. For each phase, a thread receives the phase,
/// executes it, and then receives `None`.
pub(crate) struct ThreadPool<'scope>(
    Vec<(SyncSender<Option<Phase>>, ScopedJoinHandle<'scope, Totals>)>,
);

impl<'scope> ThreadPool<'scope> {
    /// Starts a thread for each worker.
    pub(crate) fn start<'env>(
        scope: &'scope Scope<'scope, 'env>,
        workers: Vec<Worker>,
        job: &'env FillJob<'env>,
    ) -> Result<Self, Error> {
        let threads = workers.into_iter().enumerate().map(|(nth, mut worker)| {
            // The channel has no buffer, so a send returns when the thread receives the message.
            let (phases, inbox) = sync_channel::<Option<Phase>>(0);
            let work = move || {
                inbox.iter().flatten().for_each(|phase| worker.work_phase(job, phase));
                worker.totals
            };
            let thread = Builder::new().name(format!("uzram-{nth}")).spawn_scoped(scope, work);
            let failed = |error| {
                let nth = nth + 1;
                Error::Failed(format!(
                    "thread {nth} can't be started: {error}; use fewer with --threads"
                ))
            };
            Ok((phases, thread.map_err(failed)?))
        });
        Ok(ThreadPool(threads.collect::<Result<_, Error>>()?))
    }

    /// Executes a phase on all threads, and waits until each thread has executed it.
    pub(crate) fn run(&self, phase: &Phase) -> Result<(), Error> {
        for message in [Some(phase), None] {
            let send = |(phases, _): &(SyncSender<_>, _)| phases.send(message.cloned());
            // A send fails only if the thread has panicked.
            self.0.iter().try_for_each(send).map_err(|_| Error::worker())?;
        }
        Ok(())
    }

    /// Ends the threads, and returns the totals of each thread.
    pub(crate) fn finish(self) -> Result<Vec<Totals>, Error> {
        let (phases, threads): (Vec<_>, Vec<_>) = self.0.into_iter().unzip();
        drop(phases);
        threads.into_iter().map(|thread| thread.join().map_err(|_| Error::worker())).collect()
    }
}
