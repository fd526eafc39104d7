//! The work of one thread: writes batches of pages to the device, and reads them back for
//! comparison.
//!
//! A thread reads a batch from the files, and then times each request on the device. In the first
//! phase, the thread also times the raw codec on the same pages. The codec is first in every second
//! request. The time to read files is not counted.

use super::job::{FillJob, Phase};
use super::request_codec::{Codecs, RequestCodec, bytes_of};
use super::totals::Totals;
use crate::commands::policy::{BATCH_PAGES, COMPRESSED_MAX, REQUEST_PAGES};
use crate::error::Error;
use measure::page::PAGE_SIZE;
use measure::pages::{Purpose, SkipReason};
use std::ops::Range;
use std::time::{Duration, Instant};
use zram::Device;

/// The bytes of a worker's buffers without the codec's buffers.
pub(crate) const WORKER_BYTES: usize =
    (BATCH_PAGES as usize + (1 + COMPRESSED_MAX) * REQUEST_PAGES) * PAGE_SIZE;

/// The reason that is reported if a file is left out because it has changed, although the device
/// returned the file's pages as stored.
const UNSEEN: &str = "it changed while it was read, though its time and size did not";

/// The buffers and counts of a thread.
pub(crate) struct Worker {
    raw: RequestCodec,
    /// A batch as read from the files.
    data: Box<[u8]>,
    /// A request as read back from the device.
    back: Box<[u8]>,
    /// True if the codec processed the previous request before the device did.
    codec_first: bool,
    pub(crate) totals: Totals,
}

impl Worker {
    pub(crate) fn new(codecs: &Codecs) -> Result<Self, zcomp::Error> {
        Ok(Worker {
            raw: RequestCodec::new(codecs)?,
            data: vec![1; BATCH_PAGES as usize * PAGE_SIZE].into(),
            back: vec![1; REQUEST_PAGES * PAGE_SIZE].into(),
            codec_first: false,
            totals: Totals::default(),
        })
    }

    pub(crate) fn work_phase(&mut self, job: &FillJob<'_>, (purpose, progress): Phase) {
        let Some(device) = job.device.get() else { return };
        let mut runs = Vec::with_capacity(BATCH_PAGES as usize);
        while let Some(batch) = job.take_batch() {
            job.source.read(batch.clone(), purpose, &mut self.data, &mut runs);
            let done = match purpose {
                Purpose::Store => self.store(job, device, &batch, &runs),
                Purpose::Compare => self.compare(job, device, &batch, &runs),
            };
            if let Err(error) = done {
                job.fail(error);
            }
            progress.advance(batch.len() as u64 * PAGE_SIZE as u64);
        }
    }

    fn store(
        &mut self,
        job: &FillJob<'_>,
        device: &Device,
        batch: &Range<u32>,
        runs: &[Range<usize>],
    ) -> Result<(), Error> {
        let first = batch.start;
        for request in requests(runs) {
            job.interrupt.check()?;
            let data = &self.data[bytes_of(&request)];
            job.checksums.set(first + request.start as u32, data);
            let start = request.start;
            let (pages, result) = self.store_request(device, first, request);
            if result.is_err() {
                job.set_stored(batch, start + pages);
                return result;
            }
        }
        job.set_stored(batch, batch.len());
        Ok(())
    }

    /// Writes a request, and compresses the same pages with the raw codec before or after it.
    /// Returns the number of stored pages. If some pages of the request are not stored, the error
    /// explains why.
    fn store_request(
        &mut self,
        device: &Device,
        first: u32,
        pages: Range<usize>,
    ) -> (usize, Result<(), Error>) {
        let data = &self.data[bytes_of(&pages)];
        let offset = offset_of(first, pages.start);
        let write = || timed(|| device.write(offset, data));
        self.codec_first = !self.codec_first;
        let ((written, time), figures) = if self.codec_first {
            let figures = self.raw.run(pages.start, data, &mut self.back);
            (write(), figures)
        } else {
            (write(), self.raw.run(pages.start, data, &mut self.back))
        };
        let figures = match figures {
            Ok(figures) => figures,
            Err(error) => return (0, Err(error.into())),
        };
        if written.is_ok() {
            self.totals.count_stored(&figures, data.len(), time);
        }
        let stored = match &written {
            Ok(()) => pages.len(),
            // The device has written the slots before the slot that the error names.
            Err(zram::Error::OutOfMemory { slot, .. }) => {
                slot.saturating_sub(offset / PAGE_SIZE as u64).min(pages.len() as u64) as usize
            }
            Err(_) => 0,
        };
        self.totals.codec_bytes += figures.lens[..stored].iter().sum::<usize>() as u64;
        self.totals.pages_stored += stored as u64;
        (stored, written.map_err(Error::from))
    }

