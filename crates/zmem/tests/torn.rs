//! Children for which no fork handler ran, created while other threads change blocks.
#![allow(unsafe_code, clippy::unwrap_used)]

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread;
use testkit::child::{Child, in_child};
use testkit::watched_codec::{Call, WatchedCodec};
use zmem::{Advice, BackendKind, Options, Region};

const PAGE: usize = 4096;
const PAGES: usize = 64;

/// The codec lz4, in which a test can make a call wait.
static WAITS: WatchedCodec = WatchedCodec { of: "lz4", before: wait_if_asked };

const GO: u32 = 0;
/// A value of `STEP`: the next compression waits.
const COMPRESS: u32 = 1;
const DECOMPRESS: u32 = 2;
/// A value of `STEP`: a call of the codec waits.
const WAITING: u32 = 3;

static STEP: AtomicU32 = AtomicU32::new(GO);

fn wait_if_asked(call: Call) -> Result<(), zcomp::Error> {
    let step = if call == Call::Compress { COMPRESS } else { DECOMPRESS };
    if STEP.compare_exchange(step, WAITING, SeqCst, SeqCst).is_ok() {
        while STEP.load(SeqCst) == WAITING {
            thread::yield_now();
        }
    }
    Ok(())
}

fn page(region: &Region, nth: usize) -> &[u8] {
    &region[nth * PAGE..(nth + 1) * PAGE]
}

fn verify(region: &Region, nth: usize) {
    assert_eq!(page(region, nth)[..8], nth.to_le_bytes());
    assert!(page(region, nth)[100..200].iter().all(|&byte| byte == 1), "page {nth}");
}

#[test]
fn what_no_missing_thread_had_comes_back_and_the_rest_ends_the_copy() {
    in_child(|| {
        for backend in [BackendKind::Signal, BackendKind::SignalMappings] {
            let options = Options { codec: &WAITS, backend, ..Options::default() };
            let mut region = Region::new(PAGES * PAGE, options).unwrap();
            for (nth, page) in region.chunks_mut(PAGE).enumerate() {
                page[..8].copy_from_slice(&nth.to_le_bytes());
                page[100..200].fill(1);
            }
            region.reclaim(region.len());
            let verify_all_but = |left: usize| {
                (0..PAGES).filter(|&nth| nth != left).for_each(|nth| verify(&region, nth));
            };
            let while_one_waits = |step: u32, work: &(dyn Fn() + Sync), look: &dyn Fn()| {
                thread::scope(|scope| {
                    STEP.store(step, SeqCst);
                    scope.spawn(work);
                    testkit::wait::until("a thread waits", || STEP.load(SeqCst) == WAITING);
                    look();
                    STEP.store(GO, SeqCst);
                });
            };
            while_one_waits(DECOMPRESS, &|| verify(&region, 5), &|| {
                Child::clone_unnoticed(|| verify_all_but(5)).wait();
                let ended = Child::clone_unnoticed(|| verify(&region, 5)).status();
                assert_eq!(libc::WTERMSIG(ended), libc::SIGABRT, "{ended}");
                // SAFETY: no reference to the bytes exists.
                let zero = || unsafe { region.dont_need_shared(0..region.len()).unwrap() };
                let ended = Child::clone_unnoticed(zero).status();
                assert_eq!(libc::WTERMSIG(ended), libc::SIGABRT, "{ended}");
            });
            // The test has enough threads to hold all contexts.
            region.advise(5 * PAGE..6 * PAGE, Advice::Cold).unwrap();
            let contexts = thread::available_parallelism().unwrap().get() as u64 + 2;
            let before = region.stats().waits;
            let touch_at_once = || {
                thread::scope(|scope| {
                    (0..contexts).for_each(|_| _ = scope.spawn(|| verify(&region, 5)))
                });
            };
            while_one_waits(DECOMPRESS, &touch_at_once, &|| {
                let are_taken = || region.stats().waits + 1 >= before + contexts;
                testkit::wait::until("all contexts are taken", are_taken);
                Child::clone_unnoticed(|| verify_all_but(5)).wait();
            });
            let cold = || region.advise(5 * PAGE..6 * PAGE, Advice::Cold).unwrap();
            while_one_waits(COMPRESS, &cold, &|| {
                let all = || (0..PAGES).for_each(|nth| verify(&region, nth));
                Child::clone_unnoticed(all).wait();
            });
            (0..PAGES).for_each(|nth| verify(&region, nth));
            region.check();
        }
    });
}
