//! A candidate on the sample: it is stored on a real device, and read back.

use super::candidate::Candidate;
use super::sample::{CLUSTER, Sample};
use crate::clock::{Clock, Stopwatch};
use crate::error::Error;
use crate::interrupt::Interrupt;
use crate::page::PAGE_SIZE;
use std::collections::BTreeMap;
use zcomp::{Dictionary, Params};
use zram::{Compaction, Config, Device};

/// How often the clock's own cost is measured.
const LOOKS: usize = 1000;

/// What came of it.
pub(super) struct Trial {
    /// How many objects there are of each length, with their pages in all.
    pub(super) objects: BTreeMap<usize, u64>,
    /// Bytes of each cluster's objects, in order.
    pub(super) clusters: Vec<u64>,
    pub(super) pages: u64,
    /// Pages of one word, and of them those that lie in a block with others.
    pub(super) same_filled: u64,
    /// Bytes that the device takes without any data.
    pub(super) empty: u64,
    /// Bytes that it took with the sample.
    pub(super) filled: u64,
    /// Bytes of the dictionary.
    pub(super) dictionary: usize,
    /// Seconds of processor time: for all pages stored, all read in order, and one of each cluster
    /// read by itself.
    pub(super) store: f64,
    pub(super) read: f64,
    pub(super) read_one: f64,
}

impl Trial {
    /// Stores the sample, or of one with a dictionary what that was not trained with.
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
            objects: BTreeMap::new(),
            clusters: Vec::with_capacity(clusters.len()),
            pages: clusters.iter().map(|cluster| (cluster.len() / PAGE_SIZE) as u64).sum(),
            same_filled: 0,
            empty: device.mem_total(),
            filled: 0,
            dictionary: dictionary.map_or(0, |dictionary| dictionary.bytes().len()),
            store: 0.0,
            read: 0.0,
            read_one: 0.0,
        };
        trial.store(&device, candidate.block, &clusters, interrupt)?;
        trial.read(&device, &clusters, interrupt)?;
        trial.filled = device.mem_total();
        trial.same_filled = device.mm_stat().same_pages;
        Ok(trial)
    }

    /// Stores block by block: how long each object is, the device tells by its sum.
    fn store(
        &mut self,
        device: &Device,
        block: usize,
        clusters: &[&[u8]],
        interrupt: &Interrupt,
    ) -> Result<(), Error> {
        let stored = || device.mm_stat().compr_data_size;
        let mut watch = Stopwatch::new(Clock::ThreadCpu);
        watch.time(|| (0..LOOKS).for_each(|_| _ = std::hint::black_box(stored())));
        let look = watch.seconds() / LOOKS as f64;
        let mut watch = Stopwatch::new(Clock::ThreadCpu);
        let (mut before, mut looks) = (stored(), 0);
        for (nth, cluster) in clusters.iter().enumerate() {
            interrupt.check()?;
            let first = before;
            let whole = cluster.len() / block * block;
            // What fills no block is stored by pages.
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

    /// Reads all in order, then one page of each cluster, and compares.
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
        // Far from each other, so that none is found decompressed.
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
    match back == stored {
        true => Ok(()),
        false => Err(Error::Failed(
            "a device read back other bytes than were stored; please report it".to_owned(),
        )),
    }
}

/// One thread's, and nothing works in the background: the time is the requests'.
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
