//! Threads of a pager: the pager thread, and fault threads, which handle faults of other threads. A
//! faulting thread waits in the kernel, and may hold locks of the program. So fault threads obey
//! the rules of signal handlers (zm-H1).
//!
//! # Safety
//! Each of these threads holds a reference to its pager until the thread has ended.
#![allow(unsafe_code)]

use crate::contexts::Purpose;
use crate::error::refused;
use crate::gate::inside;
use crate::pager::Pager;
use crate::process::generation;
use crate::recent::Toucher;
use crate::threads::run_counted;
use crate::uffd::{Fault, Uffd};
use crate::{Error, fault, signals};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

/// A thread of a pager, started by this process, or by its parent before the fork.
#[derive(Debug)]
pub(crate) struct PagerThread {
    thread: JoinHandle<()>,
    generation: u32,
}

impl PagerThread {
    /// Starts a thread that calls `work`. `what` names the thread in the message about a panic. The
    /// thread blocks all signals except those that the C library uses itself. Other threads may
    /// wait until the new thread has handled such a signal.
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

    /// Returns whether the thread was started by this process, and not by its parent.
    pub(crate) fn is_here(&self) -> bool {
        self.generation == generation()
    }

    /// Waits until the thread has ended. The caller has asked the thread to end.
    pub(crate) fn join(self, pager: &Arc<Pager>) {
        if self.is_here() {
            let _panicked = self.thread.join();
        } else {
            // A child of fork lacks the thread, but still counts the thread's reference to the
            // pager.
            std::mem::forget(self.thread);
            // SAFETY: `start` gave this reference to the thread, which drops it only when it ends.
            // The thread had not ended at the fork, because a thread ends only when the caller of
            // this function has asked it to. The thread does not run in the child.
            unsafe { Arc::decrement_strong_count(Arc::as_ptr(pager)) };
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct FaultThreads {
    threads: Vec<PagerThread>,
    stop: Option<Arc<OwnedFd>>,
}

impl FaultThreads {
    /// Starts the fault threads that the backend needs.
    pub(crate) fn start(pager: &Arc<Pager>) -> Result<Self, Error> {
        let (mut this, count) = (FaultThreads::default(), pager.backend.threads());
        if count == 0 {
            return Ok(this);
        }
        let stop = eventfd(0, EventfdFlags::CLOEXEC);
        let stop = Arc::new(stop.map_err(Error::system("a descriptor to end threads by"))?);
        this.stop = Some(stop.clone());
        for _ in 0..count {
            let stop = stop.clone();
            let answer = move |pager: &Pager| answer_faults(pager, &stop);
            let (name, what) = ("zmem faults", "a thread that answers faults");
            let started = PagerThread::start(pager, name, what, answer);
            let started = started.inspect_err(|_| this.stop(pager))?;
            this.threads.push(started);
        }
        Ok(this)
    }

    /// Asks the fault threads to end, and joins them.
    pub(crate) fn stop(&mut self, pager: &Arc<Pager>) {
        if let Some(stop) = self.stop.take()
            && self.threads.first().is_some_and(PagerThread::is_here)
        {
            let _written = rustix::io::write(&*stop, &1u64.to_ne_bytes());
        }
        self.threads.drain(..).for_each(|thread| thread.join(pager));
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
        let uffd = pager.backend.uffd().ok_or(Errno::NOSYS)?;
        while let Some(fault) = uffd.next_fault()? {
            answer(pager, uffd, fault)?;
        }
        let file = uffd.file()?;
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

fn answer(pager: &Pager, uffd: &Uffd, fault: Fault) -> Result<(), Errno> {
    let (address, toucher) = (fault.address, Toucher::Other(fault.thread));
    let page = page::page_size();
    let start = (address - pager.memory.addresses().start) / page * page;
    inside(|| {
        let mut context = pager.contexts.take(Purpose::Fault);
        let _verdict = fault::handle(pager, address, toucher, context.buffer());
        // The faulting thread must be woken even if the block is already resident. Another thread
        // may have filled the block before the faulting thread began to wait.
        uffd.wake(&pager.memory, start..start + page)
    })
}
