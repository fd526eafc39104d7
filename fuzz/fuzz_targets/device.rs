//! Bytes as requests to a device, against a shadow array.
#![no_main]

mod edges;
mod input;

use arbitrary::{Result, Unstructured};
use edges::around;
use input::contents;
use libfuzzer_sys::fuzz_target;
use zram::{Compaction, Config, Device, Error, SLOT_BYTES};

struct Shadow {
    device: Device,
    bytes: Vec<u8>,
    versions: u64,
    used_max: u64,
    /// Whether pages may be refused other than by the limit.
    refusing: bool,
}

/// Bytes of one of the kinds a device meets.
fn data(input: &mut Unstructured, version: u64, len: usize) -> Result<Vec<u8>> {
    let mut bytes = contents(version, len);
    match input.int_in_range(0..=7u8)? {
        0 => bytes.fill(0),
        1 => bytes.fill(version as u8),
        2 => {
            let pattern: [u8; 8] = input.arbitrary()?;
            bytes.chunks_mut(8).for_each(|chunk| chunk.copy_from_slice(&pattern[..chunk.len()]));
        }
        3 => {}
        kind => {
            // Only the first bytes of each run differ: it compresses, to a degree that differs.
            let run = 16 << kind;
            bytes.chunks_mut(run).for_each(|chunk| {
                let keep = chunk.len().min(1 << kind);
                chunk[keep..].fill(kind);
            });
        }
    }
    Ok(bytes)
}

impl Shadow {
    fn range(&self, input: &mut Unstructured) -> Result<(usize, usize)> {
        let slots = self.bytes.len() / SLOT_BYTES;
        let at = input.choose_index(slots)? * SLOT_BYTES;
        let block = self.device.block();
        let (at, len) = match input.int_in_range(0..=4u8)? {
            0 => (at, SLOT_BYTES * input.int_in_range(1..=4usize)?),
            1 => (at / block * block, block),
            2 => {
                let edges = [SLOT_BYTES, 2 * SLOT_BYTES, block, 2 * block];
                (
                    at + around(input, &[1, SLOT_BYTES], SLOT_BYTES)?,
                    around(input, &edges, 3 * block)?,
                )
            }
            // Up to an edge, or a byte or a word from it.
            3 => {
                let at = at + around(input, &[1, SLOT_BYTES], SLOT_BYTES)?;
                let end = (at + 1).next_multiple_of(*input.choose(&[SLOT_BYTES, block])?);
                (at, around(input, &[1, 8, end - at], end - at + 8)?)
            }
            _ => (at + around(input, &[1, SLOT_BYTES], SLOT_BYTES)?, input.int_in_range(0..=64)?),
        };
        Ok((at, len.min(self.bytes.len() - at)))
    }

    fn compare(&self, at: usize, len: usize) {
        let mut back = vec![0xee; len];
        self.device.read(at as u64, &mut back).expect("nothing was damaged");
        let differs = back.iter().zip(&self.bytes[at..]).position(|(a, b)| a != b);
        assert_eq!(differs, None, "{len} bytes at {at}");
    }

    /// Takes note of a request that was to put `new` at `at`. After an error the slots before the
    /// one it names are new, the others old.
    fn settle(&mut self, at: usize, new: &[u8], done: std::result::Result<(), Error>) {
        let done = match done {
            Ok(()) => new.len(),
            Err(Error::OutOfMemory { slot, source, .. }) => {
                assert!(source.is_limit() || self.refusing, "{source}");
                (slot as usize * SLOT_BYTES).saturating_sub(at)
            }
            Err(error) => panic!("{error}"),
        };
        self.bytes[at..at + done].copy_from_slice(&new[..done]);
        self.compare(at, new.len());
    }

    /// Slots that the range covers whole, which always works.
    fn discard(&mut self, at: usize, len: usize) {
        self.device.discard(at as u64, len as u64).expect("within the device");
        self.free(at, len);
        self.compare(at, len);
    }

    fn free(&mut self, at: usize, len: usize) {
        let whole = at.next_multiple_of(SLOT_BYTES)..(at + len) / SLOT_BYTES * SLOT_BYTES;
        if !whole.is_empty() {
            self.bytes[whole].fill(0);
        }
    }

    /// Of a refused request whole slots are zeros, and the first of the others is, or none.
    fn write_zeroes(&mut self, at: usize, len: usize) {
        let zeroed = self.device.write_zeroes(at as u64, len as u64);
        self.free(at, len);
        self.settle(at, &vec![0; len], zeroed);
    }

