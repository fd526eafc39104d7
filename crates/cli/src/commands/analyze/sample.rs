//! The sample: clusters of consecutive pages. The population is divided into equal parts, and one
//! cluster is drawn from each part.
//!
//! ```text
//!   population | part 0      | part 1      | part 2      |      parts of equal length
//!   sample     |   [cluster] |[cluster]    |    [cluster]|      16 pages, anywhere in the part
//! ```
//! A cluster is as large as the largest block, so all block sizes are tried on the same pages.

use super::population::Population;
use crate::commands::policy::{DICTIONARY_BYTES, TRAINED_MAX, TRAINING_ONE_OF};
use crate::error::Error;
use crate::progress::Progress;
use crate::text::{counted, human};
use measure::Interrupt;
use measure::page::PAGE_SIZE;
use zcomp::Dictionary;

/// The size of a cluster in pages, and in bytes.
pub(super) const CLUSTER_PAGES: u64 = 1 << zsmalloc::ORDER_MAX;
pub(super) const CLUSTER: usize = CLUSTER_PAGES as usize * PAGE_SIZE;

pub(super) struct Sample {
    /// The clusters in sequence. If the sample is the whole population, the last cluster may be
    /// shorter.
    data: Vec<u8>,
    /// The number of pages in the population.
    pub(super) population: u64,
    /// True if the sample is the whole population.
    pub(super) is_all: bool,
    /// The number of clusters that could not be read.
    pub(super) unread: u64,
    /// The ascending indices of the clusters that train a dictionary.
    training: Vec<usize>,
}

impl Sample {
    /// Draws a sample of at most `bytes` bytes.
    pub(super) fn read(
        population: &dyn Population,
        bytes: u64,
        seed: u64,
        interrupt: &Interrupt,
    ) -> Result<Self, Error> {
        let pages = population.pages();
        let clusters = pages.div_ceil(CLUSTER_PAGES);
        let taken = clusters.min(bytes / CLUSTER as u64);
        let is_all = taken == clusters;
        let progress = Progress::new("sampling", taken * CLUSTER as u64);
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut data = Vec::new();
        data.try_reserve_exact(taken as usize * CLUSTER).map_err(|_| {
            let bytes = human(taken * CLUSTER as u64);
            Error::Failed(format!("there is no memory for {bytes}; give a smaller --sample"))
        })?;
        let mut unread = 0;
        for part in 0..taken {
            interrupt.check()?;
            let of = |part: u64| {
                let before = u128::from(part) * u128::from(clusters) / u128::from(taken);
                before as u64
            };
            let first = rng.u64(of(part)..of(part + 1)) * CLUSTER_PAGES;
            let len = (pages - first).min(CLUSTER_PAGES);
            // The population's last cluster may be short. If the sample is only a part of the
            // population, a short cluster is moved back, so that it is whole.
            let first = if is_all { first } else { first.min(pages - CLUSTER_PAGES) };
            let len = if is_all { len } else { CLUSTER_PAGES };
            let at = data.len();
            data.resize(at + len as usize * PAGE_SIZE, 0);
            if !population.read(first, &mut data[at..]) {
                data.truncate(at);
                unread += 1;
            }
            progress.advance(CLUSTER as u64);
        }
        if data.is_empty() {
            return Err(Error::Failed(match unread {
                0 => "there is no page to sample: give files with something in them, or a process \
                      that has memory of its own"
                    .to_owned(),
                _ => format!(
                    "of {} that were drawn none can be read; give files that stay as they are, or \
                     a process that goes on",
                    counted(unread, "piece")
                ),
            }));
        }
        let training = training(data.len() / CLUSTER, &mut rng);
        Ok(Sample { data, population: pages, is_all: is_all && unread == 0, unread, training })
    }

    pub(super) fn clusters(&self) -> impl Iterator<Item = &[u8]> {
        self.data.chunks(CLUSTER)
    }

    /// Returns the clusters on which a dictionary is tried: those that do not train it.
    pub(super) fn held_out(&self) -> impl Iterator<Item = &[u8]> {
        let numbered = self.clusters().enumerate();
        let is_held = |nth: &usize| self.training.binary_search(nth).is_err();
        numbered.filter(move |(nth, _)| is_held(nth)).map(|(_, cluster)| cluster)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.data.len() as u64
    }

