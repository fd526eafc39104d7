//! Tests that saved files of earlier versions can be restored, and that a save still produces the
//! same files. `UZRAM_WRITE_GOLDEN=1` creates missing files.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::PathBuf;
use zram::{Algorithm, Config, Damage, Device, Recompress, SLOT_BYTES, SaveOptions, SaveTo};

const SLOTS: usize = 48;

/// For each file, its name, and the block size in slots and the codec of the saved device.
const FILES: [(&str, usize, &str); 3] =
    [("slots-lz4-zstd", 1, "lz4"), ("blocks-16k-lz4", 4, "lz4"), ("blocks-64k-zstd", 16, "zstd")];

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.saved"))
}

fn device(block: usize, codec: &str) -> Device {
    let algorithm = |name| Algorithm::new(zcomp::by_name(name).unwrap());
    Device::new(Config {
        block: block * SLOT_BYTES,
        algorithm: algorithm(codec).codec,
        recompression: [None, Some(algorithm("zstd")), None],
        ..Config::new((SLOTS * SLOT_BYTES) as u64).unwrap()
    })
    .unwrap()
}

/// Returns the content of a slot, calculated from its number, or `None` if the slot was never
/// written or was discarded.
fn contents(slot: usize) -> Option<Vec<u8>> {
    let mut word = slot as u64 + 1;
    let mut next = || {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (word >> 33) as u8
    };
    let byte = next();
    match slot % 8 {
        0 | 5 => None,
        1 => Some([byte, 1, 2, 3, 4, 5, 6, 7].repeat(SLOT_BYTES / 8)),
        2 => Some(vec![byte; SLOT_BYTES]),
        3 if slot < 16 => Some((0..SLOT_BYTES).map(|_| next()).collect()),
        _ => Some(
            (0..SLOT_BYTES)
                .map(|at| if at % 5 == 0 { next() & 3 } else { at as u8 & 31 })
                .collect(),
        ),
    }
}

/// Writes the contents of the files to the device. Recompresses some slots if blocks are single
/// slots.
fn fill(device: &Device) {
    for slot in 0..SLOTS {
        let bytes = contents(slot).unwrap_or_else(|| vec![7; SLOT_BYTES]);
        device.write((slot * SLOT_BYTES) as u64, &bytes).unwrap();
    }
    for slot in (0..SLOTS).filter(|&slot| contents(slot).is_none()) {
        device.discard((slot * SLOT_BYTES) as u64, SLOT_BYTES as u64).unwrap();
    }
    if device.block() == SLOT_BYTES {
        let how = Recompress { priority: 2, max_pages: Some(9), ..Recompress::default() };
        device.recompress(&how).unwrap();
    }
}

fn compare(device: &Device) {
    let mut bytes = vec![0; SLOT_BYTES];
    for slot in 0..SLOTS {
        device.read((slot * SLOT_BYTES) as u64, &mut bytes).unwrap();
        assert!(bytes == contents(slot).unwrap_or_else(|| vec![0; SLOT_BYTES]), "slot {slot}");
    }
    device.check();
}

/// Returns a copy of a file without the random id of the save, and without the checksums that cover
/// the id.
fn without_id(file: &[u8]) -> Vec<u8> {
    let (id, mut file) = (file[16..24].to_vec(), file.to_vec());
    let heads = (0..=file.len() - id.len()).filter(|&at| file[at..].starts_with(&id));
    for at in heads.collect::<Vec<_>>() {
        let sum = if at == 16 { 116 } else { at + 32 };
        file[at..at + id.len()].fill(0);
        file[sum..sum + 4].fill(0);
    }
    file
}

#[test]
fn files_saved_once_restore_for_ever() {
    for (name, block, codec) in FILES {
        if std::env::var_os("UZRAM_WRITE_GOLDEN").is_some() && !path(name).exists() {
            let device = device(block, codec);
            fill(&device);
            device
                .save(
                    SaveTo::Writer(&mut fs::File::create(path(name)).unwrap()),
                    &SaveOptions::default(),
                )
                .unwrap();
        }
        let file = fs::read(path(name)).unwrap();
        for (to, other) in [(block, codec), (1, "zstd"), (4, "zstd"), (16, "lz4")] {
            let device = device(to, other);
            device.restore_from(&mut &file[..], Damage::Refuse).unwrap();
            compare(&device);
            if (to, other) == (block, codec) {
                let mut again = Vec::new();
                device.save(SaveTo::Writer(&mut again), &SaveOptions::default()).unwrap();
                assert!(without_id(&again) == without_id(&file), "{name} is saved as it was");
            }
        }
    }
}
