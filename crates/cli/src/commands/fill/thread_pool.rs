//! Threads that execute the phases of a job together.
//!
//! They are started before memory is measured, and wait between the phases, so that a later growth
//! of the process's memory is caused by the device.

use super::job::{FillJob, Phase};
use super::totals::Totals;
use super::worker::Worker;
use crate::error::Error;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, Scope, ScopedJoinHandle};

/// The threads of a job, which end when this value is dropped.
pub(crate) struct ThreadPool<'scope>(Vec<PoolThread<'scope>>);

struct PoolThread<'scope> {
    phases: Sender<Phase>,
    done: Receiver<()>,
    handle: ScopedJoinHandle<'scope, Totals>,
}

impl<'scope> ThreadPool<'scope> {
    /// Starts a thread for each worker.
    pub(crate) fn start<'env>(
        scope: &'scope Scope<'scope, 'env>,
        workers: Vec<Worker>,
        job: &'env FillJob<'env>,
    ) -> Result<Self, Error> {
        let threads = workers.into_iter().enumerate().map(|(nth, mut worker)| {
            let (phases, inbox) = channel();
            let (outbox, done) = channel();
            let work = move || {
                for phase in inbox {
                    worker.work_phase(job, phase);
                    if outbox.send(()).is_err() {
                        break;
                    }
                }
                worker.into_totals()
            };
            let name = format!("uzram-{nth}");
            let thread = Builder::new().name(name).spawn_scoped(scope, work);
            let thread = thread.map_err(|error| {
                let nth = nth + 1;
                Error::Failed(format!(
                    "thread {nth} can't be started: {error}; use fewer with --threads"
                ))
            })?;
            Ok(PoolThread { phases, done, handle: thread })
        });
        Ok(ThreadPool(threads.collect::<Result<_, Error>>()?))
    }

    /// Executes one phase on all threads and waits for them.
    pub(crate) fn run(&self, phase: &Phase) -> Result<(), Error> {
        // A thread that does not answer has panicked.
        let sent: Vec<bool> =
            self.0.iter().map(|pooled| pooled.phases.send(phase.clone()).is_ok()).collect();
        let answered: Vec<bool> = self.0.iter().map(|pooled| pooled.done.recv().is_ok()).collect();
        let all = sent.iter().chain(&answered).all(|&ok| ok);
        if all { Ok(()) } else { Err(Error::worker()) }
    }

    /// Ends the threads and returns their figures.
    pub(crate) fn finish(self) -> Result<Vec<Totals>, Error> {
        self.0
            .into_iter()
            .map(|pooled| {
                drop(pooled.phases);
                pooled.handle.join().map_err(|_| Error::worker())
            })
            .collect()
    }
}
