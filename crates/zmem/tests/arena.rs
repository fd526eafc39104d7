//! Arenas: what is done to blocks at random is what a plain copy says, while they come and go.
//!
//! # Safety
//! The only handler of SIGSEGV passes faults on, and ends the process for those that are no one's.
//! Each test changes the use of blocks of its own arena alone, on one thread.
#![allow(unsafe_code, clippy::unwrap_used)]

use fastrand::Rng;
use std::ffi::c_void;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, Once};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use testkit::child::{Child, in_child};
use testkit::wait::until;
use zmem::answer_fault;
use zmem::{Advice, Arena, BackendKind, BlockOrder, Options, Seen, StartThread, Tree, Use};

const MIB: usize = 1 << 20;

/// What processes keep a limit by.
type TreeWords = [AtomicU64; Seen::BYTES / 8];
const KINDS: [BackendKind; 3] =
    [BackendKind::Signal, BackendKind::SignalMappings, BackendKind::SignalRemap];

extern "C" fn on_fault(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel's, of this handler, which has all signals blocked.
    if !unsafe { answer_fault(signal, info, context.cast()) } {
        // SAFETY: it ends the process: the touch is no one's.
        unsafe { libc::_exit(77) };
    }
}

fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // SAFETY: zeros are a value of the structure; the handler is a function of this type.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_fault as extern "C" fn(_, _, _) as usize;
            // The alternate stack of a test's thread is small.
            action.sa_flags = libc::SA_SIGINFO;
            libc::sigfillset(&mut action.sa_mask);
            libc::sigdelset(&mut action.sa_mask, libc::SIGSEGV);
            assert_eq!(libc::sigaction(libc::SIGSEGV, &action, std::ptr::null_mut()), 0);
        }
    });
}

/// Starts threads for an arena, one at a time.
#[derive(Debug, Default)]
struct Threads(Mutex<Option<JoinHandle<()>>>, AtomicU32);

impl StartThread for Threads {
    fn start(&self, run: Box<dyn FnOnce() + Send>) -> bool {
        let mut last = self.0.lock().unwrap();
        let is_free = last.as_ref().is_none_or(JoinHandle::is_finished);
        if is_free {
            *last = Some(thread::spawn(run));
            self.1.fetch_add(1, Relaxed);
        }
        is_free
    }

    fn last(&self) -> u32 {
        self.1.load(Relaxed)
    }

    fn has_ended(&self, last: u32, time: Duration) -> bool {
        let until = Instant::now() + time;
        let is_there = || self.0.lock().unwrap().as_ref().is_some_and(|last| !last.is_finished());
        while self.last() == last && is_there() && Instant::now() < until {
            thread::yield_now();
        }
        self.last() != last || !is_there()
    }
}

/// Has a thread store what an arena evicts.
fn store_aside(arena: &Arena) {
    // Who looks for leaks finds them here.
    static ALL: Mutex<Vec<&Threads>> = Mutex::new(Vec::new());
    let threads = Box::leak(Box::<Threads>::default());
    ALL.lock().unwrap().push(threads);
    arena.store_aside(threads);
}

fn options(kind: BackendKind, order: u32) -> Options {
    Options { backend: kind, block: BlockOrder::Fixed(order), ..Options::default() }
}

/// Whether the system can read a byte, and so the program could.
fn is_readable(address: usize) -> bool {
    // SAFETY: an empty set of descriptors and no time: the time is read, and nothing written.
    let done = unsafe { libc::syscall(libc::SYS_access, address as *const u8, libc::F_OK) };
    done == 0 || std::io::Error::last_os_error().raw_os_error() != Some(libc::EFAULT)
}

/// An arena, and what its blocks are to be: `None` is free.
struct Model {
    arena: Arena,
    rng: Rng,
    uses: Vec<Use>,
    /// The first byte of each page: all bytes of it that are looked at are the same.
    pages: Vec<u8>,
}

impl Model {
    fn new(arena: Arena, seed: u64) -> Self {
        let Range { start, end } = arena.addresses();
        let blocks = (end - start) / arena.block();
        let uses = vec![Use::Free; blocks];
        Model { rng: Rng::with_seed(seed), uses, pages: vec![0; (end - start) / 4096], arena }
    }

