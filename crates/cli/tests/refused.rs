//! Tests a server and a save while allocations fail: the nth allocation, or every allocation from
//! the nth on. The process survives and keeps acknowledged data. The inner allocator of the
//! command's allocator refuses these allocations.

#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "../src/reserve/mod.rs"]
#[allow(dead_code, reason = "the command's own, of which a part is used here")]
mod reserve;
mod support;

use reserve::Reserved;
use serve::control::{self, Control, Refusal, Request, Steered};
use serve::nbd::{self, Export, Exports, Mode, Options, Server};
use serve::{Address, Log};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize, Ordering::SeqCst};
use std::thread;
use support::nbd::Client;
use support::{noise, text};
use testkit::wait::{patience, until};
use zram::{
    BackingFile, Config, Damage, Device, Restored, SaveOptions, SaveTo, Saved, Selection, Zram,
};

const DISK: u64 = 8 << 20;
const PAGE: u64 = 4096;
const WORKERS: usize = 2;

/// An allocator that forwards requests to the system's allocator, and can refuse requests. Requests
/// of the test's own thread never fail.
struct Faulty;

/// The number of the refused allocation, counted from 1, or 0 if none is refused. The two statics
/// below hold whether later allocations are refused too, and the number of allocations so far.
static NTH: AtomicUsize = AtomicUsize::new(0);
static FROM_THEN_ON: AtomicBool = AtomicBool::new(false);
static COUNT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static IS_OF_THE_TEST: Cell<bool> = const { Cell::new(false) };
}

/// The number of bytes that the other threads have in use, and the maximum of this number. During a
/// reallocation both copies are counted, as in the reserve.
static LIVE: AtomicIsize = AtomicIsize::new(0);
static MOST: AtomicIsize = AtomicIsize::new(0);

fn count(bytes: isize) {
    if !IS_OF_THE_TEST.get() {
        MOST.fetch_max(LIVE.fetch_add(bytes, SeqCst) + bytes, SeqCst);
    }
}

/// Returns the maximum number of bytes that other threads hold during `work`, minus the bytes that
/// they held before.
fn most_of(work: impl FnOnce()) -> usize {
    let before = LIVE.load(SeqCst);
    MOST.store(before, SeqCst);
    work();
    (MOST.load(SeqCst) - before) as usize
}

#[global_allocator]
static MEMORY: Reserved<Faulty> = Reserved::new(Faulty);

fn is_refused() -> bool {
    let nth = NTH.load(SeqCst);
    if nth == 0 || IS_OF_THE_TEST.get() {
        return false;
    }
    let count = COUNT.fetch_add(1, SeqCst) + 1;
    count == nth || count > nth && FROM_THEN_ON.load(SeqCst)
}

#[allow(unsafe_code)]
// SAFETY: each function returns memory of the system's allocator, or null.
unsafe impl GlobalAlloc for Faulty {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller meets the requirements of the system's allocator.
        if is_refused() { null_mut() } else { unsafe { System.alloc(layout) } }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: as above.
        if is_refused() { null_mut() } else { unsafe { System.alloc_zeroed(layout) } }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as isize);
        count(-(layout.size() as isize));
        // SAFETY: as above.
        if is_refused() { null_mut() } else { unsafe { System.realloc(at, layout, size) } }
    }
}

/// Runs `work`, and refuses allocation `nth` of the other threads. Returns whether the other
/// threads made `nth` allocations, and the result of `work`.
fn refusing<T>(nth: usize, from_then_on: bool, work: impl FnOnce() -> T) -> (bool, T) {
    COUNT.store(0, SeqCst);
    FROM_THEN_ON.store(from_then_on, SeqCst);
    NTH.store(nth, SeqCst);
    let done = work();
    NTH.store(0, SeqCst);
    (COUNT.load(SeqCst) >= nth, done)
}

/// Runs `work` twice for every n up to the number of its allocations. The first run refuses only
/// allocation n. The second run refuses all allocations from n on.
fn for_each_nth(mut work: impl FnMut(usize, bool) -> bool) {
    IS_OF_THE_TEST.set(true);
    MEMORY.keep(4 << 20).unwrap();
    for from_then_on in [false, true] {
        let count = (1..).find(|&nth| !work(nth, from_then_on)).unwrap();
        println!("{} allocations, from then on: {from_then_on}", count - 1);
        assert!(count > 1, "nothing was allocated");
    }
}

/// A device without save and restore.
struct Kept(Arc<Zram>);

impl Steered for Kept {
    fn zram(&self) -> &Zram {
        &self.0
    }

