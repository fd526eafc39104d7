//! A backing store behind a page cache, like a file. Written data reach the disk at a later time,
//! or at a sync. If a write to the disk fails, only the next sync reports the failure, and later
//! reads return the old data.

use std::io;
use std::ops::Range;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;
use zram::Backing;

#[derive(Debug)]
pub struct Cached {
    state: Mutex<State>,
    /// The duration of a sync. A long sync lets several syncs overlap.
    pub latency: Duration,
}

#[derive(Debug)]
struct State {
    /// The contents that a read returns, and the contents of the disk.
    bytes: Vec<u8>,
    disk: Vec<u8>,
    dirty: Vec<Range<usize>>,
    /// The number of writes to disk so far.
    nth: u64,
    fails: u64,
    has_failed: bool,
    /// Whether a write failed and no sync has reported the failure yet.
    untold: bool,
}

impl Cached {
    pub fn new(bytes: usize, fails: u64) -> Self {
        let (bytes, disk) = (vec![0xdb; bytes], vec![0xdb; bytes]);
        let dirty = Vec::new();
        let state = State { bytes, disk, dirty, nth: 0, fails, has_failed: false, untold: false };
        Cached { state: Mutex::new(state), latency: Duration::from_millis(1) }
    }

    /// Returns true if the write that must fail has been attempted.
    pub fn has_failed(&self) -> bool {
        self.state.lock().unwrap().has_failed
    }

    /// Writes the dirty data to disk, as the system does at arbitrary times.
    pub fn flush(&self) {
        self.state.lock().unwrap().flush();
    }
}

impl State {
    fn flush(&mut self) {
        for range in std::mem::take(&mut self.dirty) {
            self.nth += 1;
            if self.nth == self.fails {
                (self.has_failed, self.untold) = (true, true);
                self.bytes[range.clone()].copy_from_slice(&self.disk[range]);
            } else {
                self.disk[range.clone()].copy_from_slice(&self.bytes[range]);
            }
        }
    }
}

impl Backing for Cached {
    fn name(&self) -> String {
        "cached".to_owned()
    }

    fn bytes(&self) -> u64 {
        self.state.lock().unwrap().bytes.len() as u64
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let at = offset as usize;
        buf.copy_from_slice(&self.state.lock().unwrap().bytes[at..at + buf.len()]);
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let (mut state, at) = (self.state.lock().unwrap(), offset as usize);
        state.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        state.dirty.push(at..at + bytes.len());
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.flush();
        thread::sleep(self.latency);
        if std::mem::take(&mut self.state.lock().unwrap().untold) {
            return Err(io::Error::from_raw_os_error(5));
        }
        thread::sleep(self.latency);
        Ok(())
    }
}
