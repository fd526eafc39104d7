//! Tests requests of every length by eight threads while limits and attributes change. The data are
//! compared with shadows.
#![allow(clippy::unwrap_used)]

use fastrand::Rng;
use page::page_size;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use testkit::contents::data;
use testkit::load::Stop;
use testkit::shadow::Shadow;
use testkit::{is_long, seed};
use zram::{Access, Error, SLOT_BYTES, Zram, attributes};

const THREADS: usize = 8;
/// The length of each thread's part of the device, in bytes. The length is not a multiple of a slot
/// or a page, so that adjacent parts share a slot.
const STRETCH: usize = (5 << 19) + 1234;
const LONGEST: usize = 1 << 20;

/// Returns a random range. The logarithm of the length is uniformly distributed, so that both short
/// and long ranges occur.
fn range(rng: &mut Rng, bytes: usize) -> Range<usize> {
    let len = (1usize << rng.u32(..=20)).min(LONGEST);
    let len = rng.usize(len / 2 + 1..=len);
    let at = rng.usize(..=bytes - len);
    match rng.u32(..3) {
        0 => {
            let start = at.next_multiple_of(SLOT_BYTES).min(bytes);
            start..(start + len.next_multiple_of(SLOT_BYTES)).min(bytes)
        }
        _ => at..at + len,
    }
}

/// Executes requests in a thread's own part, and returns the number of requests for which memory
/// was refused.
fn requests<D: std::borrow::Borrow<zram::Device>>(
    shadow: &mut Shadow<D>,
    rng: &mut Rng,
    count: usize,
) -> u64 {
    let mut refused = 0;
    for _ in 0..count {
        let range = range(rng, shadow.bytes.len());
        let done = match rng.u32(..16) {
            0..7 => shadow.write(range.start, &data(rng, range.len())),
            7 | 8 => shadow.discard(range.start, range.len()),
            9 => shadow.device.borrow().flush(),
            _ => {
                shadow.compare(range.start, range.len());
                Ok(())
            }
        };
        match done {
            Ok(()) => {}
            Err(Error::OutOfMemory { .. }) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    refused
}

/// Changes limits and reads attributes. Counts in `marked` the number of times that slots were
/// marked idle.
fn disturb(zram: &Zram, rng: &mut Rng, marked: &AtomicU64, stop: &AtomicBool) {
    let size = |rng: &mut Rng| (rng.u64(300..3500) * page_size() as u64).to_string();
    while !stop.load(Relaxed) {
        match rng.u32(..20) {
            0 => zram.store("mem_limit", &size(rng)).unwrap(),
            1 => zram.store("total_limit", &size(rng)).unwrap(),
            2 => zram.store(["mem_limit", "total_limit"][rng.usize(..2)], "0").unwrap(),
            3 => zram.store("compact", "1").unwrap(),
            4 => zram.store("mem_used_max", "0").unwrap(),
            5 => {
                zram.store("idle", "all").unwrap();
                marked.fetch_add(1, Relaxed);
            }
            6 => zram.store("idle", &rng.u32(..3).to_string()).unwrap(),
            7 => assert_eq!(zram.store("reset", "1").unwrap_err().errno(), 16),
            8 => assert_eq!(zram.store("disksize", "1M").unwrap_err().errno(), 16),
            _ => {
                let attribute = attributes()[rng.usize(..attributes().len())];
                if attribute.access() != Access::Write {
                    zram.show(attribute.name).unwrap();
                }
            }
        }
        std::thread::sleep(Duration::from_micros(rng.u64(..2000)));
    }
}

fn run((algorithm, geometry, block): (&str, &str, &str), count: usize, seed: u64) {
    let zram = Zram::new();
    for (name, value) in [
        ("comp_algorithm", algorithm),
        ("geometry", geometry),
        ("block_size", block),
        ("track_access", "1"),
        ("disksize", &(THREADS * STRETCH).to_string()),
    ] {
        zram.store(name, value).unwrap();
    }
    let device = zram.open().unwrap();
    let mut shadows: Vec<_> =
        (0..THREADS).map(|nth| Shadow::of(&*device, nth * STRETCH, STRETCH)).collect();
    let (refused, marked, stop) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let (zram, refused, marked, stop) = (&zram, &refused, &marked, &stop);
        scope.spawn(move || {
            let _stop = Stop(stop);
            disturb(zram, &mut Rng::with_seed(seed), marked, stop);
        });
        let _stop = Stop(stop);
        let threads = shadows.iter_mut().zip(seed + 1..).map(|(shadow, seed)| {
            scope.spawn(move || {
                let mut rng = Rng::with_seed(seed);
                // The loop continues until a request was refused and slots were marked idle.
                while {
                    refused.fetch_add(requests(shadow, &mut rng, count / THREADS), Relaxed);
                    let is_wanting = refused.load(Relaxed) == 0 || marked.load(Relaxed) == 0;
                    is_wanting && !stop.load(Relaxed)
                } {}
            })
        });
        threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
    });
    let (refused, marked) = (refused.into_inner(), marked.into_inner());
    println!("{algorithm}, {geometry}, {block}: {refused} refused, marked {marked} times");
    assert_eq!(device.io_stat().failed_writes, refused);
    device.check();
    shadows.iter().for_each(|shadow| shadow.compare(0, STRETCH));
    zram.set_mem_limit(Some(1));
    zram.set_total_limit(Some(1));
    device.discard(0, device.disksize()).unwrap();
    device.check();
    assert_eq!((device.mm_stat().orig_data_size, device.block_state().count()), (0, 0));
    drop(shadows);
    drop(device);
    zram.reset().unwrap();
}

#[test]
fn stress_requests_of_every_length() {
    let count = if is_long() { 5_000_000 } else { 100_000 };
    let seed = seed(60);
    for (nth, (kind, tenths)) in [
        (("lz4", "native", "4K"), 3),
        (("zstd", "native", "4K"), 1),
        (("lz4", "kernel", "4K"), 1),
        (("lz4", "native", "8K"), 1),
        (("lz4", "native", "16K"), 2),
        (("zstd", "native", "32K"), 1),
        (("lz4", "kernel chain=16", "64K"), 1),
    ]
    .into_iter()
    .enumerate()
    {
        run(kind, count / 10 * tenths, seed + 100 * nth as u64);
    }
}
