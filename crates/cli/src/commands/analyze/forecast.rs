//! Forecasts the memory of a device that holds all the data, from the objects of a sample.
//!
//! ```text
//!   lengths, scaled -> open size classes, as the pool's plan has them -> pages, tables -> memory
//! ```
//! A pool with fewer objects opens fewer size classes, and rounds each object up to a larger size.
//! So a device that holds only the sample uses more memory per object than a device that holds all
//! the data. The forecast therefore computes the pool's size for the number of objects in all the
//! data. `bench analyze` compares the result with devices that hold all the data.

use super::candidate::Candidate;
use super::sample::Sample;
use super::trial::Trial;
use crate::commands::policy::{
    OBJECT_ENTRY, OBJECT_IN_HEADER, RETAINED, STANDARD_ERRORS, UNSEEN, ZSPAGE, ZSPAGE_PAGE,
};
use measure::page::PAGE_SIZE;
use zcomp::{Dictionary, Params};
use zram::{ClassShape, Config, Device, Geometry};

/// The forecast for all the data.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Forecast {
    /// All memory of the device, in bytes.
    pub(super) memory: f64,
    /// The error of `memory`, in bytes, that 95 of 100 samples do not exceed.
    pub(super) error: f64,
    /// The bytes of the pool's pages, which the kernel's `mem_limit` would limit.
    pub(super) pool: f64,
}

pub(super) fn of(
    candidate: &Candidate,
    dictionary: Option<&Dictionary>,
    trial: &Trial,
    sample: &Sample,
) -> Forecast {
    let scale = sample.population as f64 / trial.pages as f64;
    let objects = trial.objects.iter().map(|(&len, &count)| (len, count as f64 * scale));
    let (pool, headers) = stored(candidate.block, objects);
    let slots = sample.population as f64;
    let entries = match candidate.block {
        PAGE_SIZE => slots,
        block => slots / (block / PAGE_SIZE) as f64 + trial.same_filled as f64 * scale,
    };
    let grows = pool + headers + entries * OBJECT_ENTRY;
    let (block, algorithm) = (candidate.block, candidate.kind.codec);
    let params = Params { level: Some(candidate.kind.level), dictionary: dictionary.cloned() };
    let empty = Config::new(sample.population * PAGE_SIZE as u64)
        .and_then(|config| Device::new(Config { block, algorithm, params, ..config }));
    let memory = empty.map_or(trial.empty, |device| device.mem_total()) as f64 + grows;
    Forecast { memory, error: error(trial, sample, grows), pool }
}

/// Returns the bytes of a pool's pages, and the bytes of its zspages' metadata, for blocks of
/// `block` bytes. Each element of `objects` is a length and the number of objects of this length.
pub(crate) fn stored(block: usize, objects: impl Iterator<Item = (usize, f64)>) -> (f64, f64) {
    let order = (block / PAGE_SIZE).ilog2();
    // The table of classes exists for every block size.
    let classes = Geometry::Native { order }.table().map(|table| table.classes().to_vec());
    let classes = classes.unwrap_or_default();
    let mut counts = vec![0.0; classes.len()];
    for (len, count) in objects {
        let at = classes.partition_point(|class| class.capacity < len);
        if let Some(of_class) = counts.get_mut(at) {
            *of_class += count;
        }
    }
    let (mut pages, mut headers) = (0.0, counts.iter().sum::<f64>() * OBJECT_IN_HEADER);
    for (shape, count) in opened(&classes, &counts) {
        let zspages = count / shape.objects as f64;
        pages += zspages * shape.pages as f64 + 0.5;
        headers += (zspages + 0.5) * (ZSPAGE + shape.pages as f64 * ZSPAGE_PAGE);
    }
    (pages * PAGE_SIZE as f64 * (1.0 + RETAINED), headers)
}

/// Returns the open classes with their numbers of objects. Like the pool's plan, this function
/// chooses the classes that waste the least memory. Rounding wastes memory in each object, and each
/// open class wastes half a page and a header.
fn opened<'c>(classes: &'c [ClassShape], counts: &[f64]) -> Vec<(&'c ClassShape, f64)> {
    let per_class = PAGE_SIZE as f64 / 2.0 + ZSPAGE;
    let (mut objects, mut bytes) = (vec![0.0], vec![0.0]);
    for (class, count) in classes.iter().zip(counts) {
        objects.push(objects[objects.len() - 1] + count);
        bytes.push(bytes[bytes.len() - 1] + count * class.size as f64);
    }
    // Element n describes the first n classes if class n is open. It holds the least cost and the
    // number of the previous open class.
    let mut cost: Vec<(f64, usize)> = vec![(0.0, 0)];
    for end in 1..=classes.len() {
        let size = classes[end - 1].size as f64;
        let from = |start: usize| {
            let count = objects[end] - objects[start];
            let opens = if count > 0.0 { per_class } else { 0.0 };
            (cost[start].0 + opens + count * size - (bytes[end] - bytes[start]), start)
        };
        let best = (0..end).map(from).min_by(|one, other| one.0.total_cmp(&other.0));
        cost.push(best.unwrap_or_default());
    }
    let mut open = Vec::new();
    let mut end = classes.len();
    while end > 0 {
        let start = cost[end].1;
        let count = objects[end] - objects[start];
        if count > 0.0 {
            open.push((&classes[end - 1], count));
        }
        end = start;
    }
    open
}

