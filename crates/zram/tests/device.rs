//! Compares the device with a shadow array, and tests the device under load by eight threads.
#![allow(clippy::unwrap_used)]

use fastrand::Rng;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use testkit::device::{DeviceModel, Setup};
use testkit::disk::Disk;
use testkit::load::rounds;
use testkit::shadow::Shadow;
use testkit::{Run, load_time, run_any, scaled, seed};
use zram::{Compaction, Config, Device, Error, SLOT_BYTES};
use zsmalloc::{Geometry, KernelGeometry};

fn config(algorithm: &str, disksize: u64) -> Config {
    let algorithm = zcomp::by_name(algorithm).unwrap();
    Config { algorithm, ..Config::new(disksize).unwrap() }
}

#[test]
fn a_shadow_array_agrees() {
    let kernel = Geometry::Kernel(KernelGeometry::default());
    for (nth, algorithm, geometry, steps) in [
        (1, "lz4", Geometry::default(), 20_000),
        (2, "zstd", Geometry::default(), 10_000),
        (3, "lz4", kernel, 10_000),
    ] {
        let setup = Setup { algorithm, geometry, is_compacted: true, ..Setup::new(2 << 20) };
        let run =
            Run { seed: seed(nth), steps: scaled(steps, 50 * steps), first: 500, every: 1000 };
        let report = testkit::run::<DeviceModel>(setup, run).unwrap();
        println!("{algorithm}, {geometry:?}: {report:?}");
        assert!(report.left <= 64 * page::page_size() as u64, "{report:?}");
        assert!(report.smaller > 0, "{report:?}");
    }
}

/// The device agrees with a shadow for random geometries, block sizes and limits. Allocations and
/// the backing store can fail.
#[test]
fn any_device_agrees_with_its_shadow() {
    (400..scaled(440, 1000)).for_each(|nth| _ = run_any::<DeviceModel>(nth as u64, 1000));
}

/// Returns the content of a slot. The content consists of the numbers of the slot, the thread and
/// the version, and of bytes calculated from these numbers.
fn stamped(slot: u64, thread: u64, version: u64) -> Vec<u8> {
    let seed = slot << 40 | thread << 32 | version;
    let mut rng = Rng::with_seed(seed);
    let mut block = Vec::with_capacity(SLOT_BYTES);
    block.extend_from_slice(&seed.to_ne_bytes());
    while block.len() < SLOT_BYTES {
        let run = rng.usize(1..=200);
        let byte = rng.u8(..);
        block.resize((block.len() + run).min(SLOT_BYTES), byte);
    }
    block
}

fn expect_stamped(block: &[u8], slot: u64) {
    let seed = u64::from_ne_bytes(*block.first_chunk().unwrap());
    if seed == 0 {
        assert!(block.iter().all(|&byte| byte == 0), "slot {slot} is torn");
        return;
    }
    assert_eq!(seed >> 40, slot, "slot {slot} has another slot's bytes");
    assert!(block == stamped(slot, seed >> 32 & 0xff, seed & 0xffff_ffff), "slot {slot} is torn");
}

#[test]
fn stress_eight_threads_verify_every_read() {
    const SLOTS: u64 = 512;
    let device =
        Device::new(Config { streams: Some(3), ..config("lz4", SLOTS * SLOT_BYTES as u64) })
            .unwrap();
    let versions = AtomicU64::new(1);
    let seed = seed(122);
    std::thread::scope(|scope| {
        for thread in 1..=8u64 {
            let (device, versions) = (&device, &versions);
            scope.spawn(move || {
                let mut rng = Rng::with_seed(seed + thread);
                let mut block = vec![0; 4 * SLOT_BYTES];
                for _ in 0..scaled(12_000, 600_000) {
                    let slot = rng.u64(..SLOTS);
                    let at = slot * SLOT_BYTES as u64;
                    match rng.u32(..16) {
                        0..6 => {
                            let version = versions.fetch_add(1, Relaxed);
                            device.write(at, &stamped(slot, thread, version)).unwrap();
                        }
                        6 => device.discard(at, SLOT_BYTES as u64).unwrap(),
                        7 if rng.u32(..32) == 0 => drop(device.compact()),
                        7 => drop(device.mm_stat()),
                        _ => {
                            let count = rng.u64(1..=4).min(SLOTS - slot) as usize;
                            device.read(at, &mut block[..count * SLOT_BYTES]).unwrap();
                            for nth in 0..count {
                                expect_stamped(
                                    &block[nth * SLOT_BYTES..][..SLOT_BYTES],
                                    slot + nth as u64,
                                );
                            }
                        }
                    }
                }
            });
        }
    });
    device.check();
    device.discard(0, SLOTS * SLOT_BYTES as u64).unwrap();
    device.check();
    assert_eq!(device.mm_stat().orig_data_size, 0);
}

