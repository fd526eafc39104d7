//! What a device takes for all the data, from the objects of a sample.
//!
//! ```text
//!   lengths, scaled -> open size classes, as the pool's plan has them -> pages, tables -> memory
//! ```
//! A device with the sample alone would tell too much: a pool has fewer classes the smaller it is,
//! so its objects are rounded up further. So the pool's arithmetic is done with as many objects as
//! there will be; `bench analyze` compares it with devices that have all of the data.

use super::candidate::Candidate;
use super::sample::{CLUSTER_PAGES, Sample};
use super::trial::Trial;
use crate::page::PAGE_SIZE;
use zram::{ClassShape, Config, Device, Geometry};

/// Bytes of an entry, and of an object in the header of its zspage: a number, and a bit.
const ENTRY: f64 = 8.0;
const IN_HEADER: f64 = 4.125;

/// Bytes of a zspage beside that: of its header, its descriptor and their own tables, and for each
/// of its pages.
const ZSPAGE: f64 = 110.0;
const ZSPAGE_PAGE: f64 = 0.5;

/// Of the pages, what is retained for the next objects, on the average.
const RETAINED: f64 = 1.0 / 512.0;

/// Within so many standard errors 95 of 100 samples are.
const STANDARD_ERRORS: f64 = 1.96;

/// What all the data come to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Forecast {
    /// Bytes of memory, everything counted.
    pub(super) memory: f64,
    /// By how many bytes that may be off, in 95 of 100 samples.
    pub(super) error: f64,
    /// Bytes of the pool's pages, of which the kernel's limit is.
    pub(super) pool: f64,
}

/// Returns what all the data would come to.
pub(super) fn of(candidate: &Candidate, trial: &Trial, sample: &Sample) -> Forecast {
    let scale = sample.population as f64 / trial.pages as f64;
    let order = (candidate.block / PAGE_SIZE).ilog2();
    // There are classes for every block.
    let classes = Geometry::Native { order }.table().map(|table| table.classes().to_vec());
    let classes = classes.unwrap_or_default();
    let mut counts = vec![0.0; classes.len()];
    for (&len, &count) in &trial.objects {
        let at = classes.partition_point(|class| class.capacity < len);
        if let Some(of_class) = counts.get_mut(at) {
            *of_class += count as f64 * scale;
        }
    }
    let objects: f64 = counts.iter().sum();
    let (mut pages, mut headers) = (0.0, objects * IN_HEADER);
    for (shape, count) in opened(&classes, &counts) {
        let zspages = count / shape.objects as f64;
        pages += zspages * shape.pages as f64 + 0.5;
        headers += (zspages + 0.5) * (ZSPAGE + shape.pages as f64 * ZSPAGE_PAGE);
    }
    let pool = pages * PAGE_SIZE as f64 * (1.0 + RETAINED);
    let slots = sample.population as f64;
    let entries = match candidate.block {
        PAGE_SIZE => slots,
        block => slots / (block / PAGE_SIZE) as f64 + trial.same_filled as f64 * scale,
    };
    let grows = pool + headers + entries * ENTRY;
    let memory = fixed(candidate, trial, sample) + grows;
    let error = grows * error(trial, sample) + unseen(trial, sample);
    Forecast { memory, error, pool }
}

/// Returns the bytes that may come where all that was seen is of one word, and takes nothing: of
/// what is in fewer than three of so many clusters, 95 of 100 samples have some.
fn unseen(trial: &Trial, sample: &Sample) -> f64 {
    if trial.pages >= sample.population || trial.clusters.iter().any(|bytes| *bytes > 0) {
        return 0.0;
    }
    let share = 3.0 / trial.clusters.len().max(3) as f64;
    share * (sample.population * PAGE_SIZE as u64) as f64
}

/// Returns the bytes that the device has without data, with a stream for each processor.
fn fixed(candidate: &Candidate, trial: &Trial, sample: &Sample) -> f64 {
    let empty = Config::new(sample.population * PAGE_SIZE as u64).and_then(|config| {
        let (block, algorithm) = (candidate.block, candidate.kind.codec);
        let mut config = Config { block, algorithm, ..config };
        config.params.level = Some(candidate.kind.level);
        Device::new(config)
    });
    let empty = empty.map_or(trial.empty, |device| device.mem_total());
    // With a dictionary one stream was there, and its digest.
    empty.max(trial.empty) as f64
}

/// Returns the classes that are open, with their objects: the set for which rounding up and the
/// last page of each class take least, as the pool plans it.
fn opened<'c>(classes: &'c [ClassShape], counts: &[f64]) -> Vec<(&'c ClassShape, f64)> {
    let per_class = PAGE_SIZE as f64 / 2.0 + ZSPAGE;
    let (mut objects, mut bytes) = (vec![0.0], vec![0.0]);
    for (class, count) in classes.iter().zip(counts) {
        objects.push(objects[objects.len() - 1] + count);
        bytes.push(bytes[bytes.len() - 1] + count * class.size as f64);
    }
    // The least cost with the first so many classes, the last of them open; and the one before.
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

/// Returns by what share the sum may be off, since clusters differ. Neighbours are compared, as
/// clusters are spread evenly: what changes slowly from the first to the last is in the sample as
/// it is in the data.
fn error(trial: &Trial, sample: &Sample) -> f64 {
    let clusters: Vec<f64> = trial.clusters.iter().map(|&bytes| bytes as f64).collect();
    let (count, sum) = (clusters.len() as f64, clusters.iter().sum::<f64>());
    let share = trial.pages as f64 / sample.population as f64;
    if share >= 1.0 || sum == 0.0 {
        return 0.0;
    }
    if clusters.len() < 2 {
        return 1.0;
    }
    let squares: f64 = clusters.windows(2).map(|pair| (pair[1] - pair[0]).powi(2)).sum();
    let variance = squares / (2.0 * (count - 1.0));
    let of_mean = (variance * (1.0 - share) / count).sqrt();
    STANDARD_ERRORS * of_mean / (sum / count)
}

/// Returns how many clusters there are in all.
pub(super) fn clusters(sample: &Sample) -> u64 {
    sample.population.div_ceil(CLUSTER_PAGES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::seed;

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
        // Of four classes any set that has the last.
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
