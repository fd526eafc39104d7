//! A saved file that is damaged. A device must restore the original contents from the file, or
//! refuse the file, or report the lost parts. If the test corrects the checksums of the damaged
//! file, the damage can't be detected. The device must then be restored or stay empty.

use crate::{Choices, Model};
use std::sync::LazyLock;
use zram::{Algorithm, Config, Damage, Device, Error, Recompress, SLOT_BYTES, SaveOptions, SaveTo};

pub use Event::*;

const HEAD: usize = 120;
const ALIGN: usize = 4096;
const CHUNK_HEAD: usize = 48;
const RECORD: usize = 16;

/// The offsets and lengths of the header's numbers: version, length, disk, order, and the first
/// dictionary's length.
const OF_HEAD: [(usize, usize); 5] = [(8, 4), (12, 4), (24, 8), (32, 4), (52, 4)];
/// The offsets and lengths of a chunk's numbers: its number, records, bytes, first slot and end.
const OF_CHUNK: [(usize, usize); 5] = [(16, 4), (20, 4), (24, 4), (32, 4), (36, 4)];
/// The offsets and lengths of a record's numbers: slot, kind, priority, live slots, pattern or
/// length.
const OF_RECORD: [(usize, usize); 5] = [(0, 4), (4, 1), (5, 1), (6, 2), (8, 8)];

#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Whether the device that was saved had blocks of several slots.
    pub has_blocks: bool,
    pub is_large: bool,
    /// The block size of the device to which the file is restored.
    pub block: usize,
    /// Whether the test corrects checksums, so that the code after the checks of checksums runs.
    pub is_forged: bool,
    pub is_salvaged: bool,
}

#[derive(Clone, Copy, Debug)]
pub enum Event {
    Truncate(usize),
    Set {
        at: usize,
        to: u8,
    },
    Flip {
        at: usize,
        bit: u8,
    },
    /// Swaps whole units of 4 KiB, in which headers and chunks begin.
    Swap {
        one: usize,
        other: usize,
    },
    Copy {
        from: usize,
        to: usize,
    },
    Remove {
        at: usize,
    },
    Append {
        zeros: usize,
    },
    /// Changes a number in the file.
    Number {
        at: usize,
        bytes: usize,
        value: u64,
    },
}

/// The number of restores and of refusals of the file in a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    pub restored: usize,
    pub refused: usize,
}

/// A file, and the contents of the device from which the file was saved.
struct Saved {
    file: Vec<u8>,
    bytes: Vec<u8>,
}

fn config(bytes: usize, block: usize) -> Config {
    let zstd = zcomp::by_name("zstd").ok().map(Algorithm::new);
    let config = Config::new(bytes as u64).expect("there are codecs");
    Config { block, recompression: [zstd, None, None], ..config }
}

impl Saved {
    /// Creates a file with every kind of record.
    fn new(has_blocks: bool, is_large: bool) -> Self {
        let block = if has_blocks { 4 * SLOT_BYTES } else { SLOT_BYTES };
        let mut bytes = vec![0; if is_large { 3 << 20 } else { 64 << 10 }];
        let words = b"words that compress and some more of them ".repeat(1000);
        bytes[..9 * SLOT_BYTES].copy_from_slice(&words[..9 * SLOT_BYTES]);
        bytes[10 * SLOT_BYTES..11 * SLOT_BYTES].fill(7);
        bytes[11 * SLOT_BYTES..][..8].copy_from_slice(&0x1122_3344_5566_7788u64.to_ne_bytes());
        if is_large {
            let noise = crate::contents::stamped(1, 5 << 19);
            bytes[16 * SLOT_BYTES..][..noise.len()].copy_from_slice(&noise);
        }
        let device = Device::new(config(bytes.len(), block)).expect("there is memory");
        let write = |device: &Device, slots: std::ops::Range<usize>, bytes: &[u8]| {
            let range = slots.start * SLOT_BYTES..slots.end * SLOT_BYTES;
            device.write(range.start as u64, &bytes[range]).expect("there is memory");
        };
        write(&device, 0..9, &bytes);
        device.recompress(&Recompress::default()).expect("there is a second codec");
        // One slot has a block of its own, and another slot was overwritten.
        bytes[SLOT_BYTES..2 * SLOT_BYTES].copy_from_slice(&words[7..SLOT_BYTES + 7]);
        write(&device, 1..2, &bytes);
        write(&device, 10..bytes.len() / SLOT_BYTES, &bytes);
        let mut file = Vec::new();
        device.save(SaveTo::Writer(&mut file), &SaveOptions::default()).expect("all can be read");
        Saved { file, bytes }
    }

