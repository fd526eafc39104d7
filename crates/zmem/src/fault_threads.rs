//! Threads that handle the faults of other threads, which wait in the kernel. The fault threads
//! obey the rules for a signal handler (zm-H1), because a waiting thread may hold any lock.
//!
//! # Safety
//! Each fault thread holds a reference to its pager until the thread is stopped. `OwnThread` counts
//! the thread.
#![allow(unsafe_code)]

use crate::Error;
use crate::contexts::Purpose;
use crate::error::{fatal, refused};
use crate::fault;
use crate::gate::GATE;
use crate::pager::Pager;
use crate::process::generation;
use crate::recent::Toucher;
use crate::signals;
use crate::threads::OwnThread;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

#[derive(Debug, Default)]
pub(crate) struct FaultThreads {
    threads: Vec<JoinHandle<()>>,
    stop: Option<Arc<OwnedFd>>,
    generation: u32,
}

impl FaultThreads {
    /// Starts the number of threads that the backend needs.
    pub(crate) fn start(pager: &Arc<Pager>) -> Result<Self, Error> {
        let count = pager.backend.threads();
        let mut this = FaultThreads { generation: generation(), ..Self::default() };
        if count == 0 {
            return Ok(this);
        }
        let refused = Error::system("a descriptor to end threads by");
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).map_err(refused)?);
        this.stop = Some(stop.clone());
        for _ in 0..count {
            let (own, stop) = (pager.clone(), stop.clone());
            // Only the program's signals are blocked, as for the pager thread, because other
            // threads may wait until this thread has handled a signal of the C library.
            let spawned = signals::without_programs_signals(|| {
                Builder::new().name("zmem faults".into()).spawn(move || {
                    let _counted = OwnThread::begin();
                    if catch_unwind(AssertUnwindSafe(|| answer_faults(&own, &stop))).is_err() {
                        fatal("a thread that answers faults", &"it panicked");
                    }
                })
            });
            match spawned {
                Ok(thread) => this.threads.push(thread),
                Err(error) => {
                    this.stop(pager);
                    return Err(Error::of_thread(&error));
                }
            }
        }
        Ok(this)
    }

    /// Stops the threads and joins them, if they belong to this process.
    pub(crate) fn stop(&mut self, pager: &Arc<Pager>) {
        let is_here = self.generation == generation();
        if let Some(stop) = self.stop.take()
            && is_here
        {
            let _told = rustix::io::write(&*stop, &1u64.to_ne_bytes());
        }
        for thread in self.threads.drain(..) {
            if is_here {
                let _panicked = thread.join();
            } else {
                // A child of fork has no such thread to join. The thread owned a reference to the
                // pager.
                std::mem::forget(thread);
                // SAFETY: `start` passed this reference to the thread, which drops it when it is
                // stopped. The thread was not stopped before the fork and does not exist in this
                // process, so the reference was not dropped.
                unsafe { Arc::decrement_strong_count(Arc::as_ptr(pager)) };
            }
        }
    }
}

fn answer_faults(pager: &Pager, stop: &OwnedFd) {
    signals::set_in_handler(true);
    let result = answer_until(pager, stop);
    signals::set_in_handler(false);
    if let Err(errno) = result {
        refused("faults can't be answered (was the descriptor closed?)", errno);
    }
}

fn answer_until(pager: &Pager, stop: &OwnedFd) -> Result<(), Errno> {
    loop {
        while let Some(fault) = pager.backend.next_fault()? {
            answer(pager, fault.address, fault.thread)?;
        }
        let file = pager.backend.file()?;
        let mut files = [PollFd::new(&file, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
        match poll(&mut files, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        if !files[1].revents().is_empty() {
            return Ok(());
        }
        if files[0].revents().contains(PollFlags::NVAL) {
            return Err(Errno::BADF);
        }
    }
}

fn answer(pager: &Pager, address: usize, thread: u32) -> Result<(), Errno> {
    let page = page::page_size();
    let start = (address - pager.memory.addresses().start) / page * page;
    signals::without_signals(|| {
        let _inside = GATE.enter();
        let mut context = pager.contexts.take(Purpose::Fault);
        let _verdict = fault::handle(pager, address, Toucher::Other(thread), &mut context);
        // The waiting thread is woken even if the block was resident, because another thread
        // may have filled the block before the waiting thread began to wait.
        pager.backend.wake(&pager.memory, start..start + page)
    })
}