#[test]
fn stress_a_load_that_shifts() {
    let mut rng = Rng::with_seed(seed(121));
    let disk = Disk::new(Device::new(config("lz4", 8 << 20)).unwrap());
    rounds(&disk, &mut rng, load_time(Duration::from_secs(5)));
    disk.free_all();
}

/// If threads concurrently write different bytes of one slot, no write is lost.
#[test]
fn stress_partial_writes_of_one_slot() {
    let device = Device::new(config("lz4", 2 * SLOT_BYTES as u64)).unwrap();
    const THREADS: usize = 8;
    const SHARE: usize = 2 * SLOT_BYTES / THREADS;
    let seed = seed(123);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let device = &device;
            scope.spawn(move || {
                let mut rng = Rng::with_seed(seed + thread as u64);
                let mut mine = vec![0; SHARE];
                let start = thread * SHARE;
                for _ in 0..scaled(2_000, 100_000) {
                    let at = rng.usize(..SHARE);
                    let len = rng.usize(1..=SHARE - at);
                    mine[at..at + len].fill(rng.u8(..));
                    device.write((start + at) as u64, &mine[at..at + len]).unwrap();
                    let mut back = vec![0; SHARE];
                    device.read(start as u64, &mut back).unwrap();
                    assert!(back == mine, "thread {thread} lost a write");
                }
            });
        }
    });
    device.check();
}

#[test]
fn slots_of_every_kind_are_counted() {
    let device = Device::new(config("lz4", 1 << 20)).unwrap();
    let mut rng = Rng::with_seed(seed(124));
    let random: Vec<u8> = (0..SLOT_BYTES).map(|_| rng.u8(..)).collect();
    device.write(0, &random).unwrap();
    device.write(4096, &0x1122_3344_5566_7788u64.to_ne_bytes().repeat(512)).unwrap();
    device.write(8192, &[0; SLOT_BYTES]).unwrap();
    device.write(12288, &b"compressible ".repeat(400)[..SLOT_BYTES]).unwrap();
    let stat = device.mm_stat();
    assert_eq!((stat.orig_data_size, stat.same_pages), (4 * 4096, 2));
    assert_eq!((stat.huge_pages, stat.huge_pages_since), (1, 1));
    assert!((4097..4400).contains(&stat.compr_data_size), "{stat:?}");
    assert_eq!(stat.to_string().split_whitespace().count(), 9);
    device.write(0, &[1; SLOT_BYTES]).unwrap();
    assert_eq!(device.mm_stat().huge_pages, 0);
    assert_eq!(device.mm_stat().huge_pages_since, 1);
    device.discard(0, 3 * 4096).unwrap();
    assert_eq!(
        device.io_stat().to_string().split_whitespace().collect::<Vec<_>>(),
        ["0", "0", "0", "3"]
    );
    device.check();
    assert!(device.mem_total() > device.mm_stat().mem_used_total);
}

#[test]
fn streams_take_memory_with_their_first_use() {
    let streams = 3;
    let config = Config { streams: Some(streams), ..config("lz4", 64 * SLOT_BYTES as u64) };
    let device = Device::new(config).unwrap();
    let each = device.mem_unused() / streams as u64;
    assert!(each > 0 && 3 * each < device.mem_total());
    // One thread uses only one stream, even if the thread runs on different processors.
    for nth in 0..64 {
        device.write(nth * SLOT_BYTES as u64, &[nth as u8 | 1; 100]).unwrap();
        assert_eq!(device.mem_unused(), 2 * each);
    }
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for nth in 0..2000 {
                    device.write(nth % 64 * SLOT_BYTES as u64, &nth.to_ne_bytes()).unwrap();
                }
            });
        }
    });
    assert_eq!(device.mem_unused() % each, 0);
    assert!(device.mem_unused() <= 2 * each);
    device.check();
}