    fn of(setup: &Setup) -> &'static Saved {
        static ALL: [[LazyLock<Saved>; 2]; 2] = [
            [LazyLock::new(|| Saved::new(false, false)), LazyLock::new(|| Saved::new(false, true))],
            [LazyLock::new(|| Saved::new(true, false)), LazyLock::new(|| Saved::new(true, true))],
        ];
        &ALL[usize::from(setup.has_blocks)][usize::from(setup.is_large)]
    }
}

/// Writes the checksum of the first `len` bytes directly after these bytes.
fn sum(bytes: &mut [u8], len: usize) {
    let Some((summed, behind)) = bytes.split_at_mut_checked(len) else { return };
    if let Some(room) = behind.first_chunk_mut() {
        *room = crc32fast::hash(summed).to_le_bytes();
    }
}

/// Corrects all checksums in the file.
fn forge(file: &mut [u8]) {
    sum(file, HEAD - 4);
    for at in (ALIGN..file.len()).step_by(ALIGN) {
        let chunk = &mut file[at..];
        let is_chunk = chunk.starts_with(b"\x8bchunk\r\n");
        let Some(bytes) = chunk.get(24..28).and_then(|bytes| bytes.first_chunk()) else { continue };
        let end = CHUNK_HEAD.saturating_add(u32::from_le_bytes(*bytes) as usize);
        if !is_chunk {
            continue;
        }
        if let Some(payload) = chunk.get(CHUNK_HEAD..end) {
            let sum = crc32fast::hash(payload).to_le_bytes();
            chunk[28..32].copy_from_slice(&sum);
        }
        sum(chunk, 40);
    }
}

pub struct SavedModel {
    setup: Setup,
    saved: &'static Saved,
    file: Vec<u8>,
    report: Report,
}

impl SavedModel {
    fn units(&self) -> usize {
        self.file.len() / ALIGN
    }

    /// Draws the offset and the length of a number in the header, in a chunk, or in a record. If
    /// the file still has chunks, the chunk is one of them.
    fn draw_number(&self, choices: &mut Choices) -> (usize, usize) {
        let magic = |unit: &usize| self.file[unit * ALIGN..].starts_with(b"\x8bchunk\r\n");
        let chunks: Vec<usize> = (1..self.units()).filter(magic).collect();
        let chunk = if chunks.is_empty() { 1 } else { *choices.pick(&chunks) } * ALIGN;
        match choices.below(5) {
            0 => *choices.pick(&OF_HEAD),
            1 => {
                let (at, bytes) = *choices.pick(&OF_CHUNK);
                (chunk + at, bytes)
            }
            _ => {
                let record = chunk + CHUNK_HEAD + choices.below(64) * RECORD;
                let (at, bytes) = *choices.pick(&OF_RECORD);
                (record + at, bytes)
            }
        }
    }

    /// Draws a value that is likely to be a special case for the code that reads the number.
    fn draw_value(&self, choices: &mut Choices, (at, bytes): (usize, usize)) -> u64 {
        let mut old = [0; 8];
        if let Some(field) = self.file.get(at..at + bytes) {
            old[..bytes].copy_from_slice(field);
        }
        let (slots, slot) = (self.saved.bytes.len() / SLOT_BYTES, SLOT_BYTES as u64);
        let edges = [
            u64::from_le_bytes(old),
            0,
            slots as u64,
            slot,
            4 * slot,
            1 << (8 * bytes - 1),
            self.saved.bytes.len() as u64,
            1 << 20,
            self.file.len() as u64,
        ];
        choices.pick(&edges).wrapping_add(choices.below(3) as u64).wrapping_sub(1)
    }

    /// Restores the file in its current state.
    fn restore(&mut self) {
        let mut file = self.file.clone();
        if self.setup.is_forged {
            forge(&mut file);
        }
        let damage = if self.setup.is_salvaged { Damage::Salvage } else { Damage::Refuse };
        let device = Device::new(config(self.saved.bytes.len(), self.setup.block));
        let device = device.expect("there is memory");
        match device.restore_from(&mut &file[..], damage) {
            Ok(restored) => {
                let mut found = vec![0xee; self.saved.bytes.len()];
                let read = device.read(0, &mut found);
                assert!(restored.slots <= (found.len() / SLOT_BYTES) as u64);
                // Forged data might not decompress. A read then must return an error.
                if !self.setup.is_forged {
                    read.expect("what is restored can be read");
                    assert!(self.setup.is_salvaged || restored.lost.is_empty());
                    self.expect_all_but(&restored.lost, &found);
                }
                self.report.restored += 1;
            }
            Err(error) => {
                assert!(matches!(error, Error::Saved { .. } | Error::TooSmall { .. }), "{error}");
                assert_eq!(device.mm_stat().orig_data_size, 0);
                self.report.refused += 1;
            }
        }
        device.check();
    }

