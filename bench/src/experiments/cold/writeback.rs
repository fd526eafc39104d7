//! Idle pages written back to a file, relative to `dd` of the same compressed bytes; random reads
//! of them, relative to `pread` of the file.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use fastrand::Rng;
use measure::page::{PAGE_SIZE, same_filled};
use rustix::fs::{Advice, fadvise};
use zram::{BackingFile, Compaction, Config, Device, Selection, Which};

use super::files::{Scratch, seconds};
use super::{NAME, ROUNDS, median};
use crate::Error;
use crate::experiments::Request;
use crate::filled;
use crate::inputs::Input;
use crate::report::{Bound, Figure, Report};

/// The minimum throughput relative to `dd`, the maximum ratio of bytes on disk to compressed bytes,
/// and the maximum time of reads relative to `pread`.
const THROUGHPUT_MIN: f64 = 0.7;
const DISK_MAX: f64 = 1.05;
const READS_MAX: f64 = 1.3;
/// The number of reads of a round.
const READS: usize = 4000;

const REMEDY: &str = "give UZRAM_BENCH_DIR a directory with room";

pub(super) fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    for input in request.inputs(&[Input::Source]) {
        let pages = request.pages(input)?.load()?;
        let [store, copy, source] =
            ["store", "copy", "source"].map(|name| Scratch::new(&request.cache, name));
        let (store, copy, source) = (store?, copy?, source?);
        let (mut rates, mut disk, mut reads, mut warm) = (Vec::new(), 0.0, Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            let _ = std::fs::remove_file(store.path());
            let backing = BackingFile::create(store.path(), 2 * pages.len() as u64)
                .map_err(Error::file("make", store.path(), REMEDY))?;
            let config = Config::new(pages.len() as u64)?;
            let compaction = Compaction::Manual;
            let device =
                Device::new(Config { compaction, backing: Some(Arc::new(backing)), ..config })?;
            filled::write(&device, &pages)?;
            device.mark_idle()?;
            let begun = Instant::now();
            let done = device.write_back(&Selection::of(Which::Idle))?;
            let ours = begun.elapsed().as_secs_f64();
            let on_disk = store.open()?.metadata().map_or(0, |of| of.blocks() * 512);
            disk = on_disk as f64 / done.bytes as f64;
            copy_of(&store, &source, done.bytes)?;
            let _ = std::fs::remove_file(copy.path());
            let dd = seconds(
                Command::new("dd")
                    .arg(format!("if={}", source.path().display()))
                    .arg(format!("of={}", copy.path().display()))
                    .args(["bs=1M", "conv=fsync"]),
            )?;
            rates.push(dd / ours);
            let mut rng = Rng::with_seed(request.seed + round as u64);
            let whole =
                Whole { device: &device, pages: &pages, file: store.open()?, done: done.bytes };
            reads.push(whole.reads(&mut rng, true)?);
            warm.push(whole.reads(&mut rng, false)?);
            filled::verify(&device, &pages)?;
        }
        let named = |figure: &str| format!("writeback/{}/{figure}", input.name());
        let rate = Figure::new(NAME, named("throughput over dd with fsync"), median(&rates), "");
        report.add(rate.must(Bound::at_least(THROUGHPUT_MIN)))?;
        let disk = Figure::new(NAME, named("bytes on disk over compressed"), disk, "");
        report.add(disk.must(Bound::at_most(DISK_MAX)))?;
        let over = Figure::new(NAME, named("random reads over pread"), median(&reads), "");
        report.add(over.must(Bound::at_most(READS_MAX)))?;
        let over = Figure::new(
            NAME,
            named("random reads over pread, from the page cache"),
            median(&warm),
            "",
        );
        report.add(over)?;
    }
    Ok(())
}

/// Copies the first `bytes` bytes of the store to `source`, from which `dd` reads them.
fn copy_of(store: &Scratch, source: &Scratch, bytes: u64) -> Result<(), Error> {
    let mut from = std::io::Read::take(store.open()?, bytes);
    let copied = File::create(source.path()).and_then(|mut to| std::io::copy(&mut from, &mut to));
    copied.map_err(Error::file("write", source.path(), REMEDY))?;
    source.sync()
}

/// The pages that were written back, and the file that contains them.
struct Whole<'a> {
    device: &'a Device,
    pages: &'a [u8],
    file: File,
    done: u64,
}

impl Whole<'_> {
    /// Returns the time of reads through the device, relative to the time of the same number of
    /// reads of the file itself, from disk or from the page cache.
    fn reads(&self, rng: &mut Rng, from_disk: bool) -> Result<f64, Error> {
        let mut slots: Vec<usize> = (0..self.pages.len() / PAGE_SIZE)
            .filter(|slot| same_filled(&self.pages[slot * PAGE_SIZE..][..PAGE_SIZE]).is_none())
            .collect();
        rng.shuffle(&mut slots);
        slots.truncate(READS);
        let blocks = self.done / PAGE_SIZE as u64;
        let mut offsets: Vec<u64> = (0..blocks).map(|block| block * PAGE_SIZE as u64).collect();
        rng.shuffle(&mut offsets);
        offsets.truncate(slots.len());
        let mut page = [0; PAGE_SIZE];
        self.settle(from_disk, &mut page)?;
        let begun = Instant::now();
        for &offset in &offsets {
            let read = self.file.read_exact_at(&mut page, offset);
            read.map_err(|source| Error::File {
                action: "read",
                path: "the store".into(),
                remedy: REMEDY,
                source,
            })?;
        }
        let pread = begun.elapsed().as_secs_f64();
        self.settle(from_disk, &mut page)?;
        let begun = Instant::now();
        for &slot in &slots {
            self.device.read((slot * PAGE_SIZE) as u64, &mut page)?;
            if page != self.pages[slot * PAGE_SIZE..][..PAGE_SIZE] {
                return Err(Error::Slot { slot: slot as u32 });
            }
        }
        Ok(begun.elapsed().as_secs_f64() / pread)
    }

    /// Removes the file from the page cache or reads it into the page cache, and turns off
    /// readahead.
    fn settle(&self, from_disk: bool, page: &mut [u8; PAGE_SIZE]) -> Result<(), Error> {
        let _ = fadvise(&self.file, 0, None, Advice::Random);
        if from_disk {
            let _ = fadvise(&self.file, 0, None, Advice::DontNeed);
            return Ok(());
        }
        for offset in (0..self.done / PAGE_SIZE as u64).map(|block| block * PAGE_SIZE as u64) {
            let _ = self.file.read_at(page, offset);
        }
        Ok(())
    }
}
