//! Tunable choices of the commands that measure: sizes of samples, limits, and the parameters of
//! the forecast.

use std::ops::RangeInclusive;
use std::time::Duration;

/// The maximum number of threads of `uzram fill` that can be requested.
pub(crate) const THREADS_MAX: u16 = 256;

/// The maximum of the default number of threads of `uzram fill`.
pub(crate) const THREADS_DEFAULT_MAX: usize = 16;

/// By default, the buffers of all threads of `uzram fill` together use at most 1/`BUFFERS_SHARE` of
/// the memory that this process may use, because the device needs the rest.
pub(crate) const BUFFERS_SHARE: u64 = 24;

/// The bytes that a thread uses: touched stack and heap, and the kernel's data for the thread.
pub(crate) const THREAD_BYTES: usize = 128 << 10;

/// The number of bytes of tables that the device of `uzram fill` uses for each page of its size.
pub(crate) const FILLED_ENTRY_BYTES: usize = 12;

/// The number of pages that a thread of `uzram fill` takes at a time.
pub(crate) const BATCH_PAGES: u32 = 256;

/// The number of pages of a request to the device of `uzram fill`.
pub(crate) const REQUEST_PAGES: usize = 16;

/// A buffer for compressed data is at most this multiple of the data. No codec needs more.
pub(crate) const COMPRESSED_MAX: usize = 2;

/// The maximum size of a dictionary of `uzram train-dictionary` in bytes: an eighth of the largest
/// sample.
pub(crate) const DICTIONARY_BYTES_MAX: usize = 8 << 20;

/// The maximum number of bytes of blocks that `uzram train-dictionary` reads, spread over all
/// files.
pub(crate) const SAMPLE_BYTES: usize = 64 << 20;

/// One of `HELD_ONE_OF` blocks is held out.
pub(crate) const HELD_ONE_OF: usize = 8;

/// The seed by which the held-out blocks are chosen at random, so that no period of the files
/// affects the choice. The seed is the same in every run.
pub(crate) const SEED: u64 = 1;

/// The number of passes of each codec over the blocks, with the dictionary and without. The median
/// is reported.
pub(crate) const PASSES: usize = 3;

/// The minimum size of a sample of `uzram analyze` in bytes: a few clusters.
pub(crate) const SAMPLE_MIN: u64 = 1 << 20;

/// At most one of `TRAINING_ONE_OF` clusters trains a dictionary; the dictionary is tried on the
/// others.
pub(crate) const TRAINING_ONE_OF: usize = 4;

/// The minimum and maximum size of a dictionary of `uzram analyze` in bytes. Between them, the size
/// is a hundredth of the training data.
pub(crate) const DICTIONARY_BYTES: RangeInclusive<usize> = 4 << 10..=64 << 10;

/// The maximum number of bytes of training data. More would not improve the dictionary.
pub(crate) const TRAINED_MAX: usize = 8 << 20;

/// The number of reads of the counter with which the cost of one read is measured.
pub(crate) const COUNTER_LOOKS: usize = 1000;

/// The number of entries of a process's pagemap that are read at a time.
pub(crate) const PAGEMAP_ENTRIES: usize = 4096;

/// The interval between checks for an interrupt while pages become idle.
pub(crate) const IDLE_TICK: Duration = Duration::from_millis(50);

/// The exponent of the time in the cost of a candidate: a candidate that takes twice the time must
/// save a tenth of the memory.
pub(crate) const TIME_POWER: f64 = 0.152;

/// The ratio of a recommended limit to the forecast memory; above 1, because data change.
pub(crate) const LIMIT_SPARE: f64 = 1.25;

/// The maximum time to wait for another program that appends to the same file of rows.
pub(crate) const APPENDED_WITHIN: Duration = Duration::from_secs(10);

/// The bytes of metadata per object that the forecast assumes: its entry, and a number and a bit in
/// its zspage's header.
pub(crate) const OBJECT_ENTRY: f64 = 8.0;
pub(crate) const OBJECT_IN_HEADER: f64 = 4.125;

/// The other bytes of metadata per zspage (its header, its descriptor, and the tables of both), and
/// the bytes of metadata for each of its pages.
pub(crate) const ZSPAGE: f64 = 110.0;
pub(crate) const ZSPAGE_PAGE: f64 = 0.5;

/// The average share of the pages that is retained for the next objects.
pub(crate) const RETAINED: f64 = 1.0 / 512.0;

/// 95 of 100 samples differ from the data by at most this number of standard errors.
pub(crate) const STANDARD_ERRORS: f64 = 1.96;

/// If none of n sampled clusters has a property, at most the share `UNSEEN` / n of the data's
/// clusters has this property, in 95 of 100 samples.
pub(crate) const UNSEEN: f64 = 3.0;
