//! Tests that all front ends of a disk are consistent. Each front end must read exactly the bytes
//! that any front end has written.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt as _;
use support::host::{Unmounted, directory};
use support::nbd::Client;
use support::{Server, noise, serve_unsized};
use testkit::nbd::{NO_HOLE, TRIM, WRITE_ZEROES};
use testkit::{Choices, scaled, seed_of};

/// The size of the disk in bytes. The disk is large enough for requests of every kind.
const BYTES: usize = 8 << 20;

/// The maximum length of a request in bytes.
const LEN_MAX: usize = 600 << 10;

/// Lengths and offsets at which the server changes its behaviour: sectors, slots, blocks, parts of
/// replies.
const EDGES: [usize; 7] = [512, 4096, 8192, 65536, 128 << 10, 256 << 10, 512 << 10];

/// A disk with all of its front ends and its expected contents.
struct Disk {
    file: File,
    client: Client,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
enum Change {
    NbdWrite,
    NbdTrim,
    NbdZeroes,
    NbdZeroesNoHole,
    FileWrite,
    FilePunch,
    FileZeroRange,
}

const CHANGES: [Change; 7] = [
    Change::NbdWrite,
    Change::NbdTrim,
    Change::NbdZeroes,
    Change::NbdZeroesNoHole,
    Change::FileWrite,
    Change::FilePunch,
    Change::FileZeroRange,
];

impl Disk {
    fn change(&mut self, change: Change, at: usize, len: usize, data: &[u8]) {
        let (offset, bytes) = (at as u64, len as u32);
        let zero = |flags| {
            // `fallocate` refuses a length of 0.
            if len > 0 {
                fallocate(&self.file, flags, offset, len as u64).unwrap();
            }
        };
        match change {
            Change::NbdWrite => self.client.write(offset, data),
            Change::NbdTrim => self.client.ask(TRIM, 0, offset, bytes).unwrap(),
            Change::NbdZeroes => self.client.ask(WRITE_ZEROES, 0, offset, bytes).unwrap(),
            Change::NbdZeroesNoHole => {
                self.client.ask(WRITE_ZEROES, NO_HOLE, offset, bytes).unwrap();
            }
            Change::FileWrite => self.file.write_all_at(data, offset).unwrap(),
            Change::FilePunch => zero(FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE),
            Change::FileZeroRange => zero(FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE),
        }
        let is_write = matches!(change, Change::NbdWrite | Change::FileWrite);
        let range = &mut self.bytes[at..at + len];
        if is_write { range.copy_from_slice(data) } else { range.fill(0) }
    }

    /// Reads a range, and the pages before and after the range, by each front end. Compares the
    /// data.
    fn compare(&mut self, at: usize, len: usize, why: &str) {
        let (start, end) = (at.saturating_sub(4096), (at + len + 4096).min(BYTES));
        let expected = &self.bytes[start..end];
        let mut by_file = vec![0xee; expected.len()];
        self.file.read_exact_at(&mut by_file, start as u64).unwrap();
        let by_nbd = self.client.read(start as u64, expected.len());
        for (found, front_end) in [(&by_file, "file"), (&by_nbd, "NBD")] {
            let differs = found.iter().zip(expected).position(|(found, byte)| found != byte);
            assert_eq!(differs.map(|nth| start + nth), None, "by {front_end}, after {why}");
        }
    }

