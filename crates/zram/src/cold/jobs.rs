//! The one job that may be under way (X2): what it is, how far it came, and whether it is to go on.

use crate::Error;
use std::fmt;
use std::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU64,
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

/// Whether a job is under way.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    /// A [`JobKind`], or 0.
    kind: AtomicU8,
    done: AtomicU64,
    of: AtomicU64,
    is_cancelled: AtomicBool,
}

/// The only job there is.
pub(crate) struct Job<'j>(&'j Jobs);

impl Jobs {
    /// Begins a job that goes through `of` slots, if that is known.
    pub(crate) fn begin(&self, kind: JobKind, of: u64) -> Result<Job<'_>, Error> {
        let begun = self.kind.compare_exchange(0, kind as u8, AcqRel, Relaxed);
        begun.map_err(|_| Error::Busy)?;
        self.done.store(0, Relaxed);
        self.of.store(of, Relaxed);
        self.is_cancelled.store(false, Relaxed);
        Ok(Job(self))
    }

    pub(crate) fn stat(&self) -> Option<JobStat> {
        let kinds = [JobKind::Recompress, JobKind::WriteBack, JobKind::Save, JobKind::Restore];
        let under_way = self.kind.load(Acquire);
        let kind = kinds.into_iter().find(|&kind| kind as u8 == under_way)?;
        Some(JobStat { kind, done: self.done.load(Relaxed), of: self.of.load(Relaxed) })
    }

    /// Has the job that is under way give up.
    pub(crate) fn cancel(&self) {
        self.is_cancelled.store(true, Relaxed);
    }

    /// In a child, which has not got the thread that was at it.
    pub(crate) fn forget(&self) {
        self.kind.store(0, Release);
    }
}

impl Job<'_> {
    /// Notes how far it came.
    ///
    /// # Errors
    /// [`Error::Cancelled`]: it is to go no further.
    pub(crate) fn reached(&self, done: u64) -> Result<(), Error> {
        self.0.done.store(done, Relaxed);
        if self.0.is_cancelled.load(Relaxed) { Err(Error::Cancelled) } else { Ok(()) }
    }
}

impl Drop for Job<'_> {
    fn drop(&mut self) {
        self.0.kind.store(0, Release);
    }
}
