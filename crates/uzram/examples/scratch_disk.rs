//! A compressed scratch disk for a virtual machine monitor. A request refers to guest memory, which
//! the device reads and writes in place.
//!
//! `cargo run --release -p uzram --example scratch_disk`
//!
//! # Safety
//! A slice of guest memory exists only during the request that refers to it. During the request,
//! the guest must not access this memory. (The rule applies to transfers of any disk.) The guest of
//! this example has no processor, so it accesses no memory. A monitor whose guest may break the
//! rule must copy the bytes.
#![allow(clippy::unwrap_used, unsafe_code, reason = "an example: what fails ends it")]

mod measured;

use measured::{Amount, measured, mib};
use std::slice;
use uzram::{Config, Device, Error};
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryMmap};

const SECTOR: u64 = 512;
/// The size of a request in bytes, typical of a guest with a large readahead.
const REQUEST: usize = 64 << 10;
/// The errno for an address that is not guest memory.
const EFAULT: i32 = 14;

#[derive(Clone, Copy)]
enum Kind {
    Read,
    Write,
    Discard,
}

/// A request as in virtio-blk: a sector, and a range of guest memory.
struct Request {
    kind: Kind,
    sector: u64,
    address: GuestAddress,
    len: usize,
}

/// A disk whose contents are lost when the machine ends.
struct ScratchDisk {
    device: Device,
}

impl ScratchDisk {
    /// Returns an empty disk of `bytes` bytes with blocks of 16 KiB. The compressed data take at
    /// most `limit` bytes.
    fn new(bytes: u64, limit: u64) -> Result<Self, Error> {
        let mut config = Config::new(bytes)?;
        config.algorithm = uzram::by_name("zstd")?;
        config.block = 16 << 10;
        config.mem_limit = Some(limit);
        Ok(ScratchDisk { device: Device::new(config)? })
    }

    /// Executes a request, and returns its errno, or 0 if it succeeded.
    fn serve(&self, memory: &GuestMemoryMmap, request: &Request) -> i32 {
        let Request { kind, sector, address, len } = *request;
        let offset = sector * SECTOR;
        let done = match kind {
            Kind::Discard => self.device.discard(offset, len as u64),
            Kind::Read | Kind::Write => {
                let Ok(guest) = memory.get_slice(address, len) else { return EFAULT };
                let start = guest.ptr_guard_mut();
                if let Kind::Write = kind {
                    // SAFETY: `get_slice` checked that `len` bytes are mapped there, and the guard
                    // keeps them mapped. The guest does not access them (head of this file).
                    let bytes = unsafe { slice::from_raw_parts(start.as_ptr(), len) };
                    self.device.write(offset, bytes)
                } else {
                    // SAFETY: as for the read of guest memory above. The guest does not access
                    // these bytes, so the slice is exclusive.
                    let bytes = unsafe { slice::from_raw_parts_mut(start.as_ptr(), len) };
                    self.device.read(offset, bytes)
                }
            }
        };
        done.map_or_else(|error| Error::from(error).errno(), |()| 0)
    }
}

/// Returns typical contents of a scratch disk: parts of this program's own file, each slightly
/// changed.
fn contents(program: &[u8], nth: u64) -> Vec<u8> {
    let parts = (program.len() / REQUEST).max(1) as u64;
    let first = (nth % parts) as usize * REQUEST;
    let mut bytes = program[first..program.len().min(first + REQUEST)].to_vec();
    bytes.resize(REQUEST, 0);
    for (at, place) in bytes.iter_mut().step_by(997).enumerate() {
        *place ^= (nth + at as u64) as u8;
    }
    bytes
}

fn run(amount: Amount) -> Result<(), Error> {
    let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let requests = amount.of(8192) as u64;
    let bytes = requests * REQUEST as u64;
    let memory = GuestMemoryMmap::<()>::from_ranges(&[(GuestAddress(0), 1 << 20)]).unwrap();
    memory.write_slice(&[0; 1 << 20], GuestAddress(0)).unwrap();
    let address = GuestAddress(0x4000);
    let request = |kind, nth: u64| {
        let sector = nth * REQUEST as u64 / SECTOR;
        Request { kind, sector, address, len: REQUEST }
    };

    let (disk, taken) = measured(|| {
        let disk = ScratchDisk::new(bytes, bytes)?;
        for nth in 0..requests {
            memory.write_slice(&contents(&program, nth), address).unwrap();
            assert_eq!(disk.serve(&memory, &request(Kind::Write, nth)), 0);
        }
        Ok::<_, Error>(disk)
    });
    let disk = disk?;
    let (plain, plainly) = measured(|| {
        let mut image = Vec::with_capacity(bytes as usize);
        (0..requests).for_each(|nth| image.extend(contents(&program, nth)));
        image
    });
    println!(
        "a scratch disk of {:.0} MiB takes {:.1} MiB, and {:.1} MiB as it is: {:.2} times as much",
        mib(bytes),
        mib(taken),
        mib(plainly),
        plainly as f64 / taken as f64,
    );
    assert!(taken < plainly, "{taken} bytes, and {plainly} as they are");

    let mut found = vec![0; REQUEST];
    for (nth, expected) in (0..).zip(plain.chunks(REQUEST)) {
        assert_eq!(disk.serve(&memory, &request(Kind::Read, nth)), 0);
        memory.read_slice(&mut found, address).unwrap();
        assert!(found == expected, "request {nth}: other bytes were read than were written");
    }
    let beyond = Request { address: GuestAddress((1 << 20) - 8), ..request(Kind::Read, 0) };
    assert_eq!(disk.serve(&memory, &beyond), EFAULT);
    assert_eq!(disk.serve(&memory, &request(Kind::Write, requests)), 22, "EINVAL: past the end");
    for nth in 0..requests {
        assert_eq!(disk.serve(&memory, &request(Kind::Discard, nth)), 0);
    }
    assert_eq!(disk.serve(&memory, &request(Kind::Read, 0)), 0);
    memory.read_slice(&mut found, address).unwrap();
    assert!(found.iter().all(|byte| *byte == 0), "what was discarded reads as zeros");
    assert_eq!(disk.device.mm_stat().orig_data_size, 0);
    Ok(())
}

fn main() -> Result<(), Error> {
    run(Amount::Full)
}

#[test]
fn it_takes_less_than_the_image() {
    run(Amount::Quick).unwrap();
}
