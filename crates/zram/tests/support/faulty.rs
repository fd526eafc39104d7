//! A backing store in memory that fails, and gets stuck, when it is told to.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Condvar, Mutex};
use zram::Backing;

#[derive(Debug)]
pub struct Faulty {
    bytes: Mutex<Vec<u8>>,
    /// Every so many operations fail; 0: none.
    pub every: AtomicU64,
    pub errno: AtomicU64,
    operations: AtomicU64,
    is_stuck: Mutex<bool>,
    freed: Condvar,
    /// The operation that fails, counted from 1; 0: none.
    nth: AtomicU64,
    /// What can't be read: bytes of the store.
    pub bad: Mutex<Vec<Range<u64>>>,
    /// Reads give other bytes than were written.
    pub damages: AtomicBool,
}

impl Faulty {
    pub fn new(bytes: usize) -> Self {
        Faulty {
            bytes: Mutex::new(vec![0xdb; bytes]),
            every: AtomicU64::new(0),
            errno: AtomicU64::new(5),
            operations: AtomicU64::new(0),
            is_stuck: Mutex::new(false),
            freed: Condvar::new(),
            nth: AtomicU64::new(0),
            bad: Mutex::default(),
            damages: AtomicBool::new(false),
        }
    }

    pub fn fail_every(&self, every: u64) {
        self.operations.store(0, Relaxed);
        self.every.store(every, Relaxed);
    }

    pub fn fail_nth(&self, nth: u64) {
        self.operations.store(0, Relaxed);
        self.nth.store(nth, Relaxed);
    }

    pub fn stick(&self, is_stuck: bool) {
        *self.is_stuck.lock().unwrap() = is_stuck;
        self.freed.notify_all();
    }

    fn operation(&self) -> io::Result<()> {
        let stuck = self.is_stuck.lock().unwrap();
        drop(self.freed.wait_while(stuck, |is_stuck| *is_stuck).unwrap());
        let (nth, every) = (self.operations.fetch_add(1, Relaxed) + 1, self.every.load(Relaxed));
        let is_it = every > 0 && nth.is_multiple_of(every) || nth == self.nth.load(Relaxed);
        if is_it {
            return Err(io::Error::from_raw_os_error(self.errno.load(Relaxed) as i32));
        }
        Ok(())
    }
}

impl Backing for Faulty {
    fn name(&self) -> String {
        "memory".to_owned()
    }

    fn bytes(&self) -> u64 {
        self.bytes.lock().unwrap().len() as u64
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.operation()?;
        let end = offset + buf.len() as u64;
        if self.bad.lock().unwrap().iter().any(|bad| bad.start < end && offset < bad.end) {
            return Err(io::Error::from_raw_os_error(5));
        }
        let (bytes, at) = (self.bytes.lock().unwrap(), offset as usize);
        buf.copy_from_slice(&bytes[at..at + buf.len()]);
        if self.damages.load(Relaxed) {
            buf[buf.len() / 2] ^= 4;
        }
        Ok(())
    }

    fn write_at(&self, from: &[u8], offset: u64) -> io::Result<()> {
        let failed = self.operation();
        // What fails has written half of it.
        let len = if failed.is_ok() { from.len() } else { from.len() / 2 };
        let (mut bytes, at) = (self.bytes.lock().unwrap(), offset as usize);
        bytes[at..at + len].copy_from_slice(&from[..len]);
        failed
    }

    fn sync(&self) -> io::Result<()> {
        self.operation()
    }
}
