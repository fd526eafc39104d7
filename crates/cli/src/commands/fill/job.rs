//! The state that the threads of `uzram fill` share: the batches, and the error that stops all
//! threads.

use super::page_checksums::PageChecksums;
use super::try_slice::many;
use crate::commands::policy::BATCH_PAGES;
use crate::error::Error;
use crate::progress::Progress;
use measure::Interrupt;
use measure::pages::{FilePlan, PageReader, Purpose, SkippedFiles};
use std::ops::Range;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};
use zram::Open;

pub(crate) struct FillJob<'a> {
    pub(crate) source: PageReader<'a>,
    pub(crate) interrupt: &'a Interrupt,
    /// The device, which is created after the workers.
    pub(crate) device: OnceLock<Open>,
    /// For each batch, the number of its first pages that are stored.
    stored: Box<[AtomicU16]>,
    next_batch: AtomicU32,
    failure: Mutex<Option<Error>>,
    pub(crate) checksums: PageChecksums,
}

/// A phase, and the progress of all its threads.
pub(crate) type Phase = (Purpose, Progress);

impl<'a> FillJob<'a> {
    pub(crate) fn new(
        plan: &'a FilePlan,
        skipped: &'a SkippedFiles,
        interrupt: &'a Interrupt,
    ) -> Result<Self, Error> {
        let batches = plan.pages().div_ceil(BATCH_PAGES) as usize;
        Ok(FillJob {
            source: PageReader { plan, skipped },
            interrupt,
            device: OnceLock::new(),
            stored: many(batches, || AtomicU16::new(0))?,
            next_batch: AtomicU32::new(0),
            failure: Mutex::new(None),
            checksums: PageChecksums::new(plan.pages())?,
        })
    }

    pub(crate) fn batches(&self) -> usize {
        self.stored.len()
    }

    /// Returns the pages of the next batch, or `None` if no batch is left or an interrupt arrived.
    pub(crate) fn take_batch(&self) -> Option<Range<u32>> {
        if self.interrupt.is_set() {
            return None;
        }
        let nth = self.next_batch.fetch_add(1, Relaxed);
        if nth as usize >= self.stored.len() {
            return None;
        }
        let start = nth * BATCH_PAGES;
        let end = self.source.plan.pages().min(start.saturating_add(BATCH_PAGES));
        Some(start..end)
    }

    /// Records that the first `pages` pages of the batch are stored.
    pub(crate) fn set_stored(&self, batch: &Range<u32>, pages: usize) {
        debug_assert!(pages <= batch.len());
        self.stored[(batch.start / BATCH_PAGES) as usize].store(pages as u16, Relaxed);
    }

    /// Returns the number recorded by [`set_stored`](Self::set_stored), or 0.
    pub(crate) fn stored(&self, batch: &Range<u32>) -> usize {
        self.stored[(batch.start / BATCH_PAGES) as usize].load(Relaxed).into()
    }

    /// Restarts the batches for the next phase. Returns the error that stopped the previous phase.
    pub(crate) fn next_phase(&self) -> Option<Error> {
        self.next_batch.store(0, Relaxed);
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Stops all workers, by leaving no batch for them. Keeps only the first error.
    pub(crate) fn fail(&self, error: Error) {
        self.next_batch.store(self.stored.len() as u32, Relaxed);
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
}