    fn step(&mut self, input: &mut Unstructured) -> Result<()> {
        match input.int_in_range(0..=15u8)? {
            0..=6 => {
                let (at, len) = self.range(input)?;
                self.versions += 1;
                let new = data(input, self.versions, len)?;
                let written = self.device.write(at as u64, &new);
                self.settle(at, &new, written);
            }
            7..=8 => {
                let (at, len) = self.range(input)?;
                self.compare(at, len);
            }
            9..=11 => {
                let (at, len) = self.range(input)?;
                if input.arbitrary()? {
                    self.discard(at, len);
                } else {
                    self.write_zeroes(at, len);
                }
            }
            12 => {
                let before = self.device.mm_stat().mem_used_total;
                let page = page::page_size() as u64;
                let freed = self.device.compact() as u64 * page;
                let used = self.device.mm_stat().mem_used_total;
                // Where classes with hardly an object are closed, a few pages more may be taken
                // than freed. Blocks that are stored anew free what is not counted.
                let is_taken = freed == 0 && (before..before + 8 * page).contains(&used);
                let is_stored_anew = self.device.block() > SLOT_BYTES && used < before + 8 * page;
                let is_right = used == before - freed || is_taken || is_stored_anew;
                assert!(is_right, "{before} to {used}, {freed} freed");
            }
            13 => {
                let used = self.device.mm_stat().mem_used_total as usize;
                let edges = [1, used, used + page::page_size()];
                let limit = match input.ratio(1, 4)? {
                    true => None,
                    false => Some(around(input, &edges, used + (1 << 20))? as u64),
                };
                self.device.set_mem_limit(limit);
                let page = page::page_size() as u64;
                let limit = limit.map_or(u64::MAX, |bytes| bytes.next_multiple_of(page));
                self.used_max = limit.max(self.device.mm_stat().mem_used_total);
            }
            14 => self.past_the_end(input)?,
            _ => {
                let stat = self.device.mm_stat();
                assert!(stat.mem_used_max >= stat.mem_used_total);
                assert!(self.device.mem_total() >= stat.mem_used_total);
                assert!(!stat.to_string().is_empty());
                self.device.reset_mem_used_max();
            }
        }
        assert!(self.device.mm_stat().mem_used_total <= self.used_max, "more than the limit");
        Ok(())
    }

    fn past_the_end(&self, input: &mut Unstructured) -> Result<()> {
        let (offset, len): (u64, u16) = (input.arbitrary()?, input.arbitrary()?);
        let offset = offset.max((self.bytes.len() as u64 + 1).saturating_sub(u64::from(len)));
        let refused = |done| assert!(matches!(done, Err(Error::Range { .. })), "{done:?}");
        refused(self.device.write(offset, &vec![7; usize::from(len)]));
        refused(self.device.read(offset, &mut vec![7; usize::from(len)]));
        refused(self.device.discard(offset, u64::from(len)));
        refused(self.device.write_zeroes(offset, u64::MAX - u64::from(len)));
        Ok(())
    }

    fn check(&self) {
        self.device.check();
        self.compare(0, self.bytes.len());
    }
}

fn run(input: &mut Unstructured) -> Result<()> {
    let geometry = input::geometry(input.arbitrary()?);
    let supply = input::supply(input)?;
    let algorithm = *input.choose(zcomp::codecs())?;
    let block = SLOT_BYTES << input.int_in_range(0..=4)?;
    let disksize =
        around(input, &[SLOT_BYTES, block, 2 * block, 48 * SLOT_BYTES], 48 * SLOT_BYTES)?.max(1);
    let config = Config {
        geometry,
        block,
        algorithm,
        streams: Some(1),
        // By itself it would make what an input does depend on time.
        compaction: Compaction::Manual,
        supply: supply.clone(),
        ..Config::new(disksize as u64).expect("there are codecs")
    };
    let Ok(device) = Device::new(config) else {
        assert!(supply.is_some(), "only a refusal of pages can fail this");
        return Ok(());
    };
    let bytes = vec![0; device.disksize() as usize];
    let refusing = supply.is_some();
    let mut shadow = Shadow { device, bytes, versions: 0, used_max: u64::MAX, refusing };
    let mut steps = 0;
    let mut ran = Ok(());
    while ran.is_ok() && !input.is_empty() {
        ran = shadow.step(input);
        steps += 1;
        if steps % 64 == 0 {
            shadow.check();
        }
    }
    shadow.check();
    // To discard all needs no memory, whatever the limit.
    shadow.device.set_mem_limit(Some(0));
    shadow.device.discard(0, shadow.bytes.len() as u64).expect("whole slots");
    shadow.bytes.fill(0);
    shadow.check();
    assert_eq!(shadow.device.mm_stat().orig_data_size, 0);
    ran
}

fuzz_target!(|bytes: &[u8]| {
    // Input that ends amid a request is as good as any.
    let _ = run(&mut Unstructured::new(bytes));
});