    /// Reads back the stored pages of a batch, and compares them with the files.
    fn compare(
        &mut self,
        job: &FillJob<'_>,
        device: &Device,
        batch: &Range<u32>,
        runs: &[Range<usize>],
    ) -> Result<(), Error> {
        let (first, stored) = (batch.start, job.stored(batch));
        for request in requests(runs) {
            job.interrupt.check()?;
            let request = request.start.min(stored)..request.end.min(stored);
            if request.is_empty() {
                break;
            }
            let data = &self.data[bytes_of(&request)];
            let back = &mut self.back[..data.len()];
            let (read, time) = timed(|| device.read(offset_of(first, request.start), back));
            read?;
            self.totals.count_compared(data, time);
            for nth in differences(data, back) {
                let page = first + (request.start + nth) as u32;
                let file = job.source.plan.parts(page..page + 1).next().map(|part| part.file);
                if job.checksums.is_stored(page, &back[nth * PAGE_SIZE..][..PAGE_SIZE]) {
                    file.inspect(|file| job.source.leave_out(*file, SkipReason::Changed, &UNSEEN));
                } else {
                    self.totals.mismatches += 1;
                    self.totals.mismatch = self.totals.mismatch.or(file);
                }
            }
        }
        Ok(())
    }
}

/// Returns the offset on the device of page `page` in the batch that begins with page `first`.
fn offset_of(first: u32, page: usize) -> u64 {
    (u64::from(first) + page as u64) * PAGE_SIZE as u64
}

/// Cuts the runs at multiples of the request's length. For every block size, these multiples are
/// block boundaries.
fn requests(runs: &[Range<usize>]) -> impl Iterator<Item = Range<usize>> + '_ {
    runs.iter().flat_map(|run| {
        let mut at = run.start;
        std::iter::from_fn(move || {
            let start = at;
            at = (start + 1).next_multiple_of(REQUEST_PAGES).min(run.end);
            (start < run.end).then_some(start..at)
        })
    })
}

/// Returns the numbers of the pages in which `one` and `other` differ.
fn differences(one: &[u8], other: &[u8]) -> impl Iterator<Item = usize> {
    let pairs = one.chunks_exact(PAGE_SIZE).zip(other.chunks_exact(PAGE_SIZE)).enumerate();
    pairs.filter(|(_, (one, other))| one != other).map(|(nth, _)| nth)
}

