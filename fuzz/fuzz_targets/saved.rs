//! Saved files that are anything: a good one with bytes changed, and its sums made right again so that what lies behind
//! them is reached. Whatever they say, a device is restored or stays empty, and nothing else happens.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::OnceLock;
use zram::{Algorithm, BLOCK, Config, Damage, Device, Error, Recompress};

const BYTES: usize = 64 << 10;
const HEAD: usize = 120;
const ALIGN: usize = 4096;

fn config(block: usize) -> Config {
    let zstd = zcomp::by_name("zstd").ok().map(Algorithm::new);
    Config { block, recompression: [zstd, None, None], ..Config::new(BYTES as u64).unwrap() }
}

/// A file with something of everything, of slots and of blocks.
fn files() -> &'static [Vec<u8>; 2] {
    static FILES: OnceLock<[Vec<u8>; 2]> = OnceLock::new();
    FILES.get_or_init(|| {
        [BLOCK, 4 * BLOCK].map(|block| {
            let device = Device::new(config(block)).unwrap();
            let words = b"words that compress and some more of them ".repeat(1000);
            device.write(0, &words[..9 * BLOCK]).unwrap();
            device.recompress(&Recompress::default()).unwrap();
            device.write(BLOCK as u64, &words[7..BLOCK + 7]).unwrap();
            device.write(10 * BLOCK as u64, &[7; BLOCK]).unwrap();
            device.write(11 * BLOCK as u64, &0x1122_3344_5566_7788u64.to_ne_bytes()).unwrap();
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

fuzz_target!(|input: &[u8]| {
    let [which, changes @ ..] = input else { return };
    let block = usize::from(which & 1);
    let mut file = files()[block].clone();
    // Each change: where, two bytes, and what.
    for change in changes.as_chunks::<3>().0 {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % file.len();
        file[at] = change[2];
    }
    if which & 2 != 0 {
        forge(&mut file);
    }
    if which & 4 != 0 {
        file.truncate(changes.len() * 97 % file.len());
    }
    let device = Device::new(config([BLOCK, 4 * BLOCK][usize::from(which >> 3 & 1)])).unwrap();
    let damage = if which & 16 == 0 { Damage::Refuse } else { Damage::Salvage };
    match device.restore_from(&mut &file[..], damage) {
        Ok(restored) => {
            // What was forged may not decompress; it is never more than an error.
            let mut back = vec![0; BYTES];
            let _ = device.read(0, &mut back);
            assert!(restored.slots <= (BYTES / BLOCK) as u64);
        }
        Err(error) => {
            assert!(matches!(error, Error::Saved { .. } | Error::TooSmall { .. }), "{error}");
            assert_eq!(device.mm_stat().orig_data_size, 0);
        }
    }
    device.check();
});
