//! Memory that a child inherits counts once, until the parent or the child accesses it (zm-L16).
//!
//! This file contains only one test, because other memory of the process counts, too.
//!
//! # Safety
//! The only handler of SIGSEGV passes faults to `answer_fault`, and ends the process if the arena
//! does not answer them. Only one thread uses the arena.
#![allow(unsafe_code, clippy::unwrap_used)]

use std::ffi::c_void;
use std::mem::zeroed;
use std::ptr::null_mut;
use std::sync::atomic::AtomicU64;
use testkit::child::Child;
use zmem::{Arena, BackendKind, BlockOrder, Options, Seen, Tree, Use, answer_fault};

const MIB: usize = 1 << 20;
const LIMIT: usize = 32 * MIB;
/// The size of the arena. If blocks have 64 KiB, the arena ends within a piece.
const BYTES: usize = 26 * MIB;

extern "C" fn on_fault(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes the arguments to this handler, which has all signals blocked except
    // SIGSEGV.
    if !unsafe { answer_fault(signal, info, context.cast()) } {
        // SAFETY: the call ends the process, because no arena contains the address.
        unsafe { libc::_exit(77) };
    }
}

fn install() {
    // SAFETY: zeros are a valid value of the structure; the handler is a function of the required
    // type.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        action.sa_sigaction = on_fault as extern "C" fn(_, _, _) as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigfillset(&mut action.sa_mask);
        libc::sigdelset(&mut action.sa_mask, libc::SIGSEGV);
        assert_eq!(libc::sigaction(libc::SIGSEGV, &action, null_mut()), 0);
    }
}

/// Returns a tree for this process and its children.
fn tree() -> Option<Tree> {
    type Words = [AtomicU64; Seen::BYTES / 8];
    let (prot, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: the kernel chooses the address, and the mapping is never removed. Zeros are valid
    // values of the words.
    let words: &'static Words = unsafe {
        let at = libc::mmap(null_mut(), size_of::<Words>(), prot, flags, -1, 0);
        assert_ne!(at, libc::MAP_FAILED);
        &*at.cast()
    };
    Tree::of(words, 1)
}

/// An arena whose blocks are all managed.
struct Scene(Arena);

impl Scene {
    fn word_at(at: usize, round: usize) -> usize {
        at / 64 + round * 1_000_000_007
    }

    fn write(&self, round: usize) {
        for at in self.0.addresses().step_by(64) {
            // SAFETY: the word is readable and writable, and only this thread uses it.
            unsafe { (at as *mut usize).write_volatile(Self::word_at(at, round)) };
        }
    }

    fn check(&self, round: usize) {
        for at in self.0.addresses().step_by(64) {
            // SAFETY: the word is readable, and only this thread uses it.
            let found = unsafe { (at as *const usize).read_volatile() };
            assert_eq!(found, Self::word_at(at, round), "{at:x}");
        }
    }

    fn held(&self) -> usize {
        self.0.figures().tree_held as usize
    }

    /// Checks that little memory counts for a child, and then overwrites all of the child's memory
    /// within the limit.
    fn overwrite(&self, child: usize) {
        assert!(self.held() < BYTES / 2, "{}", self.held());
        self.0.check();
        self.check(0);
        for round in 3 * child..3 * child + 3 {
            self.write(round);
            assert!(self.held() < LIMIT, "{}", self.held());
            self.check(round);
        }
        self.0.check();
    }
}

/// If shared pages stayed writable, a write without a fault could copy each of them, and no limit
/// could be kept.
#[test]
fn what_a_child_inherits_counts_once_until_one_of_the_two_touches_it() {
    install();
    let kinds = [BackendKind::Signal, BackendKind::SignalMappings, BackendKind::SignalRemap];
    for (backend, order) in kinds.into_iter().zip([4, 0, 1]) {
        let (tree, block, limit) = (tree(), BlockOrder::Fixed(order), Some(LIMIT as u64));
        let options = Options { backend, block, limit, tree, ..Options::default() };
        let scene = Scene(Arena::new(0, BYTES, &options).unwrap());
        let addresses = scene.0.addresses();
        // SAFETY: no code uses the arena yet.
        unsafe { scene.0.set_use(addresses.clone(), Use::Managed).unwrap() };
        scene.write(0);
        assert!((BYTES..LIMIT).contains(&scene.held()), "{backend:?}: {}", scene.held());
        // Pinned blocks are not closed.
        let pinned = addresses.start..addresses.start + (4096 << order);
        scene.0.pin(pinned.clone()).unwrap();
        let children = [1, 2].map(|child| Child::fork(|| scene.overwrite(child)));
        children.into_iter().for_each(Child::wait);
        scene.0.unpin(pinned).unwrap();
        scene.check(0);
        scene.0.check();
        let most = tree.unwrap().held_max() as usize;
        assert!(most < LIMIT + LIMIT / 4, "{backend:?}: {most}");
        scene.write(20);
        scene.check(20);
    }
}
