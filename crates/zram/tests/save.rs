//! Tests saves and restores: with other configurations, after damage, after a truncated save, and
//! after the saving process was killed.
#![allow(clippy::unwrap_used)]

use fastrand::Rng;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use testkit::contents::data;
use testkit::shadow::Shadow;
use testkit::{is_long, seed};
use zram::{
    Algorithm, Config, Damage, Device, Error, Recompress, Restored, SLOT_BYTES, SaveOptions,
    SaveTo, SavedHeader, Zram,
};
use zsmalloc::{Geometry, KernelGeometry};

const BYTES: usize = 3 << 20;

fn codec(name: &str) -> Algorithm {
    Algorithm::new(zcomp::by_name(name).unwrap())
}

/// Returns a path in a directory of this test.
fn place(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("uzram-save-{}-{name}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    dir.join("saved")
}

/// Returns a device with data of all kinds, some of which are recompressed.
fn filled(config: Config, rng: &mut Rng) -> Shadow<Device> {
    let recompression = [None, Some(codec("zstd")), None];
    let bytes = config.disksize as usize;
    let device = Device::new(Config { recompression, ..config }).unwrap();
    let block = device.block();
    let mut shadow = Shadow::of(device, 0, bytes);
    for round in 0..200 {
        let at = rng.usize(..bytes);
        let (at, len) = if rng.bool() { (at, 3000) } else { (at / block * block, block) };
        let len = len.min(bytes - at);
        if rng.usize(..4) == 0 {
            shadow.discard(at, len).unwrap()
        } else {
            shadow.write(at, &data(rng, len)).unwrap()
        }
        if round == 100 {
            shadow.device.recompress(&Recompress { priority: 2, ..Recompress::default() }).unwrap();
        }
    }
    shadow
}

fn saved(device: &Device) -> Vec<u8> {
    let mut file = Vec::new();
    let saved = device.save(SaveTo::Writer(&mut file), &SaveOptions::default()).unwrap();
    assert_eq!(saved.bytes, file.len() as u64);
    file
}

fn restored(device: &Device, mut file: &[u8], damage: Damage) -> Result<Restored, Error> {
    device.restore_from(&mut file, damage)
}

fn slots(device: &Device) -> u64 {
    device.mm_stat().orig_data_size / SLOT_BYTES as u64
}

#[test]
fn what_was_saved_is_restored_to_any_device() {
    let mut rng = Rng::with_seed(seed(11));
    let blocks = [SLOT_BYTES, 4 * SLOT_BYTES, 16 * SLOT_BYTES];
    for from in blocks {
        let config = Config { block: from, ..Config::new(BYTES as u64).unwrap() };
        let shadow = filled(config.clone(), &mut rng);
        let file = saved(&shadow.device);
        for to in blocks {
            for (algorithm, geometry) in [
                ("lz4", Geometry::default()),
                ("zstd", Geometry::Kernel(KernelGeometry::default())),
            ] {
                let other = Config {
                    block: to,
                    geometry,
                    algorithm: codec(algorithm).codec,
                    // With only one stream, a restore would hang if it waited for a stream that it
                    // holds itself.
                    streams: Some(1),
                    ..config.clone()
                };
                let recompression = [None, Some(codec("zstd")), None];
                let disksize = BYTES as u64 + 5 * SLOT_BYTES as u64;
                let device = Device::new(Config { disksize, recompression, ..other }).unwrap();
                let done = restored(&device, &file, Damage::Refuse).unwrap();
                assert_eq!((done.slots, done.lost.len()), (slots(&shadow.device), 0));
                let back = Shadow { device, base: 0, bytes: shadow.bytes.clone() };
                back.compare(0, BYTES);
                back.device.check();
                assert_eq!(restored(&back.device, &file, Damage::Refuse), Err(Error::NotEmpty));
                if (from, algorithm) == (to, "lz4") {
                    let of = |device: &Device| {
                        let states =
                            device.block_state().map(|state| (state.index, state.priority));
                        (device.mm_stat().compr_data_size, states.collect::<Vec<_>>())
                    };
                    assert_eq!(of(&back.device), of(&shadow.device), "as it lies");
                }
            }
        }
    }
}

#[test]
fn files_have_what_it_takes_to_make_the_device_again() {
    let path = place("again");
    let dictionary = zcomp::Dictionary::new(b"some words that are here".repeat(9)).unwrap();
    let config = Config {
        algorithm: codec("zstd").codec,
        params: zcomp::Params { level: Some(5), dictionary: Some(dictionary) },
        block: 4 * SLOT_BYTES,
        ..Config::new(BYTES as u64).unwrap()
    };
    let shadow = filled(config, &mut Rng::with_seed(seed(10)));
    let saved = shadow.device.save(SaveTo::File(&path), &SaveOptions::default()).unwrap();
    assert_eq!(saved.slots, slots(&shadow.device));
    assert_eq!(fs::metadata(&path).unwrap().len(), saved.bytes);
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    let header = SavedHeader::read(&path).unwrap();
    assert_eq!((header.disksize, header.block), (BYTES as u64, 4 * SLOT_BYTES));
    let device = Device::new(header.config()).unwrap();
    device.restore(&path, Damage::Refuse).unwrap();
    Shadow { device, ..shadow }.compare(0, BYTES);

    let small = Device::new(Config::new(BYTES as u64 - 1 - SLOT_BYTES as u64).unwrap()).unwrap();
    let refused = small.restore(&path, Damage::Refuse).unwrap_err();
    assert!(matches!(refused, Error::TooSmall { .. }) && refused.errno() == 28, "{refused}");
    let missing =
        small.save(SaveTo::File(Path::new("/no/such/place")), &SaveOptions::default()).unwrap_err();
    assert!(missing.errno() == 2 && missing.to_string().contains("'/no/such/place'"), "{missing}");

    let zram = Zram::new();
    zram.store("disksize", "4M").unwrap();
    let words = path.to_str().unwrap();
    zram.store("restore", words).unwrap();
    assert_eq!(zram.store("restore", words).unwrap_err().errno(), 39);
    zram.store("save", words).unwrap();
    fs::remove_dir_all(path.parent().unwrap()).unwrap();
}

/// Asserts that a restore rejects a file, and that the message contains the damage's offset.
fn expect_refused(device: &Device, file: &[u8], what: &str) {
    match restored(device, file, Damage::Refuse) {
        Err(error) => {
            let text = error.to_string();
            assert!(matches!(error, Error::Saved { .. }), "{what}: {text}");
            assert!(text.contains("offset") && text.lines().count() == 1, "{what}: {text}");
        }
        Ok(_) => panic!("{what} is accepted"),
    }
    assert_eq!(device.mm_stat().orig_data_size, 0, "{what}");
}

/// Asserts that after a salvage each range contains the saved data, or is listed as lost.
fn expect_salvaged(device: &Device, shadow: &Shadow<Device>, file: &[u8], what: &str) -> Restored {
    let Ok(done) = restored(device, file, Damage::Salvage) else {
        return Restored::default(); // the header is damaged
    };
    let mut bytes = shadow.bytes.clone();
    for lost in &done.lost {
        bytes[lost.start as usize..lost.end as usize].fill(0);
    }
    let mut back = vec![1; bytes.len()];
    device.read(0, &mut back).unwrap();
    assert!(back == bytes, "{what}");
    device.discard(0, bytes.len() as u64).unwrap();
    done
}

#[test]
fn damaged_files_are_refused_and_salvaged() {
    let mut rng = Rng::with_seed(seed(12));
    let config = Config { block: 2 * SLOT_BYTES, ..Config::new(16 << 10).unwrap() };
    let mut shadow = Shadow::of(Device::new(config.clone()).unwrap(), 0, 16 << 10);
    shadow.write(0, &b"a block of two slots ".repeat(400)[..2 * SLOT_BYTES]).unwrap();
    shadow.write(2 * SLOT_BYTES, &b"and a slot that is alone ".repeat(200)[..SLOT_BYTES]).unwrap();
    shadow.write(3 * SLOT_BYTES, &[9; SLOT_BYTES]).unwrap();
    let file = saved(&shadow.device);
    let device = Device::new(config).unwrap();
    let long = if is_long() { 40 } else { 1 };
    for len in (0..file.len()).step_by(if is_long() { 1 } else { 5 }) {
        expect_refused(&device, &file[..len], &format!("{len} bytes of {}", file.len()));
        if len % 7 == 0 {
            expect_salvaged(&device, &shadow, &file[..len], "truncated");
        }
    }
    for nth in 0..3000 * long {
        let mut broken = file.clone();
        let at = if nth % 2 == 0 {
            rng.usize(..broken.len())
        } else {
            (nth / 2) % 600 + nth % 4 * 4096 % broken.len()
        };
        let at = at % broken.len();
        broken[at] ^= 1 << rng.u32(..8);
        expect_refused(&device, &broken, &format!("a bit of byte {at}"));
        expect_salvaged(&device, &shadow, &broken, &format!("a bit of byte {at}"));
    }
    expect_refused(&device, &[&file[..], &[0]].concat(), "a byte more");
    expect_refused(&device, &[], "nothing");
}

/// Corrects all checksums of a file after a change of its contents.
fn forge(file: &mut [u8]) {
    let sum = crc32fast::hash(&file[..116]).to_le_bytes();
    file[116..120].copy_from_slice(&sum);
    for at in (4096..file.len()).step_by(4096) {
        let chunk = &mut file[at..];
        if chunk[..8] == *b"\x8bchunk\r\n" {
            let bytes = u32::from_le_bytes(*chunk[24..].first_chunk().unwrap()) as usize;
            if let Some(payload) = chunk.get(48..48 + bytes) {
                let sum = crc32fast::hash(payload).to_le_bytes();
                chunk[28..32].copy_from_slice(&sum);
            }
            let sum = crc32fast::hash(&chunk[..40]).to_le_bytes();
            chunk[40..44].copy_from_slice(&sum);
        }
    }
}

/// The record of the second block is changed to describe the first block again. The first slot of
/// the first block is free.
#[test]
fn a_block_that_comes_twice_is_damage() {
    let made =
        || Device::new(Config { block: 4 * SLOT_BYTES, ..Config::new(64 << 10).unwrap() }).unwrap();
    let device = made();
    device.write(0, &b"words and words ".repeat(8 * SLOT_BYTES / 16)).unwrap();
    device.discard(0, SLOT_BYTES as u64).unwrap();
    let mut file = saved(&device);
    let entries = 4096 + 48;
    assert_eq!(file[entries + 16..][..5], [4, 0, 0, 0, 3], "the second block's slot and kind");
    let first = file[entries..][..8].to_vec();
    file[entries + 16..][..8].copy_from_slice(&first);
    forge(&mut file);
    let empty = made();
    for damage in [Damage::Refuse, Damage::Salvage] {
        let refused = restored(&empty, &file, damage);
        assert!(matches!(refused, Err(Error::Saved { .. }) | Ok(_)), "{refused:?}");
        assert_eq!(refused.is_ok(), damage == Damage::Salvage);
        empty.check();
    }
}

/// The last block has fewer slots than the others. In files of earlier versions, the last chunk
/// could end beyond the end of the device. Now the last chunk must end with the device.
#[test]
fn a_chunk_ends_with_the_device() {
    const SLOTS: usize = 367;
    let mut rng = Rng::with_seed(seed(7));
    for len in (2460..2500).step_by(4) {
        let config = Config { block: 4 * SLOT_BYTES, ..Config::new(SLOTS as u64 * 4096).unwrap() };
        let device = Device::new(config.clone()).unwrap();
        let mut bytes = vec![0; SLOTS * SLOT_BYTES];
        for slot in bytes.chunks_mut(SLOT_BYTES) {
            rng.fill(&mut slot[..len]);
        }
        device.write(0, &bytes).unwrap();
        let file = saved(&device);
        let again = Device::new(config).unwrap();
        restored(&again, &file, Damage::Refuse).unwrap();
        let mut back = vec![0; bytes.len()];
        again.read(0, &mut back).unwrap();
        assert!(back == bytes, "{len} bytes of each slot are noise");
        // A file whose last chunk ends beyond the device is restored completely.
        let mut older = file.clone();
        let heads =
            (4096..file.len()).step_by(4096).filter(|&at| file[at..].starts_with(b"\x8bchunk\r\n"));
        for border in heads.flat_map(|at| [at + 32, at + 36]).rev().skip(1).take(2) {
            assert_eq!(older[border..][..4], (SLOTS as u32).to_le_bytes());
            older[border..][..4].copy_from_slice(&(SLOTS as u32 + 1).to_le_bytes());
        }
        forge(&mut older);
        again.discard(0, bytes.len() as u64).unwrap();
        restored(&again, &older, Damage::Refuse).unwrap();
        again.read(0, &mut back).unwrap();
        assert!(back == bytes, "{len} bytes of each slot are noise, as it was saved once");
    }
}

#[test]
fn forged_files_do_no_harm() {
    let mut rng = Rng::with_seed(seed(13));
    for block in [SLOT_BYTES, 4 * SLOT_BYTES] {
        let config = Config { block, ..Config::new(64 << 10).unwrap() };
        let shadow = filled(config.clone(), &mut rng);
        let file = saved(&shadow.device);
        let device = Device::new(config.clone()).unwrap();
        let mut same = file.clone();
        forge(&mut same);
        assert_eq!(same, file);
        let extremes = [0, 1, 0x7f, 0x80, 0xff];
        let mut accepted = 0;
        for nth in 0..if is_long() { 100_000 } else { 3000 } {
            let mut broken = file.clone();
            let at = match nth % 3 {
                0 => rng.usize(8..116),
                1 => 4096 + rng.usize(8..48 + 16 * 20),
                _ => rng.usize(..broken.len()),
            };
            let len = [1, 1, 2, 4, 8][rng.usize(..5)].min(broken.len() - at);
            let extreme = extremes[rng.usize(..5)];
            broken[at..at + len].fill_with(|| if nth % 2 == 0 { extreme } else { rng.u8(..) });
            forge(&mut broken);
            for damage in [Damage::Refuse, Damage::Salvage] {
                if restored(&device, &broken, damage).is_ok() {
                    accepted += 1;
                    let mut buf = vec![0; 64 << 10];
                    let _ = device.read(0, &mut buf);
                    device.check();
                }
                device.discard(0, 64 << 10).unwrap();
                assert_eq!(slots(&device), 0);
            }
        }
        println!("{accepted} accepted");
    }
}

#[test]
fn chunks_of_other_places_and_files_are_refused() {
    let mut rng = Rng::with_seed(seed(14));
    let config = Config::new(6 << 20).unwrap();
    let mut shadow = Shadow::of(Device::new(config.clone()).unwrap(), 0, 6 << 20);
    let noise: Vec<u8> = (0..4 << 20).map(|_| rng.u8(..)).collect();
    shadow.write(0, &noise).unwrap();
    let (file, other) = (saved(&shadow.device), saved(&shadow.device));
    let begins = |at: &usize| file[*at..].starts_with(b"\x8bchunk\r\n");
    let mut starts: Vec<_> = (0..file.len()).step_by(4096).filter(begins).collect();
    assert!(starts.len() >= 5);
    starts.push(file.len());
    let chunk = |file: &[u8], nth: usize| file[starts[nth]..starts[nth + 1]].to_vec();
    let with = |order: &[usize], from: &[u8]| {
        let chunks = order.iter().flat_map(|&nth| chunk(from, nth));
        file[..starts[0]].iter().copied().chain(chunks).collect::<Vec<u8>>()
    };
    let count = starts.len() - 1;
    let all: Vec<_> = (0..count).collect();
    let device = Device::new(config).unwrap();
    for nth in 0..count {
        let mut order = all.clone();
        order.remove(nth);
        expect_refused(&device, &with(&order, &file), &format!("without chunk {nth}"));
        let done = expect_salvaged(&device, &shadow, &with(&order, &file), "one is missing");
        assert_eq!(done.lost.len(), usize::from(nth + 1 < count), "{done:?}");
        order.insert(nth, nth);
        order.insert(nth, nth);
        expect_refused(&device, &with(&order, &file), &format!("chunk {nth} twice"));
        for second in 0..nth {
            let mut order = all.clone();
            order.swap(nth, second);
            expect_refused(&device, &with(&order, &file), &format!("{nth} and {second} swapped"));
            expect_salvaged(&device, &shadow, &with(&order, &file), "swapped");
        }
    }
    expect_refused(&device, &with(&all, &other), "chunks of another file");
    assert!(restored(&device, &with(&all, &file), Damage::Refuse).is_ok());
}

/// A writer that accepts `writes` writes and half of the following write, and then fails.
struct Cut {
    taken: Vec<u8>,
    writes: usize,
}

impl Write for Cut {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.writes == 0 {
            self.taken.extend_from_slice(&bytes[..bytes.len() / 2]);
            return Err(io::Error::from_raw_os_error(28));
        }
        self.writes -= 1;
        self.taken.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_save_that_is_cut_after_any_write_is_no_save() {
    let shadow = filled(Config::new(6 << 20).unwrap(), &mut Rng::with_seed(seed(15)));
    let empty = Device::new(Config::new(6 << 20).unwrap()).unwrap();
    for writes in 0.. {
        let mut cut = Cut { taken: Vec::new(), writes };
        match shadow.device.save(SaveTo::Writer(&mut cut), &SaveOptions::default()) {
            Ok(_) => break,
            Err(error) => assert_eq!(error.errno(), 28, "{error}"),
        }
        expect_refused(&empty, &cut.taken, &format!("{writes} writes"));
        expect_salvaged(&empty, &shadow, &cut.taken, "cut");
    }
    shadow.compare(0, 6 << 20);
}

/// Saves the contents that [`version`] returns, again and again, until the process is killed.
#[test]
#[ignore = "the child of the next one"]
fn save_until_killed() {
    let Some(path) = std::env::var_os("UZRAM_SAVE_TO") else { return };
    let device = Device::new(Config::new(2 << 20).unwrap()).unwrap();
    for nth in 0.. {
        device.write(0, &version(nth)).unwrap();
        device.save(SaveTo::File(Path::new(&path)), &SaveOptions::default()).unwrap();
        println!("{nth}");
    }
}

/// Returns noise with the number `nth` at the beginning of every slot.
fn version(nth: u32) -> Vec<u8> {
    let mut rng = Rng::with_seed(testkit::seed_of(nth.into()));
    let mut bytes: Vec<u8> = (0..2 << 20).map(|_| rng.u8(..)).collect();
    bytes.chunks_mut(SLOT_BYTES).for_each(|slot| slot[..4].copy_from_slice(&nth.to_le_bytes()));
    bytes
}

#[test]
fn a_killed_saver_leaves_a_whole_file() {
    let path = place("killed");
    let mut rng = Rng::with_seed(seed(16));
    let mut seen = 0;
    for round in 0..if is_long() { 50 } else { 8 } {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "save_until_killed", "--ignored", "--nocapture"])
            .env("UZRAM_SAVE_TO", &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut says = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(says.any(|line| line.unwrap() == "1"), "it saved nothing");
        std::thread::sleep(Duration::from_millis(rng.u64(..150)));
        child.kill().unwrap();
        child.wait().unwrap();
        let device = Device::new(Config::new(2 << 20).unwrap()).unwrap();
        device.restore(&path, Damage::Refuse).unwrap();
        let mut back = vec![0; 2 << 20];
        device.read(0, &mut back).unwrap();
        let nth = u32::from_le_bytes(*back.first_chunk().unwrap());
        assert!(back == version(nth), "round {round}: version {nth}");
        seen = seen.max(nth);
    }
    println!("up to version {seen}");
    assert!(fs::read_dir(path.parent().unwrap()).unwrap().count() <= 2);
    fs::remove_dir_all(path.parent().unwrap()).unwrap();
}

/// A file that appears at the path during the save is kept. `is_free` is called immediately before
/// the rename.
#[test]
fn what_comes_to_the_place_while_it_is_saved_may_stay() {
    let file = place("free");
    let dir = file.parent().unwrap();
    let device = Device::new(Config::new(1 << 20).unwrap()).unwrap();
    device.write(0, &[7; 4096]).unwrap();
    let comes = || {
        let aside = fs::metadata(file.with_file_name(".saved.saving")).unwrap();
        assert!(aside.len() > 0, "it is not written yet");
        fs::write(&file, "precious").unwrap();
        false
    };
    let refused = device.save(SaveTo::FileIf(&file, &comes), &SaveOptions::default()).unwrap_err();
    assert_eq!(refused.errno(), 17, "{refused}");
    assert_eq!(fs::read(&file).unwrap(), b"precious");
    assert_eq!(fs::read_dir(dir).unwrap().count(), 1, "something was left");
    assert_eq!(
        device.save(SaveTo::FileIf(&file, &|| true), &SaveOptions::default()).unwrap().slots,
        1
    );
    assert_ne!(fs::read(&file).unwrap(), b"precious");
    fs::remove_dir_all(dir).unwrap();
}
