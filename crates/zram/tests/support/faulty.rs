//! A backing store in memory that fails, and gets stuck, when it is told to.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;
use zram::Backing;

/// How long anyone waits here for what must come, however slow the machine is. Who waits longer fails.
pub const PATIENCE: Duration = Duration::from_secs(300);

#[derive(Debug)]
pub struct Faulty {
    bytes: Mutex<Vec<u8>>,
    /// Every so many operations fail; 0: none.
    pub every: AtomicU64,
    pub errno: AtomicU64,
    operations: AtomicU64,
    gate: Mutex<Gate>,
    /// An operation got stuck, or those that are go on.
    changed: Condvar,
    /// The operation that fails, counted from 1; 0: none.
    nth: AtomicU64,
    /// What can't be read: bytes of the store.
    pub bad: Mutex<Vec<Range<u64>>>,
    /// Reads give other bytes than were written.
    pub damages: AtomicBool,
}

#[derive(Debug, Default)]
struct Gate {
    is_stuck: bool,
    /// Operations that wait here.
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
        self.gate.lock().unwrap().is_stuck = is_stuck;
        self.changed.notify_all();
    }

    /// Waits until so many operations are stuck, which they are from then on, until they are let go.
    pub fn wait_until_stuck(&self, operations: usize) {
        let gate = self.gate.lock().unwrap();
        drop(self.wait_while(gate, |gate| gate.stuck < operations));
    }

    fn wait_while<'g>(
        &self,
        gate: MutexGuard<'g, Gate>,
        is_not_yet: impl FnMut(&mut Gate) -> bool,
    ) -> MutexGuard<'g, Gate> {
        let (gate, waited) = self.changed.wait_timeout_while(gate, PATIENCE, is_not_yet).unwrap();
        if waited.timed_out() {
            let late = format!("{gate:?} after {PATIENCE:?}");
            // Others who fail find the lock as it was.
            drop(gate);
            panic!("{late}");
        }
        gate
    }

    fn pass_the_gate(&self) {
        let mut gate = self.gate.lock().unwrap();
        if gate.is_stuck {
            gate.stuck += 1;
            self.changed.notify_all();
            self.wait_while(gate, |gate| gate.is_stuck).stuck -= 1;
        }
    }

    fn operation(&self) -> io::Result<()> {
        self.pass_the_gate();
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
