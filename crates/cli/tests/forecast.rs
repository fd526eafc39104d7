//! Compares the memory that `uzram analyze` forecasts for real files with the memory of a device.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;
use support::{PAGE, UZRAM, end};
use testkit::seed;
use zram::{Config, Device, Params, by_name};

/// The maximum error of a forecast, relative to the device's memory, without the sampling error.
const OFF_MAX: f64 = 0.03;

/// The time after which a device has released the memory that it retained for further stores.
const SETTLED: Duration = Duration::from_secs(1);

/// The sizes in bytes of the files, and of a small sample of the files.
const BYTES: usize = 96 << 20;
const SAMPLE: usize = 16 << 20;

/// Returns the contents of the largest libraries of this machine. Each library is padded to whole
/// pages.
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
        pages.resize(pages.len().next_multiple_of(PAGE), 0);
    }
    pages.truncate(BYTES);
    pages
}

/// Samples at most `bytes` bytes of `file`. Returns the forecasts for compression without a
/// dictionary.
fn forecasts(file: &Path, bytes: usize) -> Vec<Value> {
    let mut command = Command::new(UZRAM);
    command.args(["analyze", "--json", "--try", "lz4:1", "--try", "zstd:1"]).arg(file);
    command.args(["--sample", &bytes.to_string(), "--seed", &seed(5).to_string()]);
    let rows = end(&mut command).json()["candidates"].take();
    let is_plain = |row: &&Value| row["dictionary_bytes"] == 0;
    rows.as_array().unwrap().iter().filter(is_plain).cloned().collect()
}

/// A forecast from all the data tests only the arithmetic. A forecast from a sixth of the data also
/// tests the sampling.
#[test]
fn devices_take_what_was_forecast() {
    let (dir, pages) = (tempfile::tempdir().unwrap(), libraries());
    let file = dir.path().join("pages");
    std::fs::write(&file, &pages).unwrap();
    let (whole, part) = (forecasts(&file, BYTES), forecasts(&file, SAMPLE));
    assert_eq!((whole.len(), part.len()), (6, 6), "two algorithms and three blocks");
    for (whole, part) in whole.into_iter().zip(part) {
        let number = |row: &Value, name: &str| row[name].as_f64().unwrap();
        let params = Params { level: Some(number(&whole, "level") as i32), ..Params::default() };
        let algorithm = by_name(whole["algorithm"].as_str().unwrap()).unwrap();
        let block = number(&whole, "block_bytes") as usize;
        let config = Config::new(pages.len() as u64).unwrap();
        let device = Device::new(Config { algorithm, params, block, ..config }).unwrap();
        for (nth, piece) in pages.chunks(64 << 10).enumerate() {
            device.write((nth << 16) as u64, piece).unwrap();
        }
        sleep(SETTLED);
        let taken = device.mem_total() as f64;
        let off = |row: &Value| number(row, "memory_bytes") / taken - 1.0;
        let (of_all, of_part) = (off(&whole), off(&part));
        let error = number(&part, "error_bytes") / taken;
        println!("{} {block}: {of_all:+.4}, {of_part:+.4} +/- {error:.4}", whole["algorithm"]);
        let is_exact = number(&whole, "error_bytes") == 0.0;
        assert!(is_exact && of_all.abs() <= OFF_MAX, "{whole}: {taken}");
        // In one of 50 samples, the error is more than 1.5 times the reported error.
        assert!(of_part.abs() <= OFF_MAX + 1.5 * error && error < 0.1, "{part}: {taken}");
    }
}
