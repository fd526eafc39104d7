//! Tunable choices of the commands that measure: sizes of samples, limits, and the parameters of
//! the forecast.

use std::ops::RangeInclusive;
use std::time::Duration;

/// The maximum number of threads of `uzram fill` that can be requested.
pub(crate) const THREADS_MAX: u16 = 256;

/// The default number of threads of `uzram fill` is at most this number.
pub(crate) const THREADS_DEFAULT_MAX: usize = 16;

/// By default, the buffers of all threads of `uzram fill` use at most 1/`BUFFERS_SHARE` of the
/// memory that this process is allowed to use. The device needs the remaining memory.
pub(crate) const BUFFERS_SHARE: u64 = 24;

/// The bytes that a thread uses: the touched stack and heap, and the kernel's structures.
pub(crate) const THREAD_BYTES: usize = 128 << 10;

/// The bytes of metadata that `uzram fill`'s device uses for each page of the disk.
pub(crate) const FILLED_ENTRY_BYTES: usize = 12;

/// The number of pages in a batch of `uzram fill`. A thread takes one batch at a time.
pub(crate) const BATCH_PAGES: u32 = 256;

/// The number of pages in a request of `uzram fill` to its device.
pub(crate) const REQUEST_PAGES: usize = 16;

/// The size of a buffer for compressed data divided by the size of the data. No codec needs a
/// larger buffer.
pub(crate) const COMPRESSED_MAX: usize = 2;

/// The maximum size of a dictionary of `uzram train-dictionary`, in bytes: an eighth of
/// `SAMPLE_BYTES`.
pub(crate) const DICTIONARY_BYTES_MAX: usize = 8 << 20;

/// The maximum size in bytes of the blocks that `uzram train-dictionary` reads. The blocks are
/// spread over all files.
pub(crate) const SAMPLE_BYTES: usize = 64 << 20;

/// `uzram train-dictionary` holds out one of `HELD_ONE_OF` blocks to test the dictionary.
pub(crate) const HELD_ONE_OF: usize = 8;

/// The seed of the random choice of held-out blocks, which is the same in every run. The choice is
/// random because a fixed interval could match a period of the files.
pub(crate) const SEED: u64 = 1;

/// The number of passes of each codec over the blocks. `uzram train-dictionary` reports the median
/// pass.
pub(crate) const PASSES: usize = 3;

/// The minimum size of a sample of `uzram analyze` in bytes: a few clusters.
pub(crate) const SAMPLE_MIN: u64 = 1 << 20;

/// `uzram analyze` trains a dictionary with at most one of `TRAINING_ONE_OF` clusters, and tries
/// the dictionary on the others.
pub(crate) const TRAINING_ONE_OF: usize = 4;

/// The minimum and the maximum size of a dictionary of `uzram analyze`, in bytes. Within these
/// bounds, the size is a hundredth of the training data.
pub(crate) const DICTIONARY_BYTES: RangeInclusive<usize> = 4 << 10..=64 << 10;

/// The maximum size of the training data of `uzram analyze`, in bytes. More data would not improve
/// the dictionary.
pub(crate) const TRAINED_MAX: usize = 8 << 20;

/// The number of reads of the counter `compr_data_size` from which the time of one read is
/// computed.
pub(crate) const COUNTER_LOOKS: usize = 1000;

/// The number of pagemap entries that one call reads.
pub(crate) const PAGEMAP_ENTRIES: usize = 4096;

/// The interval between checks for an interrupt while pages become idle.
pub(crate) const IDLE_TICK: Duration = Duration::from_millis(50);

/// A candidate's cost is its memory, multiplied by the time for a store and a read, raised to this
/// power. A candidate that takes twice the time costs the same if it uses a tenth less memory.
pub(crate) const TIME_POWER: f64 = 0.152;

/// The recommended limit divided by the forecast memory. The ratio is above 1 because data change.
pub(crate) const LIMIT_SPARE: f64 = 1.25;

/// The maximum time to wait while another program appends to the Parquet file.
pub(crate) const APPENDED_WITHIN: Duration = Duration::from_secs(10);

/// The bytes that the forecast assumes for an entry, and for an object's number and bit in the
/// header of its zspage.
pub(crate) const OBJECT_ENTRY: f64 = 8.0;
pub(crate) const OBJECT_IN_HEADER: f64 = 4.125;

/// The other bytes of metadata that the forecast assumes, per zspage and per page of a zspage.
/// These metadata are the header, the descriptor, and the tables for headers and descriptors.
pub(crate) const ZSPAGE: f64 = 110.0;
pub(crate) const ZSPAGE_PAGE: f64 = 0.5;

/// The average share of retained pages among a pool's pages.
pub(crate) const RETAINED: f64 = 1.0 / 512.0;

/// In 95 of 100 samples, the error is at most this number of standard errors.
pub(crate) const STANDARD_ERRORS: f64 = 1.96;

/// If none of n sampled clusters has a property, at most the share `UNSEEN` / n of all clusters has
/// the property, with a confidence of 95%.
pub(crate) const UNSEEN: f64 = 3.0;