#[test]
fn bad_requests_are_named_and_change_nothing() {
    assert!(matches!(Device::new(Config::new(0).unwrap()), Err(Error::Disksize { bytes: 0, .. })));
    assert!(matches!(Device::new(Config::new(1 << 44).unwrap()), Err(Error::Disksize { .. })));
    assert!(Device::new(Config::new((1 << 44) - 4096).unwrap()).is_ok());
    let device = Device::new(Config::new(10_000).unwrap()).unwrap();
    assert_eq!(device.disksize(), 12288);
    let disksize = 12288;
    let past = Error::Range { offset: 12280, len: 9, disksize };
    assert_eq!(device.write(12280, &[0; 9]), Err(past.clone()));
    assert_eq!(past.errno(), 22);
    let wrap = Error::Range { offset: u64::MAX, len: 2, disksize };
    assert_eq!(device.discard(u64::MAX, 2), Err(wrap));
    assert!(device.read(12289, &mut []).is_err());
    device.read(12288, &mut []).unwrap();
    device.write(12288, &[]).unwrap();
    device.discard(12288, 0).unwrap();
    let params = zcomp::Params { level: Some(1000), ..Default::default() };
    let bad = Config { params, ..config("zstd", 4096) };
    assert!(matches!(Device::new(bad), Err(Error::Codec(_))));
    device.check();
}

/// Returns bytes that do not compress.
fn noise(rng: &mut Rng, len: usize) -> Vec<u8> {
    (0..len).map(|_| rng.u8(..)).collect()
}

/// A discard frees the slots that lie completely in its range, even if memory to overwrite the
/// slots at its ends is refused.
#[test]
fn ragged_zeros_free_whole_slots_at_the_limit() {
    const SLOTS: usize = 1000;
    const PATTERN: [u8; SLOT_BYTES] = [1; SLOT_BYTES];
    for limit_after in [300 * SLOT_BYTES as u64, 1] {
        let mem_limit = Some(300 * page::page_size() as u64);
        let config = Config { mem_limit, ..config("lz4", (SLOTS * SLOT_BYTES) as u64) };
        let mut shadow = Shadow::new(config).unwrap();
        shadow.device.write(0, &PATTERN).unwrap();
        let mut rng = Rng::with_seed(seed(125));
        let noise = noise(&mut rng, (SLOTS - 1) * SLOT_BYTES);
        let full = shadow.device.write(SLOT_BYTES as u64, &noise).unwrap_err();
        let Error::OutOfMemory { slot, .. } = full else { panic!("{full}") };
        let end = slot as usize * SLOT_BYTES;
        assert!(slot > 280, "{slot} slots only");
        shadow.bytes[..SLOT_BYTES].copy_from_slice(&PATTERN);
        shadow.bytes[SLOT_BYTES..end].copy_from_slice(&noise[..end - SLOT_BYTES]);
        shadow.check();
        // Half of the pattern remains in the first slot. The limit of one page leaves no memory for
        // that half, although other slots were freed.
        shadow.device.set_mem_limit(Some(limit_after));
        let (at, len) = (2048usize, 1usize << 20);
        let written = shadow.device.discard(at as u64, len as u64);
        assert_eq!(written.is_ok(), limit_after > 1, "{written:?}");
        if written.is_err() {
            let held = shadow.device.io_stat();
            assert_eq!((held.failed_writes, held.notify_free), (2, 255));
        }
        let whole = at.next_multiple_of(SLOT_BYTES)..(at + len) / SLOT_BYTES * SLOT_BYTES;
        shadow.bytes[whole.clone()].fill(0);
        shadow.compare(whole.start, whole.len());
        // The slots at the ends contain their old bytes or their new bytes. If the discard failed,
        // the first slot contains its old bytes.
        let head_is_old = written.is_err();
        if !head_is_old {
            shadow.bytes[at..whole.start].fill(0);
        }
        shadow.compare(0, whole.start);
        shadow.adopt(whole.end, &vec![0; at + len - whole.end]);
        shadow.check();
        assert_eq!(shadow.device.mm_stat().orig_data_size, (slot - 255) * SLOT_BYTES as u64);
    }
}

