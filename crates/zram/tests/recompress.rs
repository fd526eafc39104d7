//! Tests recompression of cold data: the selection, the kept objects, and reads after the
//! recompression.
#![allow(clippy::unwrap_used)]

use fastrand::Rng;
use testkit::device::{DeviceModel, Setup};
use testkit::shadow::Shadow;
use testkit::{Run, seed};
use zram::{
    Algorithm, Config, Device, Error, Recompress, Recompressed, SLOT_BYTES, Selection, Which,
};
use zsmalloc::{Geometry, KernelGeometry};

fn config(bytes: u64) -> Config {
    let codec = |name| Some(Algorithm::new(zcomp::by_name(name).unwrap()));
    Config { recompression: [codec("lz4hc"), None, codec("zstd")], ..Config::new(bytes).unwrap() }
}

fn device(bytes: u64) -> Device {
    Device::new(config(bytes)).unwrap()
}

fn which(which: Which, priority: usize) -> Recompress {
    Recompress { selection: Selection::of(which), priority, ..Recompress::default() }
}

/// Returns bytes that zstd compresses much better than lz4, because they have few symbols and no
/// repetitions.
fn symbols(rng: &mut Rng, len: usize) -> Vec<u8> {
    (0..len).map(|_| b"acgt"[rng.usize(..4)]).collect()
}

fn noise(rng: &mut Rng, len: usize) -> Vec<u8> {
    (0..len).map(|_| rng.u8(..)).collect()
}

fn letters(device: &Device) -> Vec<String> {
    device.block_state().map(|state| state.to_string()[33..].to_owned()).collect()
}

#[test]
fn what_becomes_smaller_is_kept_and_what_does_not_is_marked() {
    for geometry in [Geometry::default(), Geometry::Kernel(KernelGeometry::default())] {
        kept_and_marked(Device::new(Config { geometry, ..config(1 << 20) }).unwrap());
    }
}

fn kept_and_marked(device: Device) {
    let mut rng = Rng::with_seed(seed(1));
    let mut shadow = Shadow::of(device, 0, 1 << 20);
    shadow.write(0, &symbols(&mut rng, SLOT_BYTES)).unwrap();
    shadow.write(SLOT_BYTES, &noise(&mut rng, SLOT_BYTES)).unwrap();
    shadow.write(2 * SLOT_BYTES, &[7; SLOT_BYTES]).unwrap();
    let before = shadow.device.mm_stat();
    assert_eq!(shadow.device.recompress(&which(Which::Idle, 3)), Ok(Recompressed::default()));
    shadow.device.mark_idle().unwrap();
    shadow.compare(SLOT_BYTES, 1);
    let done = shadow.device.recompress(&which(Which::Idle, 3)).unwrap();
    let after = shadow.device.mm_stat();
    assert_eq!((done.tried, done.smaller, done.touched), (1, 1, 0));
    assert_eq!(before.compr_data_size - after.compr_data_size, done.saved_bytes);
    assert_eq!(letters(&shadow.device), ["....r.", "..h...", "s....."]);
    let done = shadow.device.recompress(&which(Which::Huge, 3)).unwrap();
    assert_eq!((done.tried, done.smaller), (1, 0));
    assert_eq!(letters(&shadow.device), ["....r.", "..h..n", "s....."]);
    // No slot is recompressed again.
    assert_eq!(shadow.device.recompress(&which(Which::All, 3)), Ok(Recompressed::default()));
    shadow.compare(0, 1 << 20);
    shadow.write(10, &[1; 100]).unwrap();
    assert_eq!(letters(&shadow.device), ["......", "..h..n", "s....."]);
    shadow.compare(0, 1 << 20);
    shadow.device.check();
}

#[test]
fn the_largest_come_first_and_only_those_above_a_threshold() {
    let mut rng = Rng::with_seed(seed(2));
    let device = device(1 << 20);
    for (slot, len) in [(0, 500), (1, 4000), (2, 2000), (3, 3000)] {
        let mut bytes = symbols(&mut rng, SLOT_BYTES);
        bytes[len..].fill(0);
        device.write(slot * SLOT_BYTES as u64, &bytes).unwrap();
    }
    let r = |max_pages, threshold| Recompress { max_pages, threshold, ..which(Which::All, 3) };
    let priorities = || device.block_state().map(|state| state.priority).collect::<Vec<_>>();
    device.recompress(&r(Some(1), None)).unwrap();
    assert_eq!(priorities(), [0, 3, 0, 0]);
    device.recompress(&r(Some(2), Some(1100))).unwrap();
    assert_eq!(priorities(), [0, 3, 3, 3]);
    device.recompress(&r(None, Some(1100))).unwrap();
    assert_eq!(priorities(), [0, 3, 3, 3]);
    let only = Selection { slots: vec![5..=9, 0..=0], ..Selection::default() };
    device.recompress(&Recompress { selection: only, priority: 3, ..r(None, None) }).unwrap();
    assert_eq!(priorities(), [3, 3, 3, 3]);
    for priority in [0, 2, 4] {
        assert_eq!(
            device.recompress(&which(Which::All, priority)),
            Err(Error::NoAlgorithm { priority })
        );
    }
}

#[test]
fn random_data_read_as_before_in_every_geometry_and_block() {
    let geometries = [Geometry::default(), Geometry::Kernel(KernelGeometry::default())];
    for (nth, geometry) in geometries.into_iter().enumerate() {
        for block in [SLOT_BYTES, 4 * SLOT_BYTES, 16 * SLOT_BYTES] {
            let setup = Setup { geometry, block, is_compacted: true, ..Setup::new(2 << 20) };
            let setup = Setup { is_cold: true, ..setup };
            let run = Run { seed: seed(3 + nth as u64), steps: 1000, first: 0, every: 50 };
            let report = testkit::run::<DeviceModel>(setup, run).unwrap();
            println!("{report:?}");
            assert!(report.smaller > 100 && report.smaller_in_the_end > 0, "{report:?}");
        }
    }
}