    fn stat(&self) -> String {
        format!("{:?}", self.0.open().unwrap().mm_stat())
    }

    fn save(&self, _: &Path) -> Result<Saved, Refusal> {
        Ok(Default::default())
    }

    fn restore(&self, _: &Path) -> Result<Restored, Refusal> {
        Ok(Default::default())
    }
}

/// A server whose sockets lie in a separate directory.
struct Served {
    dir: tempfile::TempDir,
    nbd: Server,
    _control: Control,
}

impl Served {
    fn new() -> Self {
        Served::of_blocks(PAGE as usize)
    }

    fn of_blocks(block: usize) -> Self {
        let (dir, zram) = (tempfile::tempdir().unwrap(), Arc::new(Zram::new()));
        zram.store("track_access", "1").unwrap();
        let set = |settings: &mut Config| {
            settings.block = block;
            Ok(())
        };
        zram.configure("block", set).unwrap();
        zram.set_disksize(DISK).unwrap();
        let export = Export {
            name: "disk".to_owned(),
            description: "a description".to_owned(),
            disk: Arc::new(zram.open().unwrap()),
            mode: Mode::ReadWrite,
        };
        let log = Log::new(|line| assert!(!line.is_empty()));
        let at = |name: &str| Address::Unix(dir.path().join(name));
        let options = Options { workers: WORKERS, connections: 2 };
        let listening = at("nbd.sock").listen().unwrap();
        let nbd = Server::start(listening, Exports::new([export]), options, log.clone()).unwrap();
        let listening = control::listen(&dir.path().join("control.sock")).unwrap();
        let control = Control::start(listening, Arc::new(Kept(zram)), log).unwrap();
        Served { dir, nbd, _control: control }
    }

    fn client(&self) -> std::io::Result<Client> {
        let client = Client::try_new(&self.dir.path().join("nbd.sock"))?;
        client.0.set_read_timeout(Some(patience()))?;
        Ok(client)
    }

    /// Writes data to the disk. Returns the offsets and data of the acknowledged writes.
    fn write(&self, seed: u64) -> Vec<(u64, Vec<u8>)> {
        let mut acknowledged = Vec::new();
        let Ok(mut client) = self.client() else { return acknowledged };
        let writes = [(0, 64 << 10), (1 << 20, 300 << 10), (2 << 20, 100), ((2 << 20) + 8000, 700)];
        for (offset, len) in writes {
            let bytes = [text(seed, len / 2), noise(seed ^ offset, len.div_ceil(2))].concat();
            match client.try_write(offset, &bytes[..len]) {
                Ok(()) => acknowledged.push((offset, bytes[..len].to_vec())),
                Err(error) => assert_in_time(&error),
            }
            if let Err(error) = client.try_read(offset, len) {
                assert_in_time(&error);
            }
        }
        acknowledged
    }

    /// Sends requests of all kinds to the server without waiting for replies.
    fn look(&self) {
        let socket = self.dir.path().join("nbd.sock");
        let mut stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(patience())).unwrap();
        let context = b"base:allocation";
        let name = [&[0; 4][..], &1_u32.to_be_bytes(), &15_u32.to_be_bytes(), context].concat();
        // LIST, STRUCTURED_REPLY, LIST_META_CONTEXT, SET_META_CONTEXT, INFO, GO, then BLOCK_STATUS
        let options: [(u32, &[u8]); 6] =
            [(3, &[]), (8, &[]), (9, &name), (10, &name), (6, &[0; 6]), (7, &[0; 6])];
        let mut asked = 1_u32.to_be_bytes().to_vec();
        for (option, data) in options {
            asked.extend(b"IHAVEOPT");
            asked.extend([option, data.len() as u32].map(u32::to_be_bytes).as_flattened());
            asked.extend(data);
        }
        asked.extend(support::nbd::request(7, 0, 4 << 20));
        // The server can disconnect a refused client before the client has sent all bytes.
        let _ = stream.write_all(&asked).and_then(|()| stream.shutdown(Shutdown::Write));
        match stream.read_to_end(&mut Vec::new()) {
            Ok(_) => {}
            Err(error) => assert_in_time(&error),
        }
    }

    /// Sends requests to the control socket. Returns the number of answered requests.
    fn ask(&self) -> usize {
        let path = self.dir.path().join("control.sock");
        let requests = [Request::Stat, Request::Show("mm_stat".to_owned())];
        let answer = |request: &Request| control::ask(request, &path, &mut Vec::new());
        // Any answer is correct, even an error, because memory for the text may be lacking.
        let _ = answer(&Request::Show("block_state".to_owned()));
        requests.iter().filter(|request| answer(request).is_ok()).count()
    }

    /// Waits until the server has closed the connections of disconnected clients.
    fn is_alone(&self) {
        until("no connection stays", || self.nbd.connections() == 0);
    }
}

