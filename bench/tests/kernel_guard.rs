//! The kernel's device is removed even after a signal. If no device can be created, each test
//! prints the reason and passes.
#![allow(clippy::unwrap_used)]

use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use bench::aligned::AlignedBuf;
use bench::filled::{self, kernel_stat};
use bench::inputs::PageSet;
use bench::kernel::{KernelSwap, KernelZram, PagedMemory, Rival};
use rustix::process::{Pid, Signal, kill_process};
use zsmalloc::{Geometry, KernelGeometry};

const DISKSIZE: u64 = 64 << 20;
const HOLDER: &str = "UZRAM_TEST_HOLDS_DEVICE";

fn device(test: &str) -> Option<KernelZram> {
    match KernelZram::acquire("lz4", DISKSIZE).unwrap() {
        Rival::Present(device) => Some(device),
        Rival::Absent(reason) => {
            println!("skipped: {test}: {reason}");
            None
        }
    }
}

// A device number may be reused at once, but a sequence number is never reused.
struct Identity {
    path: PathBuf,
    sequence: String,
}

impl Identity {
    fn of(number: u32) -> Identity {
        assert_ne!(number, 0);
        let path = PathBuf::from(format!("/sys/block/zram{number}/diskseq"));
        let sequence = fs::read_to_string(&path).unwrap();
        Identity { path, sequence }
    }

    fn exists(&self) -> bool {
        fs::read_to_string(&self.path).is_ok_and(|sequence| sequence == self.sequence)
    }
}

#[test]
fn pages_come_back_at_every_request_size() {
    let Some(device) = device("pages_come_back_at_every_request_size") else { return };
    let mut data = AlignedBuf::zeroed(8 << 20);
    for (index, byte) in data.iter_mut().enumerate() {
        *byte = (index / 7 % 251) as u8;
    }
    for request in [4 << 10, 64 << 10, 1 << 20] {
        device.write(0, &data, request).unwrap();
        device.verify(0, &data, request).unwrap();
    }
    let full = device.mm_stat().unwrap();
    assert_eq!(full.orig_data_size, data.len() as u64);
    assert!(full.compr_data_size > 0 && full.mem_used_total >= full.compr_data_size);
    data[5000] ^= 1;
    assert!(device.verify(0, &data, 1 << 20).unwrap_err().to_string().contains("byte 5000"));
    device.discard(0, 4 << 20).unwrap();
    let half = device.mm_stat().unwrap();
    assert_eq!(half.orig_data_size, full.orig_data_size / 2);
    device.compact().unwrap();
    assert!(device.mm_stat().unwrap().mem_used_total < full.mem_used_total);
    assert!(device.write(0, &data, 1000).is_err());
    let gone = Identity::of(device.number());
    assert!(gone.exists());
    device.remove().unwrap();
    assert!(!gone.exists());
}

#[test]
fn a_panic_removes_the_device() {
    let Some(device) = device("a_panic_removes_the_device") else { return };
    let path = Identity::of(device.number());
    assert!(path.exists());
    let caught = panic::catch_unwind(AssertUnwindSafe(move || {
        device.write(0, &AlignedBuf::zeroed(4096), 4096).unwrap();
        panic!("on purpose");
    }));
    assert!(caught.is_err());
    assert!(!path.exists());
}

#[test]
fn an_unknown_algorithm_is_absence_with_a_reason() {
    match KernelZram::acquire("no-such-codec", DISKSIZE).unwrap() {
        Rival::Present(_) => panic!("no kernel has it"),
        Rival::Absent(reason) => assert!(reason.contains("zram"), "{reason}"),
    }
}

// This is not a test. The next test runs this function in a child process, and ends that process
// with a signal.
#[test]
fn holder() {
    if env::var_os(HOLDER).is_none() {
        return;
    }
    let Some(device) = device("holder") else { return };
    println!("holds {}", device.number());
    let data = AlignedBuf::zeroed(1 << 20);
    loop {
        // The write fails after the signal has removed the device.
        if device.write(0, &data, 4096).is_err() {
            thread::sleep(Duration::from_secs(10));
        }
    }
}

#[test]
fn a_signal_removes_the_device_and_ends_the_process() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "holder", "--nocapture"])
            .env(HOLDER, "1")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut number = None;
        for line in lines.map_while(Result::ok) {
            if let Some((_, reason)) = line.split_once("skipped: holder: ") {
                println!("skipped: a_signal_removes_the_device_and_ends_the_process: {reason}");
                child.wait().unwrap();
                return;
            }
            if let Some((_, found)) = line.split_once("holds ") {
                number = found.trim().parse().ok();
                break;
            }
        }
        let path = Identity::of(number.unwrap());
        assert!(path.exists());
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130));
        assert!(!path.exists());
    }
}

#[test]
fn memory_is_swapped_to_a_device_of_its_own_and_comes_back() {
    const BYTES: usize = 16 << 20;
    for folio in [4 << 10, 16 << 10] {
        let swap = match KernelSwap::acquire("lz4", 2 * BYTES as u64, folio).unwrap() {
            Rival::Present(swap) => swap,
            Rival::Absent(reason) => {
                println!("skipped: memory_is_swapped_to_a_device_of_its_own: {reason}");
                return;
            }
        };
        let mut memory = PagedMemory::new(BYTES, folio > 4 << 10).unwrap();
        let byte = |index: usize| (index / 7 % 251) as u8;
        memory.iter_mut().enumerate().for_each(|(index, place)| *place = byte(index));
        memory.page_out(0..BYTES);
        let out = swap.mm_stat().unwrap().orig_data_size;
        assert!(out >= BYTES as u64 / 2, "{out} bytes of {BYTES} went to the device");
        assert!(memory.iter().enumerate().all(|(index, &found)| found == byte(index)));
        drop(memory);
        drop(swap);
    }
}

/// With the kernel's geometry, the figures of uzram's allocator differ from the kernel's by at most
/// half a percent.
#[test]
fn parity_with_the_kernel() {
    let pages = PageSet::of_tree(Path::new("/usr"), &["lib", "share"]).unwrap();
    let pages = pages.capped(96 << 20).load().unwrap();
    let kernel = match kernel_stat(&pages).unwrap() {
        Rival::Present(stat) => stat,
        Rival::Absent(reason) => return println!("skipped: parity_with_the_kernel: {reason}"),
    };
    let geometry = Geometry::Kernel(KernelGeometry::default());
    let config = zram::Config::new(pages.len() as u64).unwrap();
    let device = zram::Device::new(zram::Config { geometry, ..config }).unwrap();
    filled::write(&device, &pages).unwrap();
    filled::verify(&device, &pages).unwrap();
    let ours = device.mm_stat();
    for (ours, kernel) in [
        (ours.compr_data_size, kernel.compr_data_size),
        (ours.mem_used_total, kernel.mem_used_total),
    ] {
        let apart = (ours as f64 / kernel as f64 - 1.0).abs() * 100.0;
        assert!(apart <= 0.5, "{ours} bytes, the kernel {kernel}");
    }
}