    /// Trains a dictionary for blocks of `block` bytes. Returns `None` if training fails, or if no
    /// cluster is left to try the dictionary on.
    pub(super) fn dictionary(&self, block: usize) -> Option<Dictionary> {
        let _progress = Progress::unknown("training");
        let training: Vec<u8> = self
            .training
            .iter()
            .flat_map(|nth| self.data[nth * CLUSTER..][..CLUSTER].chunks(block))
            .filter(|block| measure::page::same_filled(block).is_none())
            .flatten()
            .copied()
            .collect();
        let bytes =
            (training.len() / 100).clamp(*DICTIONARY_BYTES.start(), *DICTIONARY_BYTES.end());
        let trained = zcomp::train(&training, block, bytes).ok();
        trained.filter(|_| self.held_out().next().is_some())
    }
}

/// Chooses the clusters that train a dictionary, and returns their indices. One cluster is chosen
/// from each of several equal parts, because contiguous clusters would not represent all the data.
/// The choice within a part is random, because a fixed interval could match a period of the data.
fn training(clusters: usize, rng: &mut fastrand::Rng) -> Vec<usize> {
    let parts = clusters.div_ceil(TRAINING_ONE_OF).min(TRAINED_MAX / CLUSTER);
    let start = |part: usize| part * clusters / parts;
    (0..parts).map(|part| rng.usize(start(part)..start(part + 1))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::seed;

    /// A population in which each page is filled with its own number.
    struct Numbers(u64);

    impl Population for Numbers {
        fn pages(&self) -> u64 {
            self.0
        }

        fn read(&self, first: u64, buf: &mut [u8]) -> bool {
            for (page, number) in buf.chunks_mut(PAGE_SIZE).zip(first..) {
                page.as_chunks_mut::<8>().0.fill(number.to_ne_bytes());
            }
            // The cluster at page 32 can't be read.
            first != 32
        }
    }

    fn firsts(pages: u64, bytes: u64, seed: u64) -> (Vec<u64>, Sample) {
        let sample = Sample::read(&Numbers(pages), bytes, seed, &Interrupt::default()).unwrap();
        let number = |cluster: &[u8]| u64::from_ne_bytes(cluster[..8].try_into().unwrap());
        (sample.clusters().map(number).collect(), sample)
    }

    #[test]
    fn all_is_taken_where_there_is_no_more() {
        let (found, sample) = firsts(30, 1 << 20, seed(1));
        assert_eq!((found, sample.is_all, sample.bytes()), (vec![0, 16], true, 30 * 4096));
        let (found, sample) = firsts(50, 1 << 20, seed(1));
        assert_eq!((found, sample.is_all, sample.unread), (vec![0, 16, 48], false, 1));
        assert!(Sample::read(&Numbers(0), 1 << 20, seed(1), &Interrupt::default()).is_err());
    }

    #[test]
    fn each_part_has_a_cluster() {
        let pages = 100 * 64 * 16 + 5;
        let (found, sample) = firsts(pages, 64 * CLUSTER as u64, seed(3));
        assert_eq!((found.len(), sample.is_all), (64, false));
        for (part, first) in found.iter().enumerate() {
            let at = first / 16;
            assert!((part as u64 * 100..=(part as u64 + 1) * 100).contains(&at), "{part}: {at}");
        }
        assert_ne!(
            firsts(pages, 64 * CLUSTER as u64, seed(4)).0,
            found,
            "another seed, another sample"
        );
        assert!(sample.clusters().all(|cluster| cluster.len() == CLUSTER));
    }

    #[test]
    fn a_dictionary_is_trained_with_all_parts_of_the_sample_and_in_no_step_with_it() {
        let mut rng = fastrand::Rng::with_seed(seed(5));
        // `TRAINED_MAX` limits the training data of the largest sample to less than a quarter.
        for (clusters, expected) in [(4096, 128), (400, 100), (5, 2), (1, 1), (0, 0)] {
            let chosen = training(clusters, &mut rng);
            assert_eq!(chosen.len(), expected);
            for (part, nth) in chosen.iter().enumerate() {
                let part = part * clusters / expected..(part + 1) * clusters / expected;
                assert!(part.contains(nth), "{nth} is not in {part:?}");
            }
        }
        let of_four = |rest| training(400, &mut rng).iter().filter(|nth| *nth % 4 == rest).count();
        assert!((0..4).map(of_four).all(|count| count > 5), "it keeps step with every fourth");
    }

    #[test]
    fn what_trains_a_dictionary_is_not_what_it_is_tried_on() {
        let (firsts, sample) = firsts(40 * 16 + 3, 64 << 20, seed(6));
        let number = |cluster: &[u8]| u64::from_ne_bytes(cluster[..8].try_into().unwrap());
        let held: Vec<u64> = sample.held_out().map(number).collect();
        let trained: Vec<u64> = sample.training.iter().map(|&nth| firsts[nth]).collect();
        assert!(trained.len() == 10 && held.len() == firsts.len() - 10);
        assert!(held.iter().all(|first| !trained.contains(first)));
    }
}
