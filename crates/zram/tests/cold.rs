//! Tests recompression, write-back, compaction, saves and random requests at the same time, in
//! eight threads. The data are compared with shadow arrays.
#![allow(clippy::unwrap_used)]

use fastrand::Rng;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use testkit::contents::data;
use testkit::faulty::Faulty;
use testkit::shadow::Shadow;
use testkit::{load_time, seed};
use zram::{
    Algorithm, Config, Damage, Device, Error, Recompress, SLOT_BYTES, SaveOptions, SaveTo,
    Selection, Which,
};
use zsmalloc::{Geometry, KernelGeometry};

/// The number of writers. Each writer has its own part of the device, and a shadow of that part.
const WRITERS: usize = 4;
const STRETCH: usize = 64 * SLOT_BYTES;
const BYTES: usize = WRITERS * STRETCH;
/// The length in bytes of a part that no thread writes. Saves must contain exactly the data of this
/// part.
const STILL: usize = 16 * SLOT_BYTES;

fn device(block: usize, geometry: Geometry, backing: &Arc<Faulty>) -> Device {
    let codec = |name| Some(Algorithm::new(zcomp::by_name(name).unwrap()));
    let recompression = [codec("lz4hc"), codec("zstd"), None];
    let config = Config::new((BYTES + STILL) as u64).unwrap();
    let backing = Some(backing.clone() as _);
    let (checksums, track_access) = (block > SLOT_BYTES, block > 4 * SLOT_BYTES);
    let config = Config { checksums, track_access, ..config };
    let config = Config { block, geometry, recompression, backing, streams: Some(3), ..config };
    Device::new(config).unwrap()
}

fn which(rng: &mut Rng) -> Selection {
    let kinds = [Which::All, Which::Idle, Which::Huge, Which::HugeIdle, Which::Incompressible];
    let slots = match rng.u32(..4) {
        0 => vec![rng.u64(..100)..=rng.u64(100..300)],
        _ => Vec::new(),
    };
    Selection { which: kinds[rng.usize(..kinds.len())], slots }
}

/// Executes a random request in a writer's part, and compares reads with the shadow.
fn write_and_read(shadow: &mut Shadow<&Device>, rng: &mut Rng) {
    let block = shadow.device.block();
    let at = rng.usize(..STRETCH);
    let len = rng.usize(..=(STRETCH - at).min(20 * SLOT_BYTES));
    let (at, len) = if rng.bool() { (at, len) } else { (at / block * block, block) };
    match rng.u32(..10) {
        0 | 1 => shadow.discard(at, len).unwrap(),
        2..6 => shadow.write(at, &data(rng, len)).unwrap(),
        _ => shadow.compare(at, len),
    }
}

/// Runs one of the jobs. The job can fail because another job is under way.
fn job(device: &Device, still: &[u8], rng: &mut Rng) {
    let done = match rng.u32(..8) {
        0..3 => {
            let how = Recompress {
                selection: which(rng),
                priority: rng.usize(1..3),
                ..Recompress::default()
            };
            device.recompress(&how).map(drop)
        }
        3..6 => device.write_back(&which(rng)).map(drop),
        _ => {
            let mut file = Vec::new();
            let saved = device.save(SaveTo::Writer(&mut file), &SaveOptions::default()).map(drop);
            if saved.is_ok() {
                let other = Device::new(Config::new(device.disksize()).unwrap()).unwrap();
                other.restore_from(&mut &file[..], Damage::Refuse).unwrap();
                let mut back = vec![0; STILL];
                other.read(BYTES as u64, &mut back).unwrap();
                assert!(back == still, "what no one writes is saved otherwise");
            }
            saved
        }
    };
    assert!(matches!(done, Ok(()) | Err(Error::Busy | Error::BackingFull)), "{done:?}");
}

fn all_at_once(block: usize, geometry: Geometry, time: Duration) {
    let mut rng = Rng::with_seed(seed(31 + block as u64));
    let backing = Arc::new(Faulty::new(2 * BYTES));
    let device = device(block, geometry, &backing);
    let still: Vec<u8> = (0..STILL / SLOT_BYTES).flat_map(|_| data(&mut rng, SLOT_BYTES)).collect();
    device.write(BYTES as u64, &still).unwrap();
    let shadows: Vec<_> =
        (0..WRITERS).map(|nth| Mutex::new(Shadow::of(&device, nth * STRETCH, STRETCH))).collect();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for shadow in &shadows {
            let (mut rng, stop) = (rng.fork(), &stop);
            scope.spawn(move || {
                let mut shadow = shadow.lock().unwrap();
                while !stop.load(Relaxed) {
                    write_and_read(&mut shadow, &mut rng);
                }
            });
        }
        for _ in 0..2 {
            let (mut rng, device, still, stop) = (rng.fork(), &device, &still, &stop);
            scope.spawn(move || {
                while !stop.load(Relaxed) {
                    job(device, still, &mut rng);
                }
            });
        }
        scope.spawn(|| {
            while !stop.load(Relaxed) {
                device.compact();
                device.mark_idle().unwrap();
            }
        });
        let mut rng = rng.fork();
        let began = Instant::now();
        while began.elapsed() < time && !shadows.iter().any(Mutex::is_poisoned) {
            let at = rng.usize(..STILL - 1);
            let mut back = vec![0; rng.usize(1..STILL - at)];
            device.read((BYTES + at) as u64, &mut back).unwrap();
            assert!(back == still[at..at + back.len()]);
        }
        stop.store(true, Relaxed);
    });
    shadows.iter().for_each(|shadow| shadow.lock().unwrap().compare(0, STRETCH));
    device.check();
    device.discard(0, device.disksize()).unwrap();
    device.check();
    assert_eq!((device.bd_stat().bd_count, device.mm_stat().orig_data_size), (0, 0));
}

#[test]
fn slots_under_all_jobs_at_once() {
    all_at_once(SLOT_BYTES, Geometry::default(), load_time(Duration::from_secs(4)));
}

#[test]
fn blocks_under_all_jobs_at_once() {
    all_at_once(4 * SLOT_BYTES, Geometry::default(), load_time(Duration::from_secs(4)));
}

#[test]
fn large_blocks_of_the_kernels_geometry_under_all_jobs_at_once() {
    let geometry = Geometry::Kernel(KernelGeometry::default());
    all_at_once(16 * SLOT_BYTES, geometry, load_time(Duration::from_secs(4)));
}
