//! The counts and the times of one thread of `uzram fill`.

use super::request_codec::RawFigures;
use measure::page::{PAGE_SIZE, same_filled};
use measure::pages::FileIndex;
use std::time::Duration;

/// A number of bytes, and the time in which one thread processed them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Meter {
    bytes: u64,
    time: Duration,
}

impl Meter {
    /// Adds `bytes` bytes that took `time`.
    pub(crate) fn add(&mut self, bytes: usize, time: Duration) {
        self.bytes += bytes as u64;
        self.time += time;
    }

    /// Returns the rate in 10^6 bytes per second.
    fn mb_s(&self) -> f64 {
        let micros = self.time.as_secs_f64() * 1e6;
        if micros > 0.0 { self.bytes as f64 / micros } else { 0.0 }
    }
}

/// The measured times. The device and the raw codec process each request (at most 64 KiB) one after
/// the other.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Meters {
    pub(crate) write: Meter,
    pub(crate) read: Meter,
    pub(crate) compress: Meter,
    pub(crate) decompress: Meter,
}

/// The counts and times of one worker.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    /// The times for all pages. The codec skips same-filled blocks and pages.
    pub(crate) all: Meters,
    /// The times for requests without a same-filled page. The device and the codec compress the
    /// same data in these requests.
    pub(crate) alike: Meters,
    /// C: the sum of min(size, length from the raw codec) over the stored blocks that are not
    /// same-filled.
    pub(crate) codec_bytes: u64,
    pub(crate) pages_stored: u64,
    pub(crate) pages_compared: u64,
    pub(crate) mismatches: u64,
    /// A file whose data the device did not return as stored.
    pub(crate) mismatch: Option<FileIndex>,
}

impl Totals {
    /// Adds a request of `bytes` bytes that the device stored in `time`, and the raw codec's
    /// results for the same pages.
    pub(crate) fn count_stored(&mut self, figures: &RawFigures, bytes: usize, time: Duration) {
        let is_alike = !figures.has_same;
        for meters in
            [Some(&mut self.all), is_alike.then_some(&mut self.alike)].into_iter().flatten()
        {
            meters.write.add(bytes, time);
            meters.compress.add(figures.bytes, figures.compress_time);
            meters.decompress.add(figures.bytes, figures.decompress_time);
        }
    }

    /// Adds a request that the device read back in `time`. `data` are the stored pages.
    pub(crate) fn count_compared(&mut self, data: &[u8], time: Duration) {
        self.pages_compared += (data.len() / PAGE_SIZE) as u64;
        self.all.read.add(data.len(), time);
        if !data.chunks_exact(PAGE_SIZE).any(|page| same_filled(page).is_some()) {
            self.alike.read.add(data.len(), time);
        }
    }
}

/// Returns the throughput of all workers: the sum of their rates. The rate of a worker is measured
/// in that worker's own time.
pub(crate) fn mb_s(totals: &[Totals], meter: impl Fn(&Totals) -> Meter) -> f64 {
    totals.iter().map(|thread| meter(thread).mb_s()).sum()
}

/// Returns the ratio of two rates, if both are known.
pub(crate) fn quotient(part: f64, whole: f64) -> Option<f64> {
    (part > 0.0 && whole > 0.0).then(|| part / whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_of_threads_add_up() {
        let mut totals = vec![Totals::default(); 3];
        for (thread, millis) in totals.iter_mut().zip([1, 2]) {
            thread.all.write.add(1000, Duration::from_micros(10));
            thread
                .all
                .write
                .add(1_000_000 - 1000, Duration::from_millis(millis) - Duration::from_micros(10));
        }
        let rate = mb_s(&totals, |thread| thread.all.write);
        assert!((rate - 1500.0).abs() < 1e-6, "{rate}");
        assert_eq!(mb_s(&totals, |thread| thread.all.read), 0.0);
        assert_eq!(quotient(1.0, 2.0), Some(0.5));
        assert_eq!(quotient(1.0, 0.0), None);
    }
}