fn assert_in_time(error: &std::io::Error) {
    assert!(error.kind() != std::io::ErrorKind::WouldBlock, "no answer");
}

/// The tests share one allocator, so they run one after the other. This program has no test
/// harness, because a harness would start threads.
fn main() {
    takes_no_more_than_is_kept();
    for_each_nth(serves());
    for_each_nth(saves());
}

/// Checks that memory use stays within the estimate for the reserve (`server/headroom.rs`), with
/// blocks of any size.
fn takes_no_more_than_is_kept() {
    IS_OF_THE_TEST.set(true);
    for block in [4 << 10, 64 << 10] {
        let served = Served::of_blocks(block);
        let mut client = served.client().unwrap();
        // Writes every other page, so that a reply has the maximum number of extents.
        (0..DISK / PAGE).step_by(2).for_each(|page| client.write(page * PAGE, &[7; PAGE as usize]));
        drop(client);
        served.is_alone();
        let looks = most_of(|| served.look());
        served.is_alone();
        let most = nbd::HALF_OPEN_RESERVE + WORKERS * nbd::WORKER_RESERVE;
        println!("{looks} of {most} bytes for a connection, blocks of {block}");
        assert!(looks <= nbd::WORKER_RESERVE, "{looks} bytes for block status, blocks of {block}");
        let asks = most_of(|| assert_eq!(served.ask(), 2));
        assert!(asks <= control::RESERVE, "{asks} bytes for who asks, blocks of {block}");
    }
}

/// Starts a server that serves clients of all kinds.
fn serves() -> impl FnMut(usize, bool) -> bool {
    let served = Served::new();
    move |nth, from_then_on| {
        let (is_reached, (acknowledged, answers)) = refusing(nth, from_then_on, || {
            let there = served.client();
            let acknowledged = served.write(nth as u64);
            // One client is already connected, and the server accepts only two, so it refuses one
            // of these two clients.
            let one_more = [served.client(), served.client()];
            let answers = served.ask();
            drop((there, one_more));
            served.is_alone();
            served.look();
            (acknowledged, answers)
        });
        assert_eq!(answers, 2, "allocation {nth}: it does not tell how it is");
        served.is_alone();
        assert!(!MEMORY.is_short(), "allocation {nth}: it stays short");
        let mut client = served.client().unwrap();
        for (offset, bytes) in acknowledged {
            let read = client.read(offset, bytes.len());
            assert!(read == bytes, "allocation {nth}: what was written at {offset} is gone");
        }
        drop(client);
        served.is_alone();
        is_reached
    }
}

/// Creates a device with blocks of several slots, and writes some of the blocks back. Returns the
/// device and its contents.
fn device(dir: &Path) -> (Device, Vec<u8>) {
    let path = dir.join("backing");
    let mut config = Config::new(DISK).unwrap();
    config.block = 16 << 10;
    config.streams = Some(2);
    config.backing = Some(Arc::new(BackingFile::create(&path, DISK).unwrap()));
    let device = Device::new(config).unwrap();
    let data = [text(1, 2 << 20), noise(2, 1 << 20)].concat();
    device.write(0, &data).unwrap();
    let some = Selection { slots: vec![0..=100, 600..=640], ..Selection::default() };
    assert!(device.write_back(&some).unwrap().slots > 0);
    (device, data)
}

/// Saves a device with data in memory and in the backing store.
fn saves() -> impl FnMut(usize, bool) -> bool {
    let dir = tempfile::tempdir().unwrap();
    let (device, data) = device(dir.path());
    device.prepare_save().unwrap();
    move |nth, from_then_on| {
        let file = dir.path().join("saved");
        std::fs::write(&file, "what was there before").unwrap();
        let (is_reached, saved) = refusing(nth, from_then_on, || {
            let save = || device.save(SaveTo::File(&file), &SaveOptions::default());
            thread::scope(|scope| scope.spawn(save).join().unwrap())
        });
        assert!(saved.is_ok(), "allocation {nth}: {saved:?}");
        let mut config = Config::new(DISK).unwrap();
        config.block = 16 << 10;
        let restored = Device::new(config).unwrap();
        restored.restore(&file, Damage::Refuse).unwrap();
        let mut back = vec![0; data.len()];
        restored.read(0, &mut back).unwrap();
        assert!(back == data, "allocation {nth}: it is not what was saved");
        is_reached
    }
}