    fn range(&mut self) -> Range<usize> {
        let longest = if self.rng.u8(..) < 16 { self.uses.len() } else { 40 };
        let start = self.rng.usize(..self.uses.len());
        start..self.uses.len().min(start + 1 + self.rng.usize(..longest))
    }

    fn addresses(&self, blocks: &Range<usize>) -> Range<usize> {
        let start = self.arena.addresses().start;
        start + blocks.start * self.arena.block()..start + blocks.end * self.arena.block()
    }

    fn pages_of(&self, blocks: &Range<usize>) -> Range<usize> {
        let pages = self.arena.block() / 4096;
        blocks.start * pages..blocks.end * pages
    }

    /// The bytes of a page that are looked at.
    fn bytes(&self, page: usize) -> [*mut u8; 3] {
        let start = self.arena.addresses().start + page * 4096;
        [0, 1777, 4095].map(|at| (start + at) as *mut u8)
    }

    fn used(&self, blocks: Range<usize>) -> Vec<usize> {
        blocks.filter(|&block| self.uses[block] != Use::Free).collect()
    }

    fn set_use(&mut self, blocks: Range<usize>, to: Use) {
        // SAFETY: the model is all that uses the arena; what is plain has no other mapping.
        unsafe { self.arena.set_use(self.addresses(&blocks), to).unwrap() };
        for block in blocks {
            if to == Use::Free {
                let pages = self.pages_of(&(block..block + 1));
                self.pages[pages].fill(0);
            }
            self.uses[block] = to;
        }
    }

    fn write(&mut self, block: usize) {
        for page in self.pages_of(&(block..block + 1)) {
            let value = self.rng.u8(..8);
            // SAFETY: the block is readable and writable, as its use says.
            self.bytes(page).iter().for_each(|&byte| unsafe { byte.write_volatile(value) });
            self.pages[page] = value;
        }
    }

    fn verify(&self, block: usize) {
        for page in self.pages_of(&(block..block + 1)) {
            for byte in self.bytes(page) {
                // SAFETY: as above.
                let value = unsafe { byte.read_volatile() };
                assert_eq!(value, self.pages[page], "page {page} of {:?}", self.uses[block]);
            }
        }
    }

    fn step(&mut self) {
        let blocks = self.range();
        let bytes = self.addresses(&blocks);
        match self.rng.u8(..16) {
            0..3 => self.set_use(blocks, Use::Managed),
            3 => self.set_use(blocks, Use::Free),
            4 => self.set_use(blocks, Use::Plain),
            5..9 => self.used(blocks).into_iter().for_each(|block| self.write(block)),
            9..12 => self.used(blocks).into_iter().for_each(|block| self.verify(block)),
            12 => _ = self.arena.reclaim(bytes.len()),
            13 => {
                self.arena.advise(bytes, [Advice::Cold, Advice::Hot][self.rng.usize(..2)]).unwrap()
            }
            14 => {
                self.arena.pin(bytes.clone()).unwrap();
                self.arena.reclaim(MIB);
                for block in self.used(blocks) {
                    let at = self.addresses(&(block..block + 1)).start;
                    assert!(is_readable(at), "what is pinned is there");
                    self.verify(block);
                }
                self.arena.unpin(bytes).unwrap();
            }
            _ => {
                // SAFETY: the model expects zeros.
                unsafe { self.arena.dont_need(bytes).unwrap() };
                for block in blocks.filter(|&block| self.uses[block] == Use::Managed) {
                    let pages = self.pages_of(&(block..block + 1));
                    self.pages[pages].fill(0);
                }
            }
        }
    }

    fn verify_all(&self) {
        self.arena.check();
        for block in 0..self.uses.len() {
            match self.uses[block] {
                Use::Free => {
                    let at = self.addresses(&(block..block + 1)).start;
                    assert!(!is_readable(at), "block {block} is free");
                }
                _ => self.verify(block),
            }
        }
    }
}

