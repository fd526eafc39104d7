//! The one job that may be under way (X2): what it is, how far it came, and whether it is to go on.

use crate::Error;
use std::fmt;
use std::sync::atomic::{
    AtomicU8, AtomicU64,
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

const CANCELLED: u8 = 0x80;

/// Whether a job is under way.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    /// A [`JobKind`], with `CANCELLED` if it is to give up; or 0.
    state: AtomicU8,
    done: AtomicU64,
    of: AtomicU64,
}

/// The only job there is.
pub(crate) struct Job<'j>(&'j Jobs);

impl Jobs {
    /// Begins a job that goes through `of` slots, if that is known.
    pub(crate) fn begin(&self, kind: JobKind, of: u64) -> Result<Job<'_>, Error> {
        let begun = self.state.compare_exchange(0, kind as u8, AcqRel, Relaxed);
        begun.map_err(|_| Error::Busy)?;
        self.done.store(0, Relaxed);
        self.of.store(of, Relaxed);
        Ok(Job(self))
    }

    pub(crate) fn stat(&self) -> Option<JobStat> {
        let kinds = [JobKind::Recompress, JobKind::WriteBack, JobKind::Save, JobKind::Restore];
        let under_way = self.state.load(Acquire) & !CANCELLED;
        let kind = kinds.into_iter().find(|&kind| kind as u8 == under_way)?;
        Some(JobStat { kind, done: self.done.load(Relaxed), of: self.of.load(Relaxed) })
    }

    /// Has the job that is under way give up.
    pub(crate) fn cancel(&self) {
        let cancelled = |state| (state != 0).then_some(state | CANCELLED);
        // None is under way, and the next is another.
        let _ = self.state.fetch_update(Relaxed, Relaxed, cancelled);
    }

    /// In a child, which has not got the thread that was at it.
    pub(crate) fn forget(&self) {
        self.state.store(0, Release);
    }
}

impl Job<'_> {
    /// Notes how far it came.
    ///
    /// # Errors
    /// [`Error::Cancelled`]: it is to go no further.
    pub(crate) fn reached(&self, done: u64) -> Result<(), Error> {
        self.0.done.store(done, Relaxed);
        match self.0.state.load(Relaxed) & CANCELLED {
            0 => Ok(()),
            _ => Err(Error::Cancelled),
        }
    }
}

impl Drop for Job<'_> {
    fn drop(&mut self) {
        self.0.state.store(0, Release);
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
}
