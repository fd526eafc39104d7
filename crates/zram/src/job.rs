//! The job of a device: its kind, its progress, and whether it was cancelled. Only one job at a
//! time is allowed (zr-X2).

use crate::Error;
use page::fork::{Mutex, Step};
use rustix_futex_sync::MutexGuard;
use std::fmt;

/// The kind of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum JobKind {
    /// Recompression of cold data.
    Recompress = 1,
    /// Write-back of data to the backing store.
    WriteBack,
    /// A save of the device.
    Save,
    /// A restore of the device from a saved file.
    Restore,
}

/// The state of a job that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobStat {
    /// The kind of the job.
    pub kind: JobKind,
    /// The number of slots up to which the job has processed the device. If `of` is 0, the number
    /// of selected slots and blocks that the job has processed.
    pub done: u64,
    /// The number of slots that the job covers, or 0 if this number is not known beforehand.
    pub of: u64,
}

/// The damaged objects that a job skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DamagedLeft {
    /// The number of damaged objects.
    pub count: u64,
    /// The slot of the first damaged object. For the object of a block, this is the block's first
    /// slot.
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

/// The state of the device's last job, and the locks of jobs.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    /// A job holds this lock while it frees written-back data in memory. A job never holds this
    /// lock during I/O. This lock is taken before the lock of `now`.
    leaving: Mutex<()>,
    now: Mutex<CurrentJob>,
}

#[derive(Debug, Default)]
struct CurrentJob {
    /// The number of the last job that began.
    number: u64,
    /// The state of the last job, or `None` if the last job has ended.
    job: Option<JobStat>,
    is_cancelled: bool,
}

/// The job under way, or an abandoned job that still runs.
pub(crate) struct Job<'j> {
    jobs: &'j Jobs,
    number: u64,
}

impl DamagedLeft {
    /// Counts a damaged object if `error` is an error of damaged data. Otherwise, returns `error`,
    /// which ends the job.
    pub(crate) fn note(&mut self, error: Error, slot: u32) -> Result<(), Error> {
        if !error.is_damage() {
            return Err(error);
        }
        self.count += 1;
        self.first.get_or_insert(slot.into());
        Ok(())
    }

    /// Adds up the damaged objects that two parts of a job skipped.
    pub(crate) fn and(self, other: Self) -> Self {
        DamagedLeft { count: self.count + other.count, first: self.first.or(other.first) }
    }

    /// Returns an error if the job skipped objects, and so has an incomplete result.
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
    /// Begins a job that processes `of` slots, or an unknown number of slots if `of` is 0.
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

    /// Cancels the job under way. Returns true if a job is under way.
    pub(crate) fn cancel(&self) -> bool {
        let mut now = self.now.lock();
        now.is_cancelled = now.job.is_some();
        now.is_cancelled
    }

    /// Abandons a cancelled job that has not ended, so that another job can begin. Returns true if
    /// no job was under way.
    pub(crate) fn give_up(&self) -> bool {
        let mut now = self.now.lock();
        let given_up = if now.is_cancelled { now.job.take() } else { None };
        drop(now);
        // Once this lock is acquired, the job has finished any commit that it had begun. An
        // abandoned job begins no further commit.
        drop(self.leaving.lock());
        given_up.is_none()
    }

    pub(crate) fn at_fork(&self, step: Step) {
        self.leaving.at_fork(step);
        self.now.at_fork(step);
    }

    /// Abandons the job in the child of a fork, in which the job's thread does not exist.
    pub(crate) fn abandon_in_child(&self) {
        self.at_fork(Step::Unlock);
        self.now.lock().job = None;
    }
}

impl<'j> Job<'j> {
    /// Records the job's progress.
    ///
    /// # Errors
    /// [`Error::Cancelled`]: the job was cancelled, and the caller must end it.
    pub(crate) fn report_progress(&self, done: u64) -> Result<(), Error> {
        self.with(|job, is_cancelled| {
            job.done = done;
            is_cancelled
        })
    }

    /// Checks that the job was not cancelled.
    ///
    /// # Errors
    /// [`Error::Cancelled`]: the job was cancelled, and the caller must end it.
    pub(crate) fn check_cancelled(&self) -> Result<(), Error> {
        self.with(|_, is_cancelled| is_cancelled)
    }

    /// Calls `ends` with this job's progress, and with whether the job is cancelled. If `ends`
    /// returns true, returns [`Error::Cancelled`].
    fn with(&self, ends: impl FnOnce(&mut JobStat, bool) -> bool) -> Result<(), Error> {
        let mut now = self.jobs.now.lock();
        let is_cancelled = now.is_cancelled;
        let is_it = now.number == self.number;
        let job = now.job.as_mut().filter(|_| is_it).ok_or(Error::Cancelled)?;
        if ends(job, is_cancelled) { Err(Error::Cancelled) } else { Ok(()) }
    }

    /// Returns true if the job was abandoned. After an abandoned job, another job may have begun.
    pub(crate) fn is_given_up(&self) -> bool {
        self.with(|_, _| false).is_err()
    }

    /// Returns a guard, or `None` if the job was abandoned. While the guard exists, the job is
    /// allowed to free written-back data in memory.
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