#[test]
fn what_blocks_are_for_can_change_at_any_time() {
    install();
    for (nth, kind) in KINDS.into_iter().enumerate() {
        for (order, limit, is_aside) in [
            (0, None, false),
            (0, Some(3 * MIB), false),
            (0, Some(4 * MIB), true),
            (2, Some(4 * MIB), true),
            (4, Some(6 * MIB), false),
            (4, Some(9 * MIB), true),
        ] {
            let limit = limit.map(|limit| limit as u64);
            let options = Options { limit, ..options(kind, order) };
            let arena = Arena::new(0, 12 * MIB, &options).unwrap();
            if is_aside {
                store_aside(&arena);
            }
            let mut model = Model::new(arena, testkit::seed(nth as u64 * 8 + u64::from(order)));
            for round in 0..6 {
                (0..150).for_each(|_| model.step());
                if round % 3 == 2 {
                    model.verify_all();
                }
            }
            let stats = model.arena.stats();
            assert!(stats.evicted > 0 && stats.filled > 0, "{stats:?}");
            assert_eq!(stats.aside > 0, is_aside, "{stats:?}");
        }
    }
}

/// Bytes of a page that compress, or not, and say its number.
fn page_of(page: usize, compresses: bool) -> [u8; 4096] {
    let (mut rng, mut bytes) = (Rng::with_seed(testkit::seed_of(page as u64)), [0; 4096]);
    match compresses {
        true => bytes.chunks_mut(64).for_each(|part| part.fill(rng.u8(..))),
        false => rng.fill(&mut bytes),
    }
    bytes
}

/// Fills pages with [`page_of`].
fn fill(at: usize, pages: Range<usize>, compresses: bool) {
    for page in pages {
        let place = (at + page * 4096) as *mut [u8; 4096];
        // SAFETY: callers have just made it readable and writable, and no one else uses it.
        unsafe { place.write(page_of(page, compresses)) };
    }
}

/// Asserts that pages have what [`fill`] has put there.
fn assert_filled(at: usize, pages: Range<usize>, compresses: bool) {
    for page in pages {
        // SAFETY: as above.
        let bytes = unsafe { ((at + page * 4096) as *const [u8; 4096]).read() };
        assert!(bytes == page_of(page, compresses), "page {page}");
    }
}

/// One thread that is alone but for the one that stores: what it wants back at once, frees, or
/// leaves to a child while it waits to be stored is what it was.
#[test]
fn what_waits_to_be_stored_can_be_touched_freed_and_inherited() {
    for order in [0, 2] {
        in_child(move || {
            install();
            let limit = Some(16 * MIB as u64);
            let options = Options { limit, ..options(BackendKind::Signal, order) };
            let arena = Arena::new(0, 64 * MIB, &options).unwrap();
            store_aside(&arena);
            let at = arena.addresses().start;
            // SAFETY: the arena is this thread's, and what is freed is not looked at.
            let set_use = |pages: Range<usize>, to| unsafe {
                arena.set_use(at + pages.start * 4096..at + pages.end * 4096, to).unwrap();
            };
            set_use(0..10_000, Use::Managed);
            for round in 0..testkit::scaled(40, 400) {
                let pages = round % 5 * 2000..(round % 5 + 1) * 2000;
                fill(at, pages.clone(), true);
                arena.reclaim(256 << 10);
                let last = at + (pages.end - 64) * 4096..at + pages.end * 4096;
                arena.advise(last, Advice::Cold).unwrap();
                assert_filled(at, pages.end - 64..pages.end, true);
                match round % 4 {
                    0 => assert_filled(at, pages, true),
                    1 => {
                        set_use(pages.clone(), Use::Free);
                        set_use(pages, Use::Managed);
                    }
                    2 => {
                        // SAFETY: the child ends without a look at anything but the arena.
                        match unsafe { libc::fork() } {
                            0 => {
                                assert_filled(at, pages, true);
                                // SAFETY: it ends the process.
                                unsafe { libc::_exit(9) };
                            }
                            child => {
                                let mut status = 0;
                                // SAFETY: the status is written.
                                let waited = unsafe { libc::waitpid(child, &mut status, 0) };
                                assert_eq!((waited, status >> 8), (child, 9), "round {round}");
                            }
                        }
                    }
                    _ => arena.rest(),
                }
            }
            // The thread may store each block before it is touched, so the touches are repeated.
            until("a block is taken back before it is stored", || {
                arena.advise(at..at + 64 * 4096, Advice::Cold).unwrap();
                assert_filled(at, 0..64, true);
                arena.stats().stolen > 0
            });
            arena.check();
            let stats = arena.stats();
            assert!(stats.aside > 1000, "{stats:?}");
            assert!(stats.held_max <= 16 * MIB as u64 + 8 * 65536, "{stats:?}");
        });
    }
}

