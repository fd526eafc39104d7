//! The memory that `uzram analyze` forecasts for real files, compared with the memory of a device.

#![allow(clippy::unwrap_used, reason = "tests")]

use measure::analyze::forecast;
use measure::page::PAGE_SIZE;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;
use testkit::seed;
use zram::{Config, Device, Params, by_name};

/// The maximum error relative to the device's memory, in addition to the sampling error.
const OFF_MAX: f64 = 0.03;

/// The time after which a device has released the memory that it kept for further stores.
const SETTLED: Duration = Duration::from_secs(1);

/// The bytes of files, and of the small sample of them.
const BYTES: usize = 96 << 20;
const SAMPLE: u64 = 16 << 20;

/// Returns the largest libraries of this machine, each padded to whole pages.
fn libraries() -> Vec<u8> {
    let dir = Path::new("/usr/lib").join(format!("{}-linux-gnu", std::env::consts::ARCH));
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let files = entries.filter(|entry| entry.file_type().unwrap().is_file());
    let mut files: Vec<_> =
        files.map(|entry| (entry.metadata().unwrap().len(), entry.path())).collect();
    files.sort_unstable();
    let mut pages = Vec::new();
    while let Some((_, path)) = files.pop().filter(|_| pages.len() < BYTES) {
        pages.extend(std::fs::read(path).unwrap());
        pages.resize(pages.len().next_multiple_of(PAGE_SIZE), 0);
    }
    pages.truncate(BYTES);
    pages
}

/// A forecast from all the data tests the arithmetic alone; a forecast from a sixth of the data
/// also tests the sample.
#[test]
fn devices_take_what_was_forecast() {
    let pages = libraries();
    let blocks = [4 << 10, 16 << 10, 64 << 10];
    for (name, level) in [("lz4", 1), ("zstd", 1)] {
        let algorithm = by_name(name).unwrap();
        let of = |sample| forecast(&pages, (algorithm, level), &blocks, (sample, seed(5))).unwrap();
        for (whole, part) in of(u64::MAX).into_iter().zip(of(SAMPLE)) {
            let params = Params { level: Some(level), ..Params::default() };
            let config = Config::new(pages.len() as u64).unwrap();
            let config = Config { algorithm, params, block: whole.block, ..config };
            let device = Device::new(config).unwrap();
            for (nth, piece) in pages.chunks(64 << 10).enumerate() {
                device.write((nth << 16) as u64, piece).unwrap();
            }
            sleep(SETTLED);
            let taken = device.mem_total() as f64;
            let off = |memory: u64| memory as f64 / taken - 1.0;
            let (of_all, of_part) = (off(whole.memory), off(part.memory));
            let error = part.error as f64 / taken;
            println!("{name} {}: {of_all:+.4}, {of_part:+.4} +/- {error:.4}", whole.block);
            assert!(whole.error == 0 && of_all.abs() <= OFF_MAX, "{whole:?}: {taken}");
            // The error of one sample in 50 exceeds the stated error by more than half.
            assert!(of_part.abs() <= OFF_MAX + 1.5 * error && error < 0.1, "{part:?}: {taken}");
        }
    }
}
