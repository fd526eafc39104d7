//! A backing store in memory that fails, or blocks, on demand.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard};
use zram::Backing;

use crate::wait::patience;

#[derive(Debug)]
pub struct Faulty {
    bytes: Mutex<Vec<u8>>,
    /// Every n-th operation fails. If the value is 0, no operation fails.
    pub every: AtomicU64,
    pub errno: AtomicU64,
    operations: AtomicU64,
    gate: Mutex<Gate>,
    /// Signalled when an operation blocks, or when blocked operations are allowed to continue.
    changed: Condvar,
    /// The number of the operation that fails, counted from 1; 0 means no operation.
    nth: AtomicU64,
    /// The part of its bytes, in quarters, that a failing operation transfers.
    pub quarters: AtomicUsize,
    /// The ranges of the store that can't be read.
    pub bad: Mutex<Vec<Range<u64>>>,
    /// Whether reads return bytes that differ from the written bytes.
    pub damages: AtomicBool,
    /// Whether operations neither fail nor are counted.
    is_sound: AtomicBool,
}

#[derive(Debug, Default)]
struct Gate {
    is_stuck: bool,
    /// The number of the only operation that blocks, counted from 1; 0 means no operation.
    nth: u64,
    /// The number of operations that are blocked.
    stuck: usize,
}

impl Faulty {
    pub fn new(bytes: usize) -> Self {
        Faulty {
            bytes: Mutex::new(vec![0xdb; bytes]),
            every: AtomicU64::new(0),
            errno: AtomicU64::new(5),
            operations: AtomicU64::new(0),
            gate: Mutex::default(),
            changed: Condvar::new(),
            nth: AtomicU64::new(0),
            quarters: AtomicUsize::new(2),
            bad: Mutex::default(),
            damages: AtomicBool::new(false),
            is_sound: AtomicBool::new(false),
        }
    }

    pub fn fail_every(&self, every: u64) {
        self.operations.store(0, Relaxed);
        self.every.store(every, Relaxed);
    }

    /// Runs `work` while operations neither fail nor are counted.
    pub fn soundly<R>(&self, work: impl FnOnce() -> R) -> R {
        self.is_sound.store(true, Relaxed);
        let done = work();
        self.is_sound.store(false, Relaxed);
        done
    }

    pub fn fail_nth(&self, nth: u64) {
        self.operations.store(0, Relaxed);
        self.nth.store(nth, Relaxed);
    }

    /// Returns the number of operations since the failing or blocking operation was last chosen.
    pub fn operations(&self) -> u64 {
        self.operations.load(Relaxed)
    }

    /// If `is_stuck` is true, blocks all later operations. Otherwise, releases the blocked
    /// operations, and blocks no later operation.
    pub fn stick(&self, is_stuck: bool) {
        let mut gate = self.gate.lock().unwrap();
        (gate.is_stuck, gate.nth) = (is_stuck, 0);
        self.changed.notify_all();
    }

    pub fn stick_nth(&self, nth: u64) {
        self.operations.store(0, Relaxed);
        self.gate.lock().unwrap().nth = nth;
    }

    pub fn is_any_stuck(&self) -> bool {
        self.gate.lock().unwrap().stuck > 0
    }

    /// Waits until `operations` operations are blocked.
    pub fn wait_until_stuck(&self, operations: usize) {
        let gate = self.gate.lock().unwrap();
        drop(self.wait_while(gate, |gate| gate.stuck < operations));
    }

    fn wait_while<'g>(
        &self,
        gate: MutexGuard<'g, Gate>,
        is_not_yet: impl FnMut(&mut Gate) -> bool,
    ) -> MutexGuard<'g, Gate> {
        let (gate, waited) = self.changed.wait_timeout_while(gate, patience(), is_not_yet).unwrap();
        if waited.timed_out() {
            let late = format!("{gate:?} after {:?}", patience());
            // Releases the lock before a panic, so that other threads do not find the lock
            // poisoned.
            drop(gate);
            panic!("{late}");
        }
        gate
    }

    fn pass_the_gate(&self, nth: u64) {
        let is_closed = |gate: &mut Gate| gate.is_stuck || gate.nth == nth;
        let mut gate = self.gate.lock().unwrap();
        if is_closed(&mut gate) {
            gate.stuck += 1;
            self.changed.notify_all();
            self.wait_while(gate, is_closed).stuck -= 1;
        }
    }

    /// Returns how many of `len` bytes are transferred.
    fn len_of(&self, len: usize, done: &io::Result<()>) -> usize {
        if done.is_ok() { len } else { len * self.quarters.load(Relaxed) / 4 }
    }

    fn operation(&self) -> io::Result<()> {
        if self.is_sound.load(Relaxed) {
            return Ok(());
        }
        let (nth, every) = (self.operations.fetch_add(1, Relaxed) + 1, self.every.load(Relaxed));
        self.pass_the_gate(nth);
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
        let failed = self.operation();
        let end = offset + buf.len() as u64;
        if self.bad.lock().unwrap().iter().any(|bad| bad.start < end && offset < bad.end) {
            return Err(io::Error::from_raw_os_error(5));
        }
        let (len, at) = (self.len_of(buf.len(), &failed), offset as usize);
        buf[..len].copy_from_slice(&self.bytes.lock().unwrap()[at..at + len]);
        if self.damages.load(Relaxed) {
            buf[len / 2] ^= 4;
        }
        failed
    }

    fn write_at(&self, from: &[u8], offset: u64) -> io::Result<()> {
        let failed = self.operation();
        let (len, at) = (self.len_of(from.len(), &failed), offset as usize);
        let mut bytes = self.bytes.lock().unwrap();
        bytes[at..at + len].copy_from_slice(&from[..len]);
        failed
    }

    fn sync(&self) -> io::Result<()> {
        self.operation()
    }
}