/// What does not get smaller is put back, and stays for a while.
#[test]
fn what_does_not_compress_is_put_back_by_the_thread_that_stores() {
    in_child(|| {
        install();
        let limit = Some(16 * MIB as u64);
        let arena =
            Arena::new(0, 32 * MIB, &Options { limit, ..options(BackendKind::Signal, 0) }).unwrap();
        store_aside(&arena);
        let at = arena.addresses().start;
        // SAFETY: as above.
        unsafe { arena.set_use(at..at + 12 * MIB, Use::Managed).unwrap() };
        fill(at, 0..3000, false);
        (0..5).for_each(|_| _ = arena.reclaim(MIB));
        assert_filled(at, 0..3000, false);
        arena.check();
        let stats = arena.stats();
        assert!(stats.incompressible > 100 && stats.filled == 0, "{stats:?}");
    });
}

/// Nothing tells of writes to what is resident; the next faults look again, and not each of them.
#[test]
fn what_gets_smaller_later_goes_with_the_next_faults() {
    in_child(|| {
        install();
        let limit = 8 * MIB as u64;
        let options = Options { limit: Some(limit), ..options(BackendKind::Signal, 0) };
        let arena = Arena::new(0, 64 * MIB, &options).unwrap();
        let at = arena.addresses().start;
        // SAFETY: as above.
        unsafe { arena.set_use(at..at + 64 * MIB, Use::Managed).unwrap() };
        fill(at, 0..6000, false);
        let tried = arena.stats().incompressible;
        fill(at, 8000..8010, true);
        let tried = arena.stats().incompressible - tried;
        assert!(arena.stats().held > 2 * limit && tried < 1000, "{tried}: {:?}", arena.stats());
        fill(at, 0..6000, true);
        let page = at + 8000 * 4096..at + 8001 * 4096;
        until("no more is held than the limit allows", || {
            // SAFETY: as above.
            unsafe { arena.dont_need(page.clone()).unwrap() };
            fill(at, 8000..8001, true);
            arena.stats().held <= limit
        });
        assert_filled(at, 0..6000, true);
        arena.check();
    });
}

#[test]
fn a_child_has_a_copy() {
    install();
    let options = Options { limit: Some(4 << 20), ..options(BackendKind::Signal, 0) };
    let mut model = Model::new(Arena::new(0, 8 * MIB, &options).unwrap(), testkit::seed(40));
    (0..300).for_each(|_| model.step());
    for _ in 0..3 {
        in_child(|| {
            model.verify_all();
            (0..100).for_each(|_| model.step());
            model.verify_all();
        });
        model.verify_all();
        (0..100).for_each(|_| model.step());
    }
}

