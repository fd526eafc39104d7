use super::*;
use crate::{
    Algorithm, Backing, DamagedLeft, Recompress, SaveOptions, SaveTo, Selection, Unreadable,
};
use std::io;
use std::sync::Mutex;

/// Changes a byte of the object of entry `entry`, as a memory error would.
fn damage(table: &Table, entry: u32) {
    let locked = table.pool.lock(entry).unwrap();
    let zsmalloc::Content::Object { bytes, .. } = locked.content() else { unreachable!() };
    let first = bytes[0] ^ 0x10;
    locked.patch(&[first]).unwrap();
}

#[derive(Debug)]
struct InMemory(Mutex<Vec<u8>>);

impl Backing for InMemory {
    fn name(&self) -> String {
        "memory".to_owned()
    }

    fn bytes(&self) -> u64 {
        self.0.lock().unwrap().len() as u64
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        buf.copy_from_slice(&self.0.lock().unwrap()[offset as usize..][..buf.len()]);
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.lock().unwrap()[offset as usize..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

/// A write reports the number of slots that it stored raw.
#[test]
fn a_write_tells_what_it_stored_raw() {
    for block in [SLOT_BYTES, 4 * SLOT_BYTES] {
        let device = Device::new(Config { block, ..Config::new(1 << 20).unwrap() }).unwrap();
        let mut bytes = vec![0; 16 * SLOT_BYTES];
        fastrand::Rng::with_seed(testkit::seed(2))
            .fill(&mut bytes[4 * SLOT_BYTES..12 * SLOT_BYTES]);
        for _ in 0..2 {
            assert_eq!(device.write_with_outcome(0, &bytes).unwrap().raw, 8);
            assert_eq!(device.write_with_outcome(1 << 19, &[7; 4 * SLOT_BYTES]).unwrap().raw, 0);
        }
    }
}

/// A job skips damaged objects and reports their number.
#[test]
fn jobs_go_on_past_what_is_damaged() {
    for block in [SLOT_BYTES, 4 * SLOT_BYTES] {
        let zstd = Algorithm::new(zcomp::by_name("zstd").unwrap());
        let config = Config {
            block,
            checksums: true,
            recompression: [Some(zstd), None, None],
            backing: Some(Arc::new(InMemory(Mutex::new(vec![0; 2 << 20])))),
            ..Config::new(1 << 20).unwrap()
        };
        let device = Device::new(config).unwrap();
        let mut rng = fastrand::Rng::with_seed(testkit::seed(1));
        let bytes: Vec<u8> = (0..1 << 20).map(|_| b"acgt"[rng.usize(..4)]).collect();
        device.write(0, &bytes).unwrap();
        let layout = device.table.layout;
        let entries = [5, 100].map(|slot| layout.first_entry(layout.block_of(slot)));
        entries.iter().for_each(|&entry| damage(&device.table, entry));
        let all = layout.all_slots() / u64::from(layout.slots());
        let slots = entries.map(|entry| u64::from(layout.slot_of(entry)));
        let left = |damaged: DamagedLeft| {
            let first = damaged.first.is_some_and(|first| slots.contains(&first));
            (damaged.count, first, damaged.to_result().map_err(|error| error.errno()))
        };
        let done = device.recompress(&Recompress::default()).unwrap();
        assert_eq!((done.tried, done.smaller), (all - 2, all - 2), "{done:?}");
        assert_eq!(left(done.damaged), (2, true, Err(5)));
        let done = device.write_back(&Selection::default()).unwrap();
        assert_eq!(done.slots, layout.all_slots() - 2 * u64::from(layout.slots()), "{done:?}");
        assert_eq!(left(done.damaged), (2, true, Err(5)));
        device.check();
    }
}

#[test]
fn what_was_damaged_in_memory_is_not_given_out() {
    for block in [SLOT_BYTES, 4 * SLOT_BYTES] {
        let config = Config { block, checksums: true, ..Config::new(1 << 20).unwrap() };
        let device = Device::new(config).unwrap();
        let bytes = b"words that compress, and some more ".repeat(1000);
        device.write(0, &bytes[..8 * SLOT_BYTES]).unwrap();
        device.write(9, b"in part").unwrap();
        let mut back = vec![0; 8 * SLOT_BYTES];
        device.read(0, &mut back).unwrap();
        assert_eq!(back[16..], bytes[16..8 * SLOT_BYTES]);
        let layout = device.table.layout;
        let entry = layout.first_entry(layout.block_of(5));
        damage(&device.table, entry);
        let slot = u64::from(layout.slot_of(entry));
        let damaged = Error::Checksum { slot };
        assert_eq!(device.read(slot * SLOT_BYTES as u64, &mut [0; 9]), Err(damaged.clone()));
        assert_eq!(device.write(slot * SLOT_BYTES as u64 + 1, &[7]), Err(damaged.clone()));
        assert_eq!(device.recompress(&Default::default()), Err(Error::NoAlgorithm { priority: 1 }));
        assert_eq!(device.write_back(&Selection::default()), Err(Error::NoBacking));
        let strict = SaveOptions { unreadable: Unreadable::Refuse, ..SaveOptions::default() };
        assert_eq!(device.save(SaveTo::Writer(&mut Vec::new()), &strict), Err(damaged));
        let saved = device.save(SaveTo::Writer(&mut Vec::new()), &SaveOptions::default()).unwrap();
        let lost = slot * SLOT_BYTES as u64;
        assert!(saved.lost.iter().all(|of| of.contains(&lost)) && saved.lost_slots > 0);
        assert!(device.io_stat().failed_reads > 0);
        // An overwrite of whole slots does not read the damaged data.
        device.write(slot * SLOT_BYTES as u64, &bytes[..4 * SLOT_BYTES]).unwrap();
        device.read(0, &mut back).unwrap();
        device.check();
    }
}
