//! The one job that may be under way (X2): what it is, how far it came, and whether it is to go on.

use crate::Error;
use page::fork::Mutex;
use rustix_futex_sync::MutexGuard;
use std::fmt;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// What a job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum JobKind {
    /// Data are compressed again.
    Recompress = 1,
    /// Data leave memory for the backing store.
    WriteBack,
    /// All is saved.
    Save,
    /// What was saved is restored.
    Restore,
}

/// A job that is under way, as it is at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobStat {
    /// What it does.
    pub kind: JobKind,
    /// Slots that are done: of those chosen, or, where `of` is more than 0, all up to this one.
    pub done: u64,
    /// Slots it goes through; 0 if that is not known before.
    pub of: u64,
}

impl fmt::Display for JobKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            JobKind::Recompress => "recompress",
            JobKind::WriteBack => "writeback",
            JobKind::Save => "save",
            JobKind::Restore => "restore",
        })
    }
}

const KIND: u64 = 0x7f;
const CANCELLED: u64 = 0x80;
/// What is above kind and flag.
const NUMBER_SHIFT: u32 = 8;

/// Whether a job is under way.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    /// The number of the last job, and, if it is under way, its [`JobKind`], with `CANCELLED` if it is to end.
    state: AtomicU64,
    done: AtomicU64,
    of: AtomicU64,
    /// Held over no I/O, by a job that has data leave memory.
    leaving: Mutex<()>,
}

/// The only job there is, but for those that were given up.
pub(crate) struct Job<'j> {
    jobs: &'j Jobs,
    number: u64,
}

impl Jobs {
    /// Begins a job that goes through `of` slots, if that is known.
    pub(crate) fn begin(&self, kind: JobKind, of: u64) -> Result<Job<'_>, Error> {
        let next = |state: u64| {
            let number = (state >> NUMBER_SHIFT) + 1;
            (state & KIND == 0).then_some(number << NUMBER_SHIFT | kind as u64)
        };
        let before = self.state.fetch_update(AcqRel, Relaxed, next).map_err(|_| Error::Busy)?;
        self.done.store(0, Relaxed);
        self.of.store(of, Relaxed);
        Ok(Job { jobs: self, number: (before >> NUMBER_SHIFT) + 1 })
    }

    pub(crate) fn stat(&self) -> Option<JobStat> {
        let kinds = [JobKind::Recompress, JobKind::WriteBack, JobKind::Save, JobKind::Restore];
        let under_way = self.state.load(Acquire) & KIND;
        let kind = kinds.into_iter().find(|&kind| kind as u64 == under_way)?;
        Some(JobStat { kind, done: self.done.load(Relaxed), of: self.of.load(Relaxed) })
    }

    /// Has the job that is under way give up.
    pub(crate) fn cancel(&self) {
        let cancelled = |state| (state & KIND != 0).then_some(state | CANCELLED);
        // None is under way, and the next is another.
        let _ = self.state.fetch_update(Relaxed, Relaxed, cancelled);
    }

    /// Has another job begin though the one that was cancelled has not ended; whether it had.
    pub(crate) fn give_up(&self) -> bool {
        let given_up = |state| (state & CANCELLED != 0).then_some(state & !(KIND | CANCELLED));
        let had_ended = self.state.fetch_update(AcqRel, Relaxed, given_up).is_err();
        // Who was at it has what left memory noted now, and none does any more.
        drop(self.leaving.lock());
        had_ended
    }

    pub(crate) fn hold_over_fork(&self) {
        self.leaving.hold();
    }

    pub(crate) fn let_go(&self) {
        self.leaving.let_go();
    }

    /// In a child, which has not got the thread that was at it.
    pub(crate) fn forget(&self) {
        self.leaving.let_go();
        self.state.fetch_and(!(KIND | CANCELLED), Release);
    }
}

impl<'j> Job<'j> {
    /// Notes how far it came.
    ///
    /// # Errors
    /// [`Error::Cancelled`]: it is to go no further.
    pub(crate) fn reached(&self, done: u64) -> Result<(), Error> {
        if self.is_current() {
            self.jobs.done.store(done, Relaxed);
        }
        self.go_on()
    }

    /// Whether it is to go on.
    ///
    /// # Errors
    /// [`Error::Cancelled`]: it is not.
    pub(crate) fn go_on(&self) -> Result<(), Error> {
        let is_cancelled = self.jobs.state.load(Acquire) & CANCELLED != 0;
        if self.is_current() && !is_cancelled { Ok(()) } else { Err(Error::Cancelled) }
    }

    /// Whether it was not given up.
    fn is_current(&self) -> bool {
        let state = self.jobs.state.load(Acquire);
        state & KIND != 0 && state >> NUMBER_SHIFT == self.number
    }

    /// Has data leave memory until this is dropped; `None`, if the job was given up, and nothing may any more.
    pub(crate) fn leaving(&self) -> Option<MutexGuard<'j, ()>> {
        let leaving = self.jobs.leaving.lock();
        self.is_current().then_some(leaving)
    }
}

impl Drop for Job<'_> {
    fn drop(&mut self) {
        let ended = |state: u64| {
            let is_it = state >> NUMBER_SHIFT == self.number;
            is_it.then_some(state & !(KIND | CANCELLED))
        };
        // It was given up, and another may be under way.
        let _ = self.jobs.state.fetch_update(Release, Relaxed, ended);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_cancelled_and_not_the_next() {
        let jobs = Jobs::default();
        jobs.cancel();
        let job = jobs.begin(JobKind::Save, 7).unwrap();
        assert_eq!(job.reached(1), Ok(()), "there was none to cancel");
        jobs.cancel();
        assert_eq!(job.reached(2), Err(Error::Cancelled));
        assert_eq!(jobs.stat(), Some(JobStat { kind: JobKind::Save, done: 2, of: 7 }));
        assert_eq!(jobs.begin(JobKind::Save, 0).err(), Some(Error::Busy));
        drop(job);
        assert_eq!(jobs.stat(), None);
        assert_eq!(jobs.begin(JobKind::Restore, 0).unwrap().reached(1), Ok(()));
    }

    #[test]
    fn a_job_that_is_given_up_ends_no_other() {
        let jobs = Jobs::default();
        let stuck = jobs.begin(JobKind::WriteBack, 0).unwrap();
        assert!(stuck.leaving().is_some());
        jobs.cancel();
        assert!(stuck.leaving().is_some(), "what is durable may leave memory");
        assert!(!jobs.give_up());
        assert!(stuck.leaving().is_none());
        assert_eq!(stuck.go_on(), Err(Error::Cancelled));
        let other = jobs.begin(JobKind::Save, 0).unwrap();
        assert_eq!((stuck.reached(9), other.reached(1)), (Err(Error::Cancelled), Ok(())));
        drop(stuck);
        assert_eq!(jobs.stat(), Some(JobStat { kind: JobKind::Save, done: 1, of: 0 }));
        assert!(jobs.give_up(), "that was not cancelled");
        drop(other);
        assert_eq!(jobs.stat(), None);
    }
}