/// Threads touch managed blocks while others change their use beside them, and evict.
#[test]
fn neighbours_of_what_changes_keep_their_data() {
    install();
    let options = Options { limit: Some(6 << 20), ..options(BackendKind::Signal, 0) };
    let arena = Arena::new(0, 16 * MIB, &options).unwrap();
    let start = arena.addresses().start;
    let done = AtomicBool::new(false);
    let (arena, done) = (&arena, &done);
    std::thread::scope(|scope| {
        let changers: Vec<_> = (0..2)
            .map(|changer| {
                scope.spawn(move || {
                    let mut rng = Rng::with_seed(testkit::seed(changer));
                    for nth in 0..4000usize {
                        // Every fourth page, from one on: no other thread's.
                        let page = rng.usize(..512) * 8 + 1 + 4 * changer as usize;
                        let range = start + page * 4096..start + (page + 1) * 4096;
                        let to = [Use::Managed, Use::Plain, Use::Free][nth % 3];
                        // SAFETY: this thread alone uses these blocks.
                        unsafe {
                            arena.set_use(range.clone(), Use::Managed).unwrap();
                            let at = range.start as *mut u8;
                            at.write_volatile(nth as u8);
                            arena.set_use(range.clone(), to).unwrap();
                            assert!(to == Use::Free || at.read_volatile() == nth as u8);
                        }
                    }
                })
            })
            .collect();
        for user in 0..2usize {
            scope.spawn(move || {
                let pages = (0..4096).filter(move |page| page % 8 == 2 + 4 * user);
                for page in pages.clone() {
                    let at = start + page * 4096;
                    // SAFETY: this thread alone uses these blocks.
                    unsafe {
                        arena.set_use(at..at + 4096, Use::Managed).unwrap();
                        (at as *mut u8).write_volatile(page as u8);
                    }
                }
                while !done.load(Relaxed) {
                    for page in pages.clone() {
                        // SAFETY: as above.
                        let value = unsafe { ((start + page * 4096) as *mut u8).read_volatile() };
                        assert_eq!(value, page as u8);
                    }
                    arena.reclaim(MIB);
                }
            });
        }
        changers.into_iter().for_each(|changer| changer.join().unwrap());
        done.store(true, Relaxed);
    });
    arena.check();
}

/// Where all that is mapped comes locked, what becomes free goes all the same.
#[test]
fn what_is_locked_as_it_is_mapped_can_be_freed() {
    install();
    for kind in KINDS {
        in_child(|| {
            // SAFETY: it changes no data.
            if unsafe { libc::mlockall(libc::MCL_FUTURE) } != 0 {
                return println!("left out: nothing may be locked");
            }
            let arena = Arena::new(0, 4 * MIB, &options(kind, 0)).unwrap();
            let mut model = Model::new(arena, testkit::seed(61));
            for to in [Use::Plain, Use::Free, Use::Managed, Use::Free, Use::Plain, Use::Free] {
                for blocks in [3..40, 500..520] {
                    model.set_use(blocks.clone(), to);
                    model.used(blocks).into_iter().for_each(|block| model.write(block));
                }
                model.verify_all();
            }
        });
    }
}

/// Whatever the order: allocators go about in what they have just got.
#[test]
fn what_is_new_opens_in_batches_while_the_limit_is_far() {
    install();
    let (limit, batch) = (Some(64 * MIB as u64), 64);
    let arena = Arena::new(0, 64 * MIB, &Options { limit, ..Options::default() }).unwrap();
    let start = arena.addresses().start;
    // SAFETY: nothing uses it yet.
    unsafe { arena.set_use(arena.addresses(), Use::Managed).unwrap() };
    let touch = |pages: Range<usize>| {
        let before = arena.stats().faults.count();
        // Each after one that lies far off.
        for page in pages.clone().step_by(2).chain(pages.skip(1).step_by(2)).step_by(3) {
            // SAFETY: it is readable and writable, and this thread's.
            unsafe { ((start + page * 4096) as *mut u8).write_volatile(1) };
        }
        arena.stats().faults.count() - before
    };
    // A batch begins where it was first touched, so some overlap.
    assert!(touch(0..16 * batch) <= 24);
    // Beyond a quarter they come one by one.
    touch(16 * batch..128 * batch);
    let pages = 160 * batch..176 * batch;
    let blocks = pages.len().div_ceil(3) as u64;
    assert_eq!(touch(pages), blocks);
    arena.check();
}

