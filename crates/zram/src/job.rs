//! The one job that may be under way (zr-X2): what it is, how far it came, and whether it is to go
//! on.

use crate::Error;
use page::fork::Mutex;
use rustix_futex_sync::MutexGuard;
use std::fmt;

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

/// How many objects are damaged, and which came first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DamagedLeft {
    /// Objects of slots or blocks.
    pub count: u64,
    /// The slot of the first one; of a block its first.
    pub first: Option<u64>,
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

/// Whether a job is under way.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    /// Held over no I/O, by a job that has data leave memory. Before the other.
    leaving: Mutex<()>,
    now: Mutex<CurrentJob>,
}

#[derive(Debug, Default)]
struct CurrentJob {
    /// Of the last job that began.
    number: u64,
    /// That one, if it is under way.
    job: Option<JobStat>,
    is_cancelled: bool,
}

/// The only job there is, but for those that were given up.
pub(crate) struct Job<'j> {
    jobs: &'j Jobs,
    number: u64,
}

impl DamagedLeft {
    /// Takes note of one, if that is what an error says; else the job ends with it.
    pub(crate) fn note(&mut self, error: Error, slot: u32) -> Result<(), Error> {
        if !error.is_damage() {
            return Err(error);
        }
        self.count += 1;
        self.first.get_or_insert(slot.into());
        Ok(())
    }

    /// Those of two jobs.
    pub(crate) fn and(self, other: Self) -> Self {
        DamagedLeft { count: self.count + other.count, first: self.first.or(other.first) }
    }

    /// Returns this outcome as an error, for a caller that needs all of it done.
    ///
    /// # Errors
    /// [`Error::Left`]
    pub fn to_result(self) -> Result<(), Error> {
        match self.first {
            Some(slot) => Err(Error::Left { count: self.count, slot }),
            None => Ok(()),
        }
    }
}

impl Jobs {
    /// Begins a job that goes through `of` slots, if that is known.
    pub(crate) fn begin(&self, kind: JobKind, of: u64) -> Result<Job<'_>, Error> {
        let mut now = self.now.lock();
        if now.job.is_some() {
            return Err(Error::Busy);
        }
        let number = now.number + 1;
        *now = CurrentJob { number, job: Some(JobStat { kind, done: 0, of }), is_cancelled: false };
        Ok(Job { jobs: self, number })
    }

    pub(crate) fn stat(&self) -> Option<JobStat> {
        self.now.lock().job
    }

    /// Has the job that is under way give up, and returns whether there is one.
    pub(crate) fn cancel(&self) -> bool {
        let mut now = self.now.lock();
        now.is_cancelled = now.job.is_some();
        now.is_cancelled
    }

    /// Has another job begin though the one that was cancelled has not ended, and returns whether
    /// it had.
    pub(crate) fn give_up(&self) -> bool {
        let mut now = self.now.lock();
        let given_up = if now.is_cancelled { now.job.take() } else { None };
        drop(now);
        // A job that was committing has noted by now what left memory, and no given-up job commits
        // any more.
        drop(self.leaving.lock());
        given_up.is_none()
    }

    pub(crate) fn lock_for_fork(&self) {
        self.leaving.lock_for_fork();
        self.now.lock_for_fork();
    }

    pub(crate) fn unlock_after_fork(&self) {
        self.now.unlock_after_fork();
        self.leaving.unlock_after_fork();
    }

    /// In a child, which has not got the thread that was at it.
    pub(crate) fn abandon_in_child(&self) {
        self.unlock_after_fork();
        self.now.lock().job = None;
    }
}

impl<'j> Job<'j> {
    /// Notes how far it came.
    ///
    /// # Errors
    /// [`Error::Cancelled`]: it is to go no further.
    pub(crate) fn report_progress(&self, done: u64) -> Result<(), Error> {
        self.with(|job, is_cancelled| {
            job.done = done;
            is_cancelled
        })
    }

    /// Whether it is to go on.
    ///
    /// # Errors
    /// [`Error::Cancelled`]: it is not.
    pub(crate) fn check_cancelled(&self) -> Result<(), Error> {
        self.with(|_, is_cancelled| is_cancelled)
    }

    /// Calls `ends` with this job's progress and whether it is cancelled; `ends` returns whether
    /// the job has to end.
    fn with(&self, ends: impl FnOnce(&mut JobStat, bool) -> bool) -> Result<(), Error> {
        let mut now = self.jobs.now.lock();
        let is_cancelled = now.is_cancelled;
        let is_it = now.number == self.number;
        let job = now.job.as_mut().filter(|_| is_it).ok_or(Error::Cancelled)?;
        if ends(job, is_cancelled) { Err(Error::Cancelled) } else { Ok(()) }
    }

    /// Returns whether another may have begun.
    pub(crate) fn is_given_up(&self) -> bool {
        self.with(|_, _| false).is_err()
    }

    /// Has data leave memory until this is dropped; `None`, if the job was given up, and nothing
    /// may any more.
    pub(crate) fn commit_permit(&self) -> Option<MutexGuard<'j, ()>> {
        let leaving = self.jobs.leaving.lock();
        (!self.is_given_up()).then_some(leaving)
    }
}

impl Drop for Job<'_> {
    fn drop(&mut self) {
        let mut now = self.jobs.now.lock();
        if now.number == self.number {
            now.job = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_cancelled_and_not_the_next() {
        let jobs = Jobs::default();
        assert!(!jobs.cancel());
        let job = jobs.begin(JobKind::Save, 7).unwrap();
        assert_eq!(job.report_progress(1), Ok(()), "there was none to cancel");
        jobs.cancel();
        assert_eq!(job.report_progress(2), Err(Error::Cancelled));
        assert_eq!(jobs.stat(), Some(JobStat { kind: JobKind::Save, done: 2, of: 7 }));
        assert_eq!(jobs.begin(JobKind::Save, 0).err(), Some(Error::Busy));
        drop(job);
        assert_eq!(jobs.stat(), None);
        assert_eq!(jobs.begin(JobKind::Restore, 0).unwrap().report_progress(1), Ok(()));
    }

    #[test]
    fn a_job_that_is_given_up_ends_no_other() {
        let jobs = Jobs::default();
        let stuck = jobs.begin(JobKind::WriteBack, 0).unwrap();
        assert!(stuck.commit_permit().is_some());
        jobs.cancel();
        assert!(stuck.commit_permit().is_some(), "what is durable may leave memory");
        assert!(!jobs.give_up());
        assert!(stuck.commit_permit().is_none());
        assert_eq!(stuck.check_cancelled(), Err(Error::Cancelled));
        let other = jobs.begin(JobKind::Save, 0).unwrap();
        assert_eq!(
            (stuck.report_progress(9), other.report_progress(1)),
            (Err(Error::Cancelled), Ok(()))
        );
        drop(stuck);
        assert_eq!(jobs.stat(), Some(JobStat { kind: JobKind::Save, done: 1, of: 0 }));
        assert!(jobs.give_up(), "that was not cancelled");
        drop(other);
        assert_eq!(jobs.stat(), None);
    }
}
