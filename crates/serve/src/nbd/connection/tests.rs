//! Tests the replies to a refused client, and the replies of a failing disk.

use super::*;
use crate::disk::{Disk, Extent};
use crate::nbd::bounds::READ_PART;
use crate::nbd::export::{Export, Mode};
use crate::nbd::wire::*;
use rustix::io::Errno;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// The duration of a failing read, and of hanging up.
const WHILE: Duration = Duration::from_millis(300);

/// The lengths of the server's greeting and of the reply to the choice of an export, in bytes.
const GREETING: usize = 18;
const EXPORT_REPLY: usize = 10;

/// A disk of zeros whose second part can't be read. A read of the third part takes half as long as
/// the failing read. So the reply with the third part waits for the output while the reply of the
/// failing read is broken off.
struct Bad;

impl Disk for Bad {
    fn size(&self) -> u64 {
        4 * READ_PART as u64
    }

    fn block(&self) -> u32 {
        4096
    }

    fn may_wait(&self, _: u64, _: u64) -> bool {
        false
    }

    fn read(&self, offset: u64, _: &mut [u8]) -> Result<(), Errno> {
        match offset / READ_PART as u64 {
            1 => {
                thread::sleep(WHILE);
                Err(Errno::IO)
            }
            2 => {
                thread::sleep(WHILE / 2);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn write(&self, _: u64, _: &[u8]) -> Result<(), Errno> {
        Ok(())
    }

    fn discard(&self, _: u64, _: u64) -> Result<(), Errno> {
        Ok(())
    }

    fn flush(&self) -> Result<(), Errno> {
        Ok(())
    }

    fn extents(&self, range: Range<u64>, each: &mut dyn FnMut(Extent) -> bool) {
        each(Extent { len: range.end - range.start, is_stored: false });
    }
}

/// A client that sends all bytes at once, and stays connected until the server hangs up.
struct Client {
    sent: Mutex<Vec<u8>>,
    got: Mutex<Vec<u8>>,
    is_over: AtomicBool,
}

impl Stream for Client {
    fn receive(&self, buf: &mut [u8]) -> io::Result<usize> {
        let mut sent = self.sent.lock();
        if sent.is_empty() && !self.is_over.load(SeqCst) {
            drop(sent);
            thread::sleep(Duration::from_millis(5));
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let len = sent.len().min(buf.len());
        buf[..len].copy_from_slice(&sent[..len]);
        sent.drain(..len);
        Ok(len)
    }

    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.got.lock().extend(bytes);
        Ok(bytes.len())
    }

    fn hang_up(&self) {
        thread::sleep(WHILE);
        self.is_over.store(true, SeqCst);
    }
}

/// Returns the bytes that a client sends before requests: the client's flags, and the choice of the
/// export without a name.
fn choice() -> Vec<u8> {
    let mut sent = Vec::from((FLAG_C_FIXED_NEWSTYLE | FLAG_C_NO_ZEROES).to_be_bytes());
    sent.extend(IHAVEOPT.to_be_bytes());
    sent.extend(OPT_EXPORT_NAME.to_be_bytes());
    sent.extend([0; 4]);
    sent
}

fn client(sent: Vec<u8>) -> Client {
    Client { sent: Mutex::new(sent), got: Mutex::default(), is_over: AtomicBool::new(false) }
}

/// Returns a service that exports the disk `Bad`.
fn service() -> Service {
    let export = Export {
        name: String::new(),
        description: String::new(),
        disk: Arc::new(Bad),
        mode: Mode::ReadWrite,
    };
    Service {
        exports: Exports::new([export]),
        large: LargeWrites::new(0),
        extra_workers: ExtraWorkers::default(),
        stop: AtomicBool::new(false),
        workers: 2,
    }
}

#[test]
fn a_client_is_admitted_before_its_reply() {
    let client = client(choice());
    let end = serve(&service(), &client, || {
        assert_eq!(client.got.lock().len(), GREETING, "the reply came first");
        false
    });
    assert!(matches!(end, End::Left), "{end:?}");
    assert_eq!(client.got.lock().len(), GREETING, "a refused client has a reply");
}

/// A client would interpret any bytes after an incomplete reply as the rest of that reply.
#[test]
fn nothing_follows_a_reply_that_was_broken_off() {
    let read = |offset: u64, len: usize| {
        let mut header = Vec::from(REQUEST_MAGIC.to_be_bytes());
        header.extend([0; 4]);
        header.extend([0; 8]);
        header.extend(offset.to_be_bytes());
        header.extend((len as u32).to_be_bytes());
        header
    };
    let mut sent = choice();
    sent.extend(read(0, 3 * READ_PART));
    sent.extend(read(2 * READ_PART as u64, READ_PART));
    let client = client(sent);
    let end = serve(&service(), &client, || true);
    assert!(matches!(end, End::Fault(Fault::Unreadable)), "{end:?}");
    let short = SIMPLE_HEADER + READ_PART;
    let got = client.got.into_inner().len() - GREETING - EXPORT_REPLY;
    assert_eq!(got, short, "bytes of the first part, or of the reply that was waiting, too");
}
