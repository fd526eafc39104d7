//! Threads that handle the faults of other threads, which wait in the kernel. The fault threads
//! obey the rules for a signal handler (zm-H1), because a waiting thread may hold any lock.

use crate::contexts::Purpose;
use crate::error::refused;
use crate::gate::GATE;
use crate::pager::Pager;
use crate::pager_thread::PagerThread;
use crate::recent::Toucher;
use crate::uffd::{Fault, Uffd};
use crate::{Error, fault, signals};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::sync::Arc;

#[derive(Debug, Default)]
pub(crate) struct FaultThreads {
    threads: Vec<PagerThread>,
    stop: Option<Arc<OwnedFd>>,
}

impl FaultThreads {
    /// Starts the number of threads that the backend needs.
    pub(crate) fn start(pager: &Arc<Pager>) -> Result<Self, Error> {
        let mut this = FaultThreads::default();
        for _ in 0..pager.backend.threads() {
            let refused = Error::system("a descriptor to end threads by");
            let stop = match &this.stop {
                Some(stop) => stop.clone(),
                None => Arc::new(eventfd(0, EventfdFlags::CLOEXEC).map_err(refused)?),
            };
            this.stop = Some(stop.clone());
            let answer = move |pager: &Pager| answer_faults(pager, &stop);
            match PagerThread::start(pager, "zmem faults", "a thread that answers faults", answer) {
                Ok(thread) => this.threads.push(thread),
                Err(error) => {
                    this.stop(pager);
                    return Err(error);
                }
            }
        }
        Ok(this)
    }

    /// Stops the threads and joins them, if they belong to this process.
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
    signals::without_signals(|| {
        let _inside = GATE.enter();
        let mut context = pager.contexts.take(Purpose::Fault);
        let _verdict = fault::handle(pager, address, toucher, &mut context);
        // The waiting thread is woken even if the block was resident, because another thread
        // may have filled the block before the waiting thread began to wait.
        uffd.wake(&pager.memory, start..start + page)
    })
}
