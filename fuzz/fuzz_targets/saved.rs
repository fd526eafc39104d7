//! Saved files that are anything: a good one with bytes changed, or fields set to what is an edge
//! to whoever reads them, and its sums made right again so that what lies behind them is reached.
//! Whatever they say, a device is restored or stays empty, and nothing else happens.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::OnceLock;
use zram::{Algorithm, Config, Damage, Device, Error, Recompress, SLOT_BYTES};

const BYTES: usize = 64 << 10;
const HEAD: usize = 120;
const ALIGN: usize = 4096;
const CHUNK_HEAD: usize = 48;
const ENTRY: usize = 16;

/// Where the header's numbers lie, and their bytes: version, length, disk, order, the first
/// dictionary's length.
const OF_HEAD: [(usize, usize); 5] = [(8, 4), (12, 4), (24, 8), (32, 4), (52, 4)];
/// Of a chunk: its number, entries, bytes, first slot and end.
const OF_CHUNK: [(usize, usize); 5] = [(16, 4), (20, 4), (24, 4), (32, 4), (36, 4)];
/// Of an entry: slot, kind, priority, live slots, pattern or length.
const OF_ENTRY: [(usize, usize); 5] = [(0, 4), (4, 1), (5, 1), (6, 2), (8, 8)];

fn config(block: usize) -> Config {
    let zstd = zcomp::by_name("zstd").ok().map(Algorithm::new);
    Config { block, recompression: [zstd, None, None], ..Config::new(BYTES as u64).unwrap() }
}

/// A file with something of everything, of slots and of blocks.
fn files() -> &'static [Vec<u8>; 2] {
    static FILES: OnceLock<[Vec<u8>; 2]> = OnceLock::new();
    FILES.get_or_init(|| {
        [SLOT_BYTES, 4 * SLOT_BYTES].map(|block| {
            let device = Device::new(config(block)).unwrap();
            let words = b"words that compress and some more of them ".repeat(1000);
            device.write(0, &words[..9 * SLOT_BYTES]).unwrap();
            device.recompress(&Recompress::default()).unwrap();
            device.write(SLOT_BYTES as u64, &words[7..SLOT_BYTES + 7]).unwrap();
            device.write(10 * SLOT_BYTES as u64, &[7; SLOT_BYTES]).unwrap();
            device.write(11 * SLOT_BYTES as u64, &0x1122_3344_5566_7788u64.to_ne_bytes()).unwrap();
            let mut file = Vec::new();
            device.save_to(&mut file).unwrap();
            file
        })
    })
}

/// Puts the sum of the first `len` bytes behind them.
fn sum(bytes: &mut [u8], len: usize) {
    let Some((summed, behind)) = bytes.split_at_mut_checked(len) else { return };
    if let Some(room) = behind.first_chunk_mut() {
        *room = crc32fast::hash(summed).to_le_bytes();
    }
}

/// Makes all sums right.
fn forge(file: &mut [u8]) {
    sum(file, HEAD - 4);
    for at in (ALIGN..file.len()).step_by(ALIGN) {
        let chunk = &mut file[at..];
        let Some(bytes) = chunk.get(24..28).and_then(|bytes| bytes.first_chunk()) else { continue };
        let end = 48usize.saturating_add(u32::from_le_bytes(*bytes) as usize);
        if let Some(payload) = chunk.get(48..end) {
            let sum = crc32fast::hash(payload).to_le_bytes();
            chunk[28..32].copy_from_slice(&sum);
        }
        sum(chunk, 40);
    }
}

/// A field of the header, of a chunk, or of one of its entries.
fn field(which: u8, nth: u8) -> (usize, usize) {
    let (of, chunk) = (usize::from(which % 5), ALIGN * (1 + usize::from(nth >> 6)));
    match which / 5 % 5 {
        0 => OF_HEAD[of],
        1 => (chunk + OF_CHUNK[of].0, OF_CHUNK[of].1),
        _ => {
            let entry = chunk + CHUNK_HEAD + usize::from(nth & 63) * ENTRY;
            (entry + OF_ENTRY[of].0, OF_ENTRY[of].1)
        }
    }
}

/// Sets a field to what may be an edge to who reads it.
fn set(file: &mut [u8], (at, width): (usize, usize), choice: u8) {
    let len = file.len() as u64;
    let Some(field) = file.get_mut(at..at + width) else { return };
    let mut bytes = [0; 8];
    bytes[..width].copy_from_slice(field);
    let old = u64::from_le_bytes(bytes);
    let (slots, block) = ((BYTES / SLOT_BYTES) as u64, SLOT_BYTES as u64);
    let edges = [old, 0, slots, block, 4 * block, 1 << (8 * width - 1), BYTES as u64, 1 << 20, len];
    let edge = edges[usize::from(choice) / 3 % edges.len()];
    let value = edge.wrapping_add(u64::from(choice % 3)).wrapping_sub(1);
    field.copy_from_slice(&value.to_le_bytes()[..width]);
}

fuzz_target!(|input: &[u8]| {
    let [which, changes @ ..] = input else { return };
    let block = usize::from(which & 1);
    let mut file = files()[block].clone();
    // Each change: of a byte or a field, where, and to what.
    for &[kind, first, second, to] in changes.as_chunks().0 {
        match kind & 1 {
            0 => {
                let at = usize::from(u16::from_le_bytes([first, second])) % file.len();
                file[at] = to;
            }
            _ => set(&mut file, field(first, second), to),
        }
    }
    if which & 2 != 0 {
        forge(&mut file);
    }
    if which & 4 != 0 {
        file.truncate(changes.len() * 97 % file.len());
    }
    let device =
        Device::new(config([SLOT_BYTES, 4 * SLOT_BYTES][usize::from(which >> 3 & 1)])).unwrap();
    let damage = if which & 16 == 0 { Damage::Refuse } else { Damage::Salvage };
    match device.restore_from(&mut &file[..], damage) {
        Ok(restored) => {
            // What was forged may not decompress; it is never more than an error.
            let mut back = vec![0; BYTES];
            let _ = device.read(0, &mut back);
            assert!(restored.slots <= (BYTES / SLOT_BYTES) as u64);
        }
        Err(error) => {
            assert!(matches!(error, Error::Saved { .. } | Error::TooSmall { .. }), "{error}");
            assert_eq!(device.mm_stat().orig_data_size, 0);
        }
    }
    device.check();
});
