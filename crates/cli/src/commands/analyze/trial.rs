//! Tries a candidate: stores the sample on a real device, and reads it back.

use super::candidate::Candidate;
use super::sample::{CLUSTER, Sample};
use crate::commands::policy::COUNTER_LOOKS;
use crate::error::{Error, failed};
use measure::Interrupt;
use measure::clock::{Clock, Stopwatch};
use measure::page::PAGE_SIZE;
use std::collections::BTreeMap;
use zcomp::{Dictionary, Params};
use zram::{Compaction, Config, Device};

#[derive(Default)]
pub(super) struct Trial {
    /// The number of objects of each length.
    pub(super) objects: BTreeMap<usize, u64>,
    /// The total length of each cluster's objects in bytes, in the order of the clusters.
    pub(super) clusters: Vec<u64>,
    pub(super) pages: u64,
    /// The number of same-filled pages, including those in blocks with other pages.
    pub(super) same_filled: u64,
    /// The memory of the empty device in bytes.
    pub(super) empty: u64,
    /// The size of the dictionary in bytes.
    pub(super) dictionary: usize,
    /// Seconds of processor time: to store all pages, to read all pages in order, and to read one
    /// page of each cluster.
    pub(super) store: f64,
    pub(super) read: f64,
    pub(super) read_one: f64,
}

impl Trial {
    /// Tries a candidate. Without a dictionary, stores the whole sample. With a dictionary, stores
    /// only clusters that did not train the dictionary.
    pub(super) fn new(
        candidate: &Candidate,
        dictionary: Option<&Dictionary>,
        sample: &Sample,
        interrupt: &Interrupt,
    ) -> Result<Self, Error> {
        let clusters: Vec<&[u8]> = match dictionary {
            Some(_) => sample.held_out().collect(),
            None => sample.clusters().collect(),
        };
        let device = device(candidate, dictionary, clusters.len())?;
        let mut trial = Trial {
            pages: clusters.iter().map(|cluster| (cluster.len() / PAGE_SIZE) as u64).sum(),
            empty: device.mem_total(),
            dictionary: dictionary.map_or(0, |dictionary| dictionary.bytes().len()),
            ..Trial::default()
        };
        trial.store(&device, candidate.block, &clusters, interrupt)?;
        trial.read(&device, &clusters, interrupt)?;
        trial.same_filled = device.mm_stat().same_pages;
        Ok(trial)
    }

    /// Stores the clusters block by block. Each write grows `compr_data_size` by the length of the
    /// block's object.
    fn store(
        &mut self,
        device: &Device,
        block: usize,
        clusters: &[&[u8]],
        interrupt: &Interrupt,
    ) -> Result<(), Error> {
        let stored = || device.mm_stat().compr_data_size;
        let mut watch = Stopwatch::new(Clock::ThreadCpu);
        watch.time(|| (0..COUNTER_LOOKS).for_each(|_| _ = std::hint::black_box(stored())));
        let look = watch.seconds() / COUNTER_LOOKS as f64;
        let mut watch = Stopwatch::new(Clock::ThreadCpu);
        let (mut before, mut looks) = (stored(), 0);
        for (nth, cluster) in clusters.iter().enumerate() {
            interrupt.check()?;
            let first = before;
            let whole = cluster.len() / block * block;
            // The end of a cluster, shorter than a block, is stored page by page.
            let (blocks, rest) = cluster.split_at(whole);
            let pieces = blocks.chunks(block).chain(rest.chunks(PAGE_SIZE));
            let mut at = (nth * CLUSTER) as u64;
            let mut lens = [0; CLUSTER / PAGE_SIZE];
            let mut count = 0;
            watch.time(|| {
                for piece in pieces {
                    device.write(at, piece)?;
                    at += piece.len() as u64;
                    let now = stored();
                    lens[count] = now - before;
                    (count, before) = (count + 1, now);
                }
                Ok::<(), zram::Error>(())
            })?;
            looks += count;
            lens[..count].iter().filter(|&&len| len > 0).for_each(|&len| {
                *self.objects.entry(len as usize).or_default() += 1;
            });
            self.clusters.push(before - first);
        }
        self.store = (watch.seconds() - look * looks as f64).max(0.0);
        Ok(())
    }

    /// Reads all clusters in order, then one page of each cluster, and compares the data with the
    /// sample.
    fn read(
        &mut self,
        device: &Device,
        clusters: &[&[u8]],
        interrupt: &Interrupt,
    ) -> Result<(), Error> {
        let mut back = vec![1; CLUSTER];
        let mut watch = Stopwatch::new(Clock::ThreadCpu);
        for (nth, cluster) in clusters.iter().enumerate() {
            interrupt.check()?;
            let back = &mut back[..cluster.len()];
            watch.time(|| device.read((nth * CLUSTER) as u64, back))?;
            same(back, cluster)?;
        }
        self.read = watch.seconds();
        let mut watch = Stopwatch::new(Clock::ThreadCpu);
        // Each read is in another cluster, so no read finds its block already decompressed.
        for (nth, cluster) in clusters.iter().enumerate() {
            let page = nth * 7 % (cluster.len() / PAGE_SIZE) * PAGE_SIZE;
            let back = &mut back[..PAGE_SIZE];
            watch.time(|| device.read((nth * CLUSTER + page) as u64, back))?;
            same(back, &cluster[page..page + PAGE_SIZE])?;
        }
        self.read_one = watch.seconds();
        Ok(())
    }
}

fn same(back: &[u8], stored: &[u8]) -> Result<(), Error> {
    let other = "a device read back other bytes than were stored; please report it";
    (back == stored).then_some(()).ok_or_else(|| failed(other))
}

/// Returns a device for one thread. The device does no background work, which the measured time
/// would include.
fn device(
    candidate: &Candidate,
    dictionary: Option<&Dictionary>,
    clusters: usize,
) -> Result<Device, Error> {
    let params = Params { level: Some(candidate.kind.level), dictionary: dictionary.cloned() };
    Ok(Device::new(Config {
        block: candidate.block,
        algorithm: candidate.kind.codec,
        params,
        streams: Some(1),
        compaction: Compaction::Off,
        ..Config::new((clusters * CLUSTER) as u64)?
    })?)
}
