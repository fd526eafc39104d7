//! What the threads of a job share: the batches, and what stops them.

use super::page_checksums::PageChecksums;
use super::try_slice::many;
use crate::error::Error;
use crate::interrupt::Interrupt;
use crate::pages::{FilePlan, PageReader, SkippedFiles};
use crate::progress::Progress;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};
use zram::Open;

/// Pages that a thread takes at a time.
pub(crate) const BATCH_PAGES: u32 = 256;

/// What all workers share.
pub(crate) struct FillJob<'a> {
    pub(crate) source: PageReader<'a>,
    pub(crate) interrupt: &'a Interrupt,
    /// Made after the workers are.
    pub(crate) device: OnceLock<Open>,
    /// Pages of each batch, from its first, that were gone through.
    stored: Box<[AtomicU16]>,
    next_batch: AtomicU32,
    stop: AtomicBool,
    failure: Mutex<Option<Error>>,
    /// Of what is stored.
    pub(crate) checksums: PageChecksums,
}

/// Pages that one thread does.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    index: usize,
    /// Pages of the device.
    pub(crate) pages: Range<u32>,
}

/// A phase, and how far all are with it.
#[derive(Clone, Debug)]
pub(crate) enum Phase {
    Store(Progress),
    Compare(Progress),
}

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
            stop: AtomicBool::new(false),
            failure: Mutex::new(None),
            checksums: PageChecksums::new(plan.pages())?,
        })
    }

    /// Batches there are.
    pub(crate) fn batches(&self) -> usize {
        self.stored.len()
    }

    /// Returns the next batch of this phase.
    pub(crate) fn take_batch(&self) -> Option<Batch> {
        if self.stop.load(Relaxed) || self.interrupt.is_set() {
            return None;
        }
        let nth = self.next_batch.fetch_add(1, Relaxed);
        if nth as usize >= self.stored.len() {
            return None;
        }
        let start = nth * BATCH_PAGES;
        let end = self.source.plan.pages().min(start.saturating_add(BATCH_PAGES));
        Some(Batch { index: nth as usize, pages: start..end })
    }

    /// So many pages of the batch, from its first, are gone through.
    pub(crate) fn set_stored(&self, batch: &Batch, pages: usize) {
        debug_assert!(pages <= batch.pages.len());
        self.stored[batch.index].store(pages as u16, Relaxed);
    }

    /// Returns what was said to [`set_stored`](Self::set_stored), or 0.
    pub(crate) fn stored(&self, batch: &Batch) -> usize {
        self.stored[batch.index].load(Relaxed).into()
    }

    /// Starts the batches over, for the next phase. What stopped the last one comes back.
    pub(crate) fn next_phase(&self) -> Option<Error> {
        self.next_batch.store(0, Relaxed);
        self.stop.store(false, Relaxed);
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Stops all workers. The first reason counts.
    pub(crate) fn fail(&self, error: Error) {
        self.stop.store(true, Relaxed);
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
}