/// Returns the sampling error, in bytes, of `grows`, the part of the memory that grows with the
/// data. The error is computed from the differences between neighbouring clusters. A slow change
/// over all the data causes no error, because the clusters are spread evenly.
fn error(trial: &Trial, sample: &Sample, grows: f64) -> f64 {
    let clusters: Vec<f64> = trial.clusters.iter().map(|&bytes| bytes as f64).collect();
    let (count, sum) = (clusters.len() as f64, clusters.iter().sum::<f64>());
    let share = trial.pages as f64 / sample.population as f64;
    if share >= 1.0 {
        return 0.0;
    }
    let squares: f64 = clusters.windows(2).map(|pair| (pair[1] - pair[0]).powi(2)).sum();
    let differing = match (clusters.len(), sum) {
        (_, 0.0) => 0.0,
        (1, _) => grows,
        _ => {
            let variance = squares / (2.0 * (count - 1.0));
            let of_mean = (variance * (1.0 - share) / count).sqrt();
            STANDARD_ERRORS * of_mean / (sum / count) * grows
        }
    };
    // The variance of the sample does not show a rare kind of cluster that the sample lacks. So the
    // error is at least a minimum if all sampled clusters are alike, or if most of them are empty.
    let empty = clusters.iter().filter(|&&bytes| bytes == 0.0).count() as f64;
    if squares > 0.0 && 2.0 * empty <= count {
        return differing;
    }
    let rest = (sample.population * PAGE_SIZE as u64) as f64 * (1.0 - share);
    differing.max(rest * (UNSEEN / count).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::super::candidate::Kind;
    use super::super::population::Population;
    use super::super::sample::CLUSTER;
    use super::*;
    use measure::Interrupt;
    use testkit::seed;

    fn forecast_of(population: &dyn Population, sample_bytes: u64, nth: u64) -> Forecast {
        let interrupt = Interrupt::default();
        let sample = Sample::read(population, sample_bytes, seed(nth), &interrupt).unwrap();
        let trial = Trial::new(&candidate(), None, &sample, &interrupt).unwrap();
        of(&candidate(), None, &trial, &sample)
    }

    fn candidate() -> Candidate {
        Candidate { kind: Kind { codec: zcomp::by_name("zstd").unwrap(), level: 1 }, block: 4096 }
    }

    fn noise(bytes: usize, rng: &mut fastrand::Rng) -> Vec<u8> {
        let mut noise = vec![0; bytes];
        rng.fill(&mut noise);
        noise
    }

    struct Sparse {
        pages: u64,
        last: Vec<u8>,
    }

    impl Population for Sparse {
        fn pages(&self) -> u64 {
            self.pages
        }

        fn read(&self, first: u64, buf: &mut [u8]) -> bool {
            buf.fill(0);
            let from = self.pages - (self.last.len() / PAGE_SIZE) as u64;
            for (page, number) in buf.chunks_mut(PAGE_SIZE).zip(first..) {
                if let Some(nth) = number.checked_sub(from) {
                    page.copy_from_slice(&self.last[nth as usize * PAGE_SIZE..][..PAGE_SIZE]);
                }
            }
            true
        }
    }

    #[test]
    fn what_a_sample_has_not_seen_is_in_the_error() {
        let mut rng = fastrand::Rng::with_seed(seed(8));
        for bytes in [8 << 20, 16 << 10] {
            let last = noise(bytes, &mut rng);
            for nth in 0..8 {
                let sparse = Sparse { pages: 1 << 18, last: last.clone() };
                let Forecast { memory, error, .. } = forecast_of(&sparse, 1 << 20, nth);
                // The table of slots uses 2 MiB.
                let taken = (bytes + (2 << 20)) as f64;
                assert!(memory + error > taken && memory - error < taken, "{memory} +- {error}");
                assert!(error >= (160 << 20) as f64, "16 clusters of GiBs tell so little: {error}");
            }
            let all = Sparse { pages: (bytes / PAGE_SIZE) as u64, last: last.clone() };
            assert!(forecast_of(&all, 64 << 20, 1).error == 0.0, "nothing is unseen");
        }
    }

    #[test]
    fn a_dictionary_gives_what_was_forecast_whatever_the_order_of_the_data() {
        let mut rng = fastrand::Rng::with_seed(seed(9));
        // Each of two kinds of clusters repeats its own pieces.
        let pieces = [noise(6400, &mut rng), noise(6400, &mut rng)];
        let orders: [fn(usize) -> bool; 3] =
            [|nth| nth % 4 == 0, |nth| nth < 128, |nth| nth % 2 > 0];
        for order in orders {
            let kinds = (0..256).map(|nth| &pieces[usize::from(order(nth))]);
            let clusters: Vec<Vec<u8>> = kinds
                .map(|of| {
                    // One half of each cluster consists of pieces of its kind, and the other half
                    // is noise.
                    let mut cluster = noise(CLUSTER, &mut rng);
                    for piece in cluster.chunks_mut(128) {
                        piece[..64].copy_from_slice(&of.as_chunks::<64>().0[rng.usize(0..100)]);
                    }
                    cluster
                })
                .collect();
            let pages = clusters.concat();
            let interrupt = Interrupt::default();
            let all = Sparse { pages: (pages.len() / PAGE_SIZE) as u64, last: pages.clone() };
            let sample = Sample::read(&all, u64::MAX, seed(9), &interrupt).unwrap();
            let dictionary = sample.dictionary(4096).unwrap();
            let trial = Trial::new(&candidate(), Some(&dictionary), &sample, &interrupt).unwrap();
            let Forecast { memory, error, .. } =
                of(&candidate(), Some(&dictionary), &trial, &sample);
            let config = Config::new(pages.len() as u64).unwrap();
            let params = Params { level: Some(1), dictionary: Some(dictionary) };
            let algorithm = candidate().kind.codec;
            let device = Device::new(Config { algorithm, params, ..config }).unwrap();
            device.write(0, &pages).unwrap();
            let mut taken = 0.0;
            // The device soon releases the retained pages.
            testkit::wait::until("it takes what was forecast", || {
                taken = device.mem_total() as f64;
                println!("{memory} +- {error}, and it takes {taken}");
                (memory - taken).abs() < 0.03 * taken + 1.5 * error
            });
            assert!(taken < 0.7 * pages.len() as f64, "it gives nothing: {taken}");
        }
    }

    fn classes() -> Vec<ClassShape> {
        Geometry::Native { order: 0 }.table().unwrap().classes().to_vec()
    }

    #[test]
    fn many_objects_open_many_classes() {
        let classes = classes();
        let open = |each: f64| opened(&classes, &vec![each; classes.len()]);
        let (few, many) = (open(0.1), open(1000.0));
        assert!(few.len() < 40 && many.len() > 400, "{} {}", few.len(), many.len());
        let all: f64 = few.iter().map(|(_, count)| count).sum();
        assert!((all - 0.1 * classes.len() as f64).abs() < 1e-6);
        assert!(opened(&classes, &vec![0.0; classes.len()]).is_empty());
    }

    #[test]
    fn the_set_is_the_cheapest() {
        // Any set of these four classes can be open if the set contains the largest class.
        let classes: Vec<ClassShape> = classes().into_iter().step_by(120).take(4).collect();
        let per_class = PAGE_SIZE as f64 / 2.0 + ZSPAGE;
        let mut rng = fastrand::Rng::with_seed(seed(7));
        for _ in 0..200 {
            let counts: Vec<f64> = (0..4).map(|_| f64::from(rng.u32(0..8))).collect();
            let cost_of = |open: &[(&ClassShape, f64)]| -> f64 {
                open.iter().map(|(class, count)| per_class + class.size as f64 * count).sum()
            };
            let found = cost_of(&opened(&classes, &counts));
            let of_set = |set: u32| {
                let mut open: Vec<(&ClassShape, f64)> = Vec::new();
                let mut waiting = 0.0;
                for (nth, (class, count)) in classes.iter().zip(&counts).enumerate() {
                    waiting += count;
                    if (set >> nth & 1 == 1 || nth == 3) && waiting > 0.0 {
                        open.push((class, std::mem::take(&mut waiting)));
                    }
                }
                cost_of(&open)
            };
            let least = (0..8).map(of_set).fold(f64::INFINITY, f64::min);
            assert!((found - least).abs() < 1e-6, "{counts:?}: {found} {least}");
        }
    }
}