    /// Checks that the holes that the file reports read as zeros, and that all other bytes are
    /// reported as data.
    fn compare_holes(&self) {
        let mut at = 0;
        while at < BYTES as u64 {
            let data = seek(&self.file, SeekFrom::Data(at)).unwrap_or(BYTES as u64);
            let hole = &self.bytes[at as usize..data as usize];
            assert!(hole.iter().all(|byte| *byte == 0), "there are data in the hole at {at}");
            at = match data == BYTES as u64 {
                true => data,
                false => seek(&self.file, SeekFrom::Hole(data)).unwrap(),
            };
        }
    }
}

/// Chooses an offset and a length. Often the offset or the length is one of `EDGES`, or differs
/// from one of them by one byte.
fn range(choices: &mut Choices) -> (usize, usize) {
    let at = choices.beside(&EDGES, BYTES);
    (at, choices.beside(&EDGES, LEN_MAX.min(BYTES - at)))
}

fn mounted(args: &[&str]) -> Option<(Server, Disk, Unmounted, tempfile::TempDir)> {
    let (dir, mount, unmounted) = directory()?;
    let sockets = tempfile::tempdir().unwrap();
    let mut command = serve_unsized(sockets.path());
    command.args(["--size", &BYTES.to_string(), "--nbd", "unix:nbd.sock"]).args(args);
    let child = command.arg("--mount").arg(&mount).spawn().unwrap();
    let server = Server::announced(child, sockets);
    let file = File::options().read(true).write(true).open(mount.join("disk")).unwrap();
    let disk = Disk { file, client: server.client(), bytes: vec![0; BYTES] };
    Some((server, disk, unmounted, dir))
}

#[test]
fn what_one_front_end_changes_every_other_reads() {
    for (nth, block) in ["4K", "16K", "64K"].into_iter().enumerate() {
        let Some((server, mut disk, _unmounted, _dir)) = mounted(&["--block", block]) else {
            return;
        };
        let seed = seed_of(900 + nth as u64);
        let mut choices = Choices::seeded(seed);
        disk.change(Change::NbdWrite, 0, BYTES, &noise(nth as u64, BYTES));
        for round in 0..scaled(60, 5_000) {
            let (change, (at, len)) = (*choices.pick(&CHANGES), range(&mut choices));
            let mut data = noise(1000 + round as u64, len);
            if choices.bool() {
                data.fill(round as u8);
            }
            disk.change(change, at, len, &data);
            let why = format!("UZRAM_SEED {seed}, {block}, round {round}: {change:?} {at} {len}");
            disk.compare(at, len, &why);
        }
        disk.compare(0, BYTES, "all");
        disk.compare_holes();
        drop(server);
    }
}

#[test]
fn ends_of_the_disk_are_kept_by_every_front_end() {
    let Some((_server, mut disk, _unmounted, _dir)) = mounted(&[]) else { return };
    let end = BYTES as u64;
    disk.change(Change::NbdWrite, BYTES - 5000, 5000, &noise(7, 5000));
    // Tests requests before, at and beyond the end of the disk. At the end, a read of the file is
    // short, and an NBD request is refused.
    for (at, len) in [(end - 1, 1), (end - 1, 2), (end, 1), (end + 1, 1), (end + (1 << 40), 1)] {
        let is_inside = at + len <= end;
        let mut bytes = vec![0; len as usize];
        let read = disk.file.read_at(&mut bytes, at).unwrap();
        assert_eq!(read as u64, end.saturating_sub(at).min(len), "{at}");
        assert_eq!(disk.client.try_read(at, len as usize).is_ok(), is_inside, "{at}");
        for kind in [TRIM, WRITE_ZEROES] {
            assert!(disk.client.ask(kind, 0, end, 1).is_err());
        }
        let written = disk.file.write_at(&vec![1; len as usize], at);
        match end.saturating_sub(at).min(len) {
            0 => assert_eq!(written.unwrap_err().kind(), ErrorKind::StorageFull, "{at}"),
            some => assert_eq!(written.unwrap() as u64, some, "{at}"),
        }
        disk.bytes[BYTES - 1] = 1;
        disk.compare(BYTES - 5000, 5000, "the end");
    }
    let over = fallocate(
        &disk.file,
        FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
        end - 10,
        1 << 20,
    );
    over.unwrap();
    disk.bytes[BYTES - 10..].fill(0);
    disk.compare(BYTES - 5000, 5000, "a hole over the end");
    assert_eq!(seek(&disk.file, SeekFrom::End(0)).unwrap(), end);
}
