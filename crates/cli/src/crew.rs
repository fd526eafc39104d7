//! Threads that go through the phases of a job together.
//!
//! They are started before memory is measured and wait between the phases, so that what the process holds
//! more afterwards is the device's.

use crate::error::Error;
use crate::job::{Job, Order};
use crate::tally::Tally;
use crate::worker::Worker;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, Scope, ScopedJoinHandle};

/// The threads of a job. They end when this is dropped.
pub(crate) struct Crew<'scope>(Vec<Member<'scope>>);

struct Member<'scope> {
    orders: Sender<Order>,
    done: Receiver<()>,
    thread: ScopedJoinHandle<'scope, Tally>,
}

impl<'scope> Crew<'scope> {
    /// Starts a thread for each worker.
    pub(crate) fn start<'env>(
        scope: &'scope Scope<'scope, 'env>,
        workers: Vec<Worker>,
        job: &'env Job<'env>,
    ) -> Result<Self, Error> {
        let members = workers.into_iter().enumerate().map(|(nth, mut worker)| {
            let (orders, inbox) = channel();
            let (outbox, done) = channel();
            let work = move || {
                for order in inbox {
                    worker.obey(job, order);
                    if outbox.send(()).is_err() {
                        break;
                    }
                }
                worker.into_tally()
            };
            let name = format!("uzram-{nth}");
            let thread = Builder::new().name(name).spawn_scoped(scope, work);
            let thread = thread.map_err(|source| Error::Thread { nth: nth + 1, source })?;
            Ok(Member { orders, done, thread })
        });
        Ok(Crew(members.collect::<Result<_, Error>>()?))
    }

    /// Has all threads do one phase, and waits for them.
    pub(crate) fn run(&self, order: &Order) -> Result<(), Error> {
        // Who does not answer has panicked.
        let sent: Vec<bool> =
            self.0.iter().map(|member| member.orders.send(order.clone()).is_ok()).collect();
        let answered: Vec<bool> = self.0.iter().map(|member| member.done.recv().is_ok()).collect();
        let all = sent.iter().chain(&answered).all(|&ok| ok);
        if all { Ok(()) } else { Err(Error::Worker) }
    }

    /// Ends the threads; their figures come back.
    pub(crate) fn finish(self) -> Result<Vec<Tally>, Error> {
        self.0
            .into_iter()
            .map(|member| {
                drop(member.orders);
                member.thread.join().map_err(|_| Error::Worker)
            })
            .collect()
    }
}