#[test]
fn the_largest_limit_is_none_in_practice() {
    let config = Config { mem_limit: Some(u64::MAX), ..config("lz4", 1 << 20) };
    let device = Device::new(config).unwrap();
    for _ in 0..2 {
        assert_eq!(device.mm_stat().mem_limit, u64::MAX);
        device.write(0, &[7; 100]).unwrap();
        device.set_mem_limit(Some(u64::MAX));
    }
    device.set_mem_limit(None);
    assert_eq!(device.mm_stat().mem_limit, 0);
    device.check();
}

/// Returns a device in which every second slot was discarded.
fn fragmented(compaction: Compaction) -> Shadow<Device> {
    let geometry = Geometry::Kernel(KernelGeometry::default());
    let config = Config { compaction, geometry, ..config("lz4", 8 << 20) };
    let mut shadow = Shadow::new(config).unwrap();
    let mut rng = Rng::with_seed(seed(126));
    for slot in 0..shadow.bytes.len() / SLOT_BYTES {
        // A third of each slot is noise, and the other bytes are zeros. So all slots have about the
        // same compressed length.
        let at = slot * SLOT_BYTES;
        shadow.bytes[at..at + SLOT_BYTES / 3].copy_from_slice(&noise(&mut rng, SLOT_BYTES / 3));
    }
    shadow.device.write(0, &shadow.bytes).unwrap();
    for at in (0..shadow.bytes.len()).step_by(2 * SLOT_BYTES) {
        shadow.device.discard(at as u64, SLOT_BYTES as u64).unwrap();
        shadow.bytes[at..at + SLOT_BYTES].fill(0);
    }
    shadow
}

#[test]
fn a_device_is_shrunk_on_demand() {
    let shadow = fragmented(Compaction::Manual);
    let device = &shadow.device;
    let page = page::page_size();
    let used = || device.mm_stat().mem_used_total as usize;
    let (before, freeable) = (used(), device.freeable());
    assert!(freeable > before / 4, "{freeable} bytes of {before}");
    let freed = device.shrink(1);
    assert!(freed > 0 && freed * page < freeable / 2, "{freed} pages of {freeable} bytes");
    assert_eq!(before - used(), freed * page);
    assert!(device.freeable() < freeable);
    assert_eq!(device.mm_stat().pages_compacted, freed as u64);
    shadow.check();
    let half = device.freeable() / 2;
    assert!(device.shrink(half) * page >= half);
    device.shrink(usize::MAX);
    assert_eq!(device.freeable(), 0);
    assert_eq!(device.shrink(usize::MAX), 0);
    shadow.check();

    let off = fragmented(Compaction::Off);
    let before = off.device.mm_stat();
    assert_eq!((off.device.shrink(usize::MAX), off.device.compact()), (0, 0));
    assert_eq!(off.device.mm_stat(), before);
    off.check();
}

/// A discard skips slots that were never written. To free each slot separately would take minutes.
#[test]
fn a_discard_of_all_of_the_largest_device() {
    let disksize = (1 << 44) - SLOT_BYTES as u64;
    let device = Device::new(config("lz4", disksize)).unwrap();
    let last = disksize - SLOT_BYTES as u64;
    let block = noise(&mut Rng::with_seed(seed(128)), SLOT_BYTES);
    for round in 1..=8 {
        device.write(0, &block).unwrap();
        device.write(last, &block).unwrap();
        assert_eq!(device.mm_stat().orig_data_size, 2 * SLOT_BYTES as u64);
        device.discard(0, disksize).unwrap();
        let mut back = vec![0xee; SLOT_BYTES];
        for at in [0, last] {
            device.read(at, &mut back).unwrap();
            assert!(back.iter().all(|&byte| byte == 0), "the slot at {at} was not freed");
        }
        let stat = device.mm_stat();
        assert_eq!(
            (stat.orig_data_size, stat.huge_pages, stat.huge_pages_since),
            (0, 0, 2 * round)
        );
        assert_eq!(device.io_stat().notify_free, round * (disksize / SLOT_BYTES as u64));
    }
}