/// Returns the result of `call`, and its duration.
fn timed<T>(call: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = call();
    (result, start.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Progress;
    use measure::Interrupt;
    use measure::pages::{SkippedFiles, Wanted, plan};
    use std::fs::{self, File};
    use zram::Zram;

    /// Stores the files a (600 pages) and b (3 pages), calls `change`, and compares the stored
    /// pages with the files.
    fn stored_and(change: impl FnOnce(&Device, &std::path::Path)) -> (Totals, Vec<String>) {
        let dir = tempfile::tempdir().unwrap();
        let numbers = |from: u32, count: u32| (from..from + count).flat_map(u32::to_le_bytes);
        fs::write(dir.path().join("a"), numbers(1, 600 * 1024).collect::<Vec<u8>>()).unwrap();
        fs::write(dir.path().join("b"), numbers(7, 3 * 1024 - 9).collect::<Vec<u8>>()).unwrap();
        let (skipped, interrupt) = (SkippedFiles::default(), Interrupt::default());
        let paths = [dir.path().to_owned()];
        let plan = plan(&paths, None, Wanted::All, &skipped, &interrupt).unwrap();
        let job = FillJob::new(&plan, &skipped, &interrupt).unwrap();
        let zram = Zram::new();
        zram.set_disksize(603 * PAGE_SIZE as u64).unwrap();
        let device = job.device.get_or_init(|| zram.open().unwrap());
        let mut worker = worker();
        worker.work_phase(&job, (Purpose::Store, Progress::new("storing", 0)));
        assert!(job.next_phase().is_none());
        change(device, dir.path());
        worker.work_phase(&job, (Purpose::Compare, Progress::new("comparing", 0)));
        assert!(job.next_phase().is_none());
        assert_eq!(worker.totals.pages_stored, 603);
        if let Some(file) = worker.totals.mismatch {
            assert_eq!(plan.path(file), dir.path().join("a"));
        }
        (worker.totals, skipped.lines())
    }

    fn worker() -> Worker {
        Worker::new(&Codecs::new(&zram::Config::default()).unwrap()).unwrap()
    }

    #[test]
    fn a_device_that_loses_data_is_found_out() {
        let (totals, warnings) = stored_and(|_, _| {});
        assert_eq!((totals.mismatches, totals.pages_compared, warnings.len()), (0, 603, 0));
        let (totals, warnings) = stored_and(|device, _| {
            device.write(555 * PAGE_SIZE as u64 + 1, &[0xff]).unwrap();
            device.discard(3 * PAGE_SIZE as u64, 2 * PAGE_SIZE as u64).unwrap();
        });
        assert_eq!((totals.mismatches, warnings.len()), (3, 0));
        assert!(totals.mismatch.is_some());
    }

    #[test]
    fn a_file_that_changes_unseen_is_not_held_against_the_device() {
        let (totals, warnings) = stored_and(|_, dir| {
            let path = dir.join("b");
            let time = fs::metadata(&path).unwrap().modified().unwrap();
            let len = fs::metadata(&path).unwrap().len() as usize;
            fs::write(&path, vec![9; len]).unwrap();
            File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        });
        assert_eq!((totals.mismatches, warnings.len()), (0, 1));
        assert!(warnings[0].contains("/b': it changed while it was read, though"), "{warnings:?}");
    }

    #[test]
    fn an_interrupt_ends_a_batch_before_its_next_request() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a"), vec![1; 64 * PAGE_SIZE]).unwrap();
        let (skipped, interrupt) = (SkippedFiles::default(), Interrupt::default());
        let paths = [dir.path().to_owned()];
        let plan = plan(&paths, None, Wanted::All, &skipped, &interrupt).unwrap();
        let job = FillJob::new(&plan, &skipped, &interrupt).unwrap();
        let device = Device::new(zram::Config::new(64 * PAGE_SIZE as u64).unwrap()).unwrap();
        let mut worker = worker();
        let batch = job.take_batch().unwrap();
        job.set_stored(&batch, 64);
        interrupt.0.store(true, std::sync::atomic::Ordering::Relaxed);
        let runs: &[Range<usize>] = &[0..32, 32..64];
        for done in
            [worker.store(&job, &device, &batch, runs), worker.compare(&job, &device, &batch, runs)]
        {
            assert!(matches!(done, Err(Error::Interrupted)), "{done:?}");
        }
        assert_eq!((worker.totals.pages_stored, worker.totals.pages_compared), (0, 0));
    }

    #[test]
    fn runs_are_cut_into_requests() {
        let cut: Vec<_> = requests(&[0..3, 5..37, 40..40]).collect();
        assert_eq!(cut, [0..3, 5..16, 16..32, 32..37]);
    }

    #[test]
    fn differing_pages_are_found() {
        let one = vec![1; 4 * PAGE_SIZE];
        let mut other = one.clone();
        assert_eq!(differences(&one, &other).count(), 0);
        other[0] = 0;
        other[4 * PAGE_SIZE - 1] = 0;
        assert_eq!(differences(&one, &other).collect::<Vec<_>>(), [0, 3]);
    }
}