/// A table may be filled from its end down, and gone over so.
#[test]
fn touches_downwards_bring_batches_too() {
    install();
    let (limit, batch, pages) = (Some(64 * MIB as u64), 64, 32 * 64);
    let arena = Arena::new(0, 64 * MIB, &Options { limit, ..Options::default() }).unwrap();
    let start = arena.addresses().start;
    // SAFETY: nothing uses it yet.
    unsafe { arena.set_use(arena.addresses(), Use::Managed).unwrap() };
    let go_down = || {
        let before = arena.stats().faults.count();
        for page in (0..pages).rev() {
            let at = (start + page * 4096) as *mut u8;
            // SAFETY: it is readable and writable, and this thread's.
            unsafe { at.write_volatile(at.read_volatile().wrapping_add(page as u8 | 1)) };
        }
        arena.stats().faults.count() - before
    };
    assert!(go_down() <= (pages / batch) as u64 + 1);
    arena.reclaim(usize::MAX);
    assert_eq!(arena.stats().resident, 0);
    // Twice as many each time, up to a batch; anew in each 2 MiB, where a step ends.
    assert!(go_down() <= (pages / batch + pages / 512 * 7) as u64);
    assert_eq!(arena.stats().filled as usize, pages);
    for page in 0..pages {
        // SAFETY: as above.
        let found = unsafe { ((start + page * 4096) as *const u8).read_volatile() };
        assert_eq!(found, (page as u8 | 1).wrapping_mul(2));
    }
    arena.check();
}

/// What is open can be written without a fault: so it counts before the system counts it.
#[test]
fn batches_in_a_tree_are_bounded_though_nothing_is_written() {
    install();
    let (limit, batch) = (64 * MIB, 64 * 4096);
    static WORDS: TreeWords = [const { AtomicU64::new(0) }; Seen::BYTES / 8];
    let tree = Tree::of(&WORDS, 1);
    let options = Options { limit: Some(limit as u64), tree, ..Options::default() };
    let arena = Arena::new(0, 512 * MIB, &options).unwrap();
    // SAFETY: nothing uses it yet.
    unsafe { arena.set_use(arena.addresses(), Use::Managed).unwrap() };
    // Not where a batch ends: so no touches are in order.
    for (nth, at) in arena.addresses().step_by(batch * 3 / 2).enumerate() {
        // SAFETY: it is readable and writable, and this thread's.
        unsafe { (at as *mut u8).write_volatile(1) };
        if nth % 16 == 0 {
            arena.weigh_process();
        }
    }
    let (opened, touched) = (arena.stats().first_touches as usize * 4096, 512 * MIB / batch * 4096);
    assert!(opened <= limit / 4 + batch + touched, "{opened}");
    arena.check();
}

/// Else each fault would have all go, and come back.
#[test]
fn a_limit_that_compressed_data_pass_leaves_a_part_resident() {
    install();
    let (limit, pages) = (Some(8 * MIB as u64), 16 * MIB / 4096);
    let arena = Arena::new(0, 16 * MIB, &Options { limit, ..Options::default() }).unwrap();
    let start = arena.addresses().start;
    // SAFETY: nothing uses it yet.
    unsafe { arena.set_use(arena.addresses(), Use::Managed).unwrap() };
    let seed = testkit::seed(83);
    // Two thirds of each page are noise.
    let noise = |page: usize| Rng::with_seed(seed ^ page as u64);
    for page in 0..pages {
        // SAFETY: it is readable and writable, and this thread's.
        let bytes = unsafe {
            std::slice::from_raw_parts_mut((start + page * 4096) as *mut u8, 4096 * 2 / 3)
        };
        noise(page).fill(bytes);
    }
    assert!(arena.stats().pool > 8 * MIB as u64, "{:?}", arena.stats());
    let read = |pages: Range<usize>| {
        let before = arena.stats().filled;
        for page in pages {
            // SAFETY: as above.
            let bytes = unsafe {
                std::slice::from_raw_parts((start + page * 4096) as *const u8, 4096 * 2 / 3)
            };
            let mut expected = vec![0; bytes.len()];
            noise(page).fill(&mut expected);
            assert_eq!(bytes, expected, "page {page}");
        }
        arena.stats().filled - before
    };
    // A part that fits in what stays resident.
    read(0..256);
    assert_eq!([read(0..256), read(0..256)], [0, 0]);
    read(0..pages);
    // The limit is kept again once that is possible, though nothing goes for it.
    let freed = start + pages / 4 * 4096..arena.addresses().end;
    // SAFETY: nothing uses these any more.
    unsafe { arena.set_use(freed, Use::Free).unwrap() };
    read(0..256);
    assert!(Some(arena.stats().held) <= limit, "{:?}", arena.stats());
    arena.check();
}