    fn expect_all_but(&self, lost: &[std::ops::Range<u64>], found: &[u8]) {
        let slots = found.chunks(SLOT_BYTES).zip(self.saved.bytes.chunks(SLOT_BYTES));
        for (nth, (found, saved)) in slots.enumerate() {
            let at = (nth * SLOT_BYTES) as u64;
            match lost.iter().any(|lost| lost.contains(&at)) {
                true => assert!(found.iter().all(|byte| *byte == 0), "slot {nth} is not lost"),
                false => assert!(found == saved, "slot {nth} is another, and was not lost"),
            }
        }
    }
}

impl Model for SavedModel {
    type Setup = Setup;
    type Event = Event;
    type Report = Report;

    fn setup(choices: &mut Choices) -> Setup {
        Setup {
            has_blocks: choices.bool(),
            is_large: choices.one_in(16),
            block: *choices.pick(&[SLOT_BYTES, 4 * SLOT_BYTES]),
            is_forged: choices.bool(),
            is_salvaged: choices.bool(),
        }
    }

    fn new(setup: &Setup) -> Option<Self> {
        let saved = Saved::of(setup);
        Some(SavedModel {
            setup: *setup,
            saved,
            file: saved.file.clone(),
            report: Report::default(),
        })
    }

    fn draw(&self, choices: &mut Choices) -> Event {
        let (len, units) = (self.file.len().max(1), self.units().max(1));
        // Draws any offset, or an offset in a header, because headers affect much of the file.
        let at = match choices.below(3) {
            0 => choices.below(HEAD).min(len - 1),
            1 => (choices.below(units) * ALIGN + choices.below(128)).min(len - 1),
            _ => choices.below(len),
        };
        match choices.below(12) {
            0 => Truncate(choices.beside(&[len, len / ALIGN * ALIGN, at], len)),
            1 => Set { at, to: choices.below(256) as u8 },
            2 | 3 => Flip { at, bit: choices.below(8) as u8 },
            4 => Swap { one: choices.below(units), other: choices.below(units) },
            5 => Copy { from: choices.below(units), to: choices.below(units) },
            6 => Remove { at: choices.below(units) },
            7 => Append { zeros: choices.below(2 * ALIGN) },
            _ => {
                let number = self.draw_number(choices);
                let value = self.draw_value(choices, number);
                Number { at: number.0, bytes: number.1, value }
            }
        }
    }

    fn apply(&mut self, event: &Event) {
        let units = self.units();
        let unit = |nth: usize| nth * ALIGN..(nth + 1) * ALIGN;
        match *event {
            Truncate(len) => self.file.truncate(len),
            Set { at, to } => self.file.get_mut(at).into_iter().for_each(|byte| *byte = to),
            Flip { at, bit } => {
                self.file.get_mut(at).into_iter().for_each(|byte| *byte ^= 1 << bit);
            }
            Swap { one, other } if one < units && other < units => {
                let bytes = self.file[unit(one)].to_vec();
                self.file.copy_within(unit(other), one * ALIGN);
                self.file[unit(other)].copy_from_slice(&bytes);
            }
            Copy { from, to } if from < units && to < units => {
                self.file.copy_within(unit(from), to * ALIGN);
            }
            Remove { at } if at < units => drop(self.file.drain(unit(at))),
            Append { zeros } => self.file.resize(self.file.len() + zeros, 0),
            Number { at, bytes, value } => {
                if let Some(field) = self.file.get_mut(at..at + bytes) {
                    field.copy_from_slice(&value.to_le_bytes()[..bytes]);
                }
            }
            Swap { .. } | Copy { .. } | Remove { .. } => {}
        }
    }

    fn check(&mut self) {
        self.restore();
    }

    fn finish(self) -> Report {
        self.report
    }

    fn simpler(event: &Event) -> Vec<Event> {
        match *event {
            Set { at, .. } => vec![Flip { at, bit: 0 }],
            Append { zeros } if zeros > 1 => vec![Append { zeros: 1 }],
            Copy { from, to } => vec![Swap { one: from, other: to }],
            _ => vec![],
        }
    }
}
