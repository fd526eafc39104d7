//! Tests a fork within a constructor or a destructor. The forking thread continues to use the slab,
//! in the parent and in the child (I8).
//!
//! These tests run one after the other, in a process without other tests. If a thread is in an
//! epoch while another thread forks, the epoch never ends in the child. The child would then never
//! release stable memory.
#![allow(unsafe_code, clippy::unwrap_used)]

use slab::{Arena, Cache, Construct, ConstructedCache, Memory, Options};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};

/// `ASKED` if the constructor or destructor of the next object forks. After the fork, the return
/// value of `fork`.
static FORKS: AtomicI32 = AtomicI32::new(NOT_ASKED);
const NOT_ASKED: i32 = -1;
const ASKED: i32 = -2;

struct Forking([u64; 500]);

impl Forking {
    fn fork_if_asked() {
        if FORKS.compare_exchange(ASKED, NOT_ASKED, Relaxed, Relaxed).is_ok() {
            // SAFETY: the child calls only code that needs no lock of another thread. Exceptions
            // are the caches, which are under test, and the C library's allocator, which handles
            // forks. The child exits in `end_in_child`.
            let child = unsafe { libc::fork() };
            assert!(child >= 0);
            if child == 0 {
                // SAFETY: the signal's default action ends the child.
                unsafe { libc::alarm(60) };
            }
            FORKS.store(child, Relaxed);
        }
    }
}

impl Construct for Forking {
    fn construct() -> Self {
        Self::fork_if_asked();
        Forking([7; 500])
    }
}

impl Drop for Forking {
    fn drop(&mut self) {
        Self::fork_if_asked();
        assert_eq!(self.0, [7; 500]);
    }
}

/// In the child, runs `work` and exits. In the parent, waits for the child.
fn end_in_child(work: impl FnOnce()) {
    match FORKS.swap(NOT_ASKED, Relaxed) {
        0 => {
            let worked = catch_unwind(AssertUnwindSafe(work)).is_ok();
            // SAFETY: this ends the child, whose only thread is this one.
            unsafe { libc::_exit(i32::from(!worked)) }
        }
        child => {
            assert!(child > 0, "a fork was met");
            let mut status = 0;
            // SAFETY: `status` is a local variable that the kernel can write.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            assert_eq!(status, 0, "the child failed");
        }
    }
}

fn fork_amid_both(memory: Memory) {
    let arena = Arena::new(page::Config::default()).unwrap();
    let options = || Options { memory, ..Options::named("forking") };
    let cache = ConstructedCache::<Forking>::new(&arena, options()).unwrap();
    let use_it = || {
        let boxes: Vec<_> = (0..500).map(|_| cache.alloc().unwrap()).collect();
        assert!(boxes.iter().all(|object| object.0 == [7; 500]));
        drop(boxes);
        cache.shrink();
        (0..100).for_each(|_| slab::pin().flush());
        assert_eq!((cache.stat().slabs, cache.stat().active_objects), (0, 0));
        arena.check();
        assert_eq!(arena.budget().used(), 0);
    };
    FORKS.store(ASKED, Relaxed);
    let first = cache.alloc().unwrap();
    end_in_child(|| {
        assert_eq!(first.0, [7; 500]);
        let more: Vec<_> = (0..500).map(|_| cache.alloc().unwrap()).collect();
        assert!(more.iter().all(|object| object.0 == [7; 500]));
        arena.check();
    });
    drop(first);
    FORKS.store(ASKED, Relaxed);
    use_it();
    end_in_child(use_it);
}

/// A lock that lets these tests run one after the other.
static AMID: Mutex<()> = Mutex::new(());

#[test]
fn a_fork_amid_a_constructor_or_destructor() {
    let _one = AMID.lock();
    for memory in [Memory::AnyTime, Memory::Stable] {
        fork_amid_both(memory);
    }
}

/// Work that runs when a thread exits, and a channel that receives whether the work succeeded.
struct AtEnd(Memory, Sender<bool>);

impl Drop for AtEnd {
    fn drop(&mut self) {
        let worked = catch_unwind(AssertUnwindSafe(|| fork_amid_both(self.0))).is_ok();
        let _ = self.1.send(worked);
    }
}

/// Tests an exiting thread without a number. Thread-local values are dropped in a fixed order,
/// those that were created last first. So the work runs after the thread has lost its number.
#[test]
fn a_fork_amid_a_constructor_or_destructor_of_a_thread_without_a_number() {
    thread_local! {
        static AT_END: RefCell<Option<AtEnd>> = const { RefCell::new(None) };
    }
    let _one = AMID.lock();
    for memory in [Memory::AnyTime, Memory::Stable] {
        let (sender, worked) = channel();
        let ends = std::thread::spawn(move || {
            AT_END.set(Some(AtEnd(memory, sender)));
            let arena = Arena::new(page::Config::default()).unwrap();
            let cache = Cache::<[u64; 6]>::new(&arena, "numbered").unwrap();
            drop(cache.alloc([1; 6]).unwrap());
        });
        ends.join().unwrap();
        assert_eq!(worked.recv(), Ok(true), "{memory:?}");
    }
}