/// Each call of a program would try all of it else.
#[test]
fn what_does_not_compress_is_not_tried_for_each_call() {
    install();
    static WORDS: TreeWords = [const { AtomicU64::new(0) }; Seen::BYTES / 8];
    let (limit, tree) = (Some(8 * MIB as u64), Tree::of(&WORDS, 1));
    let options = Options { limit, tree, ..Options::default() };
    let arena = Arena::new(0, 12 * MIB, &options).unwrap();
    store_aside(&arena);
    // SAFETY: nothing uses it yet.
    unsafe { arena.set_use(arena.addresses(), Use::Managed).unwrap() };
    // SAFETY: it is readable and writable, and this thread's.
    let bytes =
        unsafe { std::slice::from_raw_parts_mut(arena.addresses().start as *mut u8, 12 * MIB) };
    Rng::with_seed(testkit::seed(84)).fill(bytes);
    arena.yield_room(false);
    let before = arena.stats().incompressible;
    (0..300).for_each(|_| arena.yield_room(false));
    let tried = (arena.stats().incompressible - before) as usize;
    assert!(tried < 4 * 12 * MIB / 4096, "{tried}");
    arena.rest();
    arena.check();
}

/// There its number is that of another process, which would be taken for it.
#[test]
fn a_child_in_another_space_of_numbers_is_in_no_tree() {
    install();
    static WORDS: TreeWords = [const { AtomicU64::new(0) }; Seen::BYTES / 8];
    let (limit, tree) = (Some(8 * MIB as u64), Tree::of(&WORDS, 1));
    let options = Options { limit, tree, ..Options::default() };
    let arena = Arena::new(0, 4 * MIB, &options).unwrap();
    in_child(|| {
        assert!(arena.stats().is_in_tree);
        // SAFETY: it changes what this process's children are numbered by, and who it is.
        if unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWPID) } != 0 {
            return println!("left out: no other space of numbers may be made");
        }
        in_child(|| {
            assert!(!arena.stats().is_in_tree);
            in_child(|| assert!(!arena.stats().is_in_tree));
        });
    });
    assert!(arena.stats().is_in_tree);
}

#[test]
fn a_touch_of_what_is_free_is_the_programs() {
    install();
    let arena = Arena::new(0, 4 * MIB, &options(BackendKind::Signal, 0)).unwrap();
    let start = arena.addresses().start;
    for (at, managed) in [(start, false), (start + 4096, false), (start + 4096, true)] {
        if managed {
            // SAFETY: nothing uses it yet.
            unsafe { arena.set_use(at..at + 4096, Use::Managed).unwrap() };
        }
        // SAFETY: if it can be written to, nothing else uses it.
        let child = Child::fork(|| unsafe { (at as *mut u8).write_volatile(1) });
        let status = child.status();
        assert_eq!(libc::WEXITSTATUS(status), if managed { 0 } else { 77 }, "{status:#x}");
    }
}

#[test]
fn wrong_arenas_and_ranges_are_refused() {
    let plain = options(BackendKind::Signal, 0);
    for (address, bytes) in [(0, 0), (0, 4096), (4096, 2 * MIB), (0, 3 * MIB)] {
        assert!(matches!(Arena::new(address, bytes, &plain), Err(zmem::Error::Size { .. })));
    }
    let kind = BackendKind::Userfaultfd;
    let refused = Arena::new(0, 2 * MIB, &options(kind, 0));
    assert!(matches!(refused, Err(zmem::Error::Backend)));
    let arena = Arena::new(0, 2 * MIB, &options(BackendKind::Signal, 2)).unwrap();
    let Range { start, end } = arena.addresses();
    let same_place = Arena::new(start, 2 * MIB, &plain);
    assert!(matches!(same_place, Err(zmem::Error::System { .. })), "{same_place:?}");
    for (from, to) in
        [(start - 16384, start), (start, end + 16384), (start + 4096, end), (end, start)]
    {
        assert!(matches!(arena.pin(from..to), Err(zmem::Error::Range { .. })), "{from:x} {to:x}");
    }
    arena.pin(start..end).unwrap();
    arena.unpin(start..end).unwrap();
}
