//! The expected contents of a region. One thread changes these contents. Any thread and any signal
//! handler can touch a byte of the region and compare it.

use std::cell::Cell;
use std::hint::black_box;
use std::ptr::null;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::sync::atomic::{AtomicU8, AtomicUsize, fence};

/// The number of bytes that are copied from the memory and compared at a time.
const COMPARED: usize = 64 << 10;

/// The expected contents, and the memory that should have them.
#[derive(Debug)]
pub struct Mirror {
    start: *mut u8,
    expected: Vec<AtomicU8>,
    /// A counter that is incremented when a change begins and again when it ends. The counter is
    /// odd during a change.
    changes: AtomicUsize,
    /// 1 plus the offset of a wrong byte that a thread or a handler found. 0 means that no wrong
    /// byte was found.
    wrong: AtomicUsize,
    /// The offset that the handler touches next, modulo the number of bytes.
    next: AtomicUsize,
}

// SAFETY: any thread is allowed to use the memory at `start`, and all other fields are atomic.
unsafe impl Sync for Mirror {}
// SAFETY: any thread is allowed to use the memory at `start`, and all other fields are atomic.
unsafe impl Send for Mirror {}

thread_local! {
    /// The mirror that the signal handler uses in this thread, or null.
    static OF_HANDLER: Cell<*const Mirror> = const { Cell::new(null()) };
}

impl Mirror {
    /// Returns the mirror of the memory at `start`, whose contents are `expected`.
    ///
    /// # Safety
    /// While the mirror exists, the memory at `start` is mapped, or is absent memory of a region.
    pub unsafe fn new(start: *mut u8, expected: &[u8]) -> Self {
        let expected = expected.iter().map(|byte| AtomicU8::new(*byte)).collect();
        let [changes, wrong, next] = [const { AtomicUsize::new(0) }; 3];
        Mirror { start, expected, changes, wrong, next }
    }

    pub fn len(&self) -> usize {
        self.expected.len()
    }

    /// Returns a pointer to the byte at the offset `at` of the memory.
    pub fn pointer(&self, at: usize) -> *mut u8 {
        assert!(at <= self.len());
        // SAFETY: `at` was checked above, so the pointer is within the memory or at its end.
        unsafe { self.start.add(at) }
    }

    /// Returns the expected contents. Only the caller's thread changes them.
    pub fn expected(&self) -> &[u8] {
        // SAFETY: an atomic byte has the layout of a byte. Only the caller's thread changes these
        // bytes.
        unsafe { std::slice::from_raw_parts(self.expected.as_ptr().cast(), self.len()) }
    }

    /// Runs `change`, which changes the memory and returns the new contents from `at` on.
    pub fn change<'b>(&self, at: usize, change: impl FnOnce() -> &'b [u8]) {
        self.changes.fetch_add(1, SeqCst);
        fence(SeqCst);
        for (expected, byte) in self.expected[at..].iter().zip(change()) {
            expected.store(*byte, Relaxed);
        }
        self.changes.fetch_add(1, SeqCst);
    }

    /// Writes `bytes` to the memory at the offset `at`.
    pub fn write(&self, at: usize, bytes: &[u8]) {
        let start = self.pointer(at + bytes.len()).wrapping_sub(bytes.len());
        self.change(at, || {
            // SAFETY: `pointer` checked the end of the range. Other threads access this memory only
            // by `touch` and `rewrite`, which tolerate changes.
            unsafe { start.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
            bytes
        });
    }

    /// Compares `len` bytes at `at`. Each byte is read once.
    pub fn compare(&self, at: usize, len: usize) {
        let expected = &self.expected()[at..at + len];
        // SAFETY: slicing `expected` has checked the range. Other threads write only the values
        // that the bytes already have.
        let memory = unsafe { std::slice::from_raw_parts(self.pointer(at), len) };
        let mut found = Vec::with_capacity(len.min(COMPARED));
        for (nth, (memory, expected)) in
            memory.chunks(COMPARED).zip(expected.chunks(COMPARED)).enumerate()
        {
            found.clear();
            found.extend_from_slice(memory);
            if found != expected {
                let differs = |at: &usize| found[*at] != expected[*at];
                let wrong: Vec<usize> = (0..found.len()).filter(differs).collect();
                let (first, count) = (wrong[0], wrong.len());
                let (byte, expected) = (found[first], expected[first]);
                let at = at + nth * COMPARED + first;
                panic!("byte {at} is {byte}, not {expected}; {count} differ from there on");
            }
        }
    }

    pub fn compare_all(&self) {
        self.compare(0, self.len());
    }

    /// Reads the byte at `at`. Compares the byte, unless a change was in progress during the call.
    pub fn touch(&self, at: usize) {
        let before = self.changes.load(Acquire);
        // SAFETY: callers pass an offset below the length, so the byte is within the memory.
        let found = unsafe { self.pointer(at).read_volatile() };
        let expected = self.expected[at].load(Relaxed);
        fence(Acquire);
        let is_stable = before.is_multiple_of(2) && self.changes.load(Relaxed) == before;
        if is_stable && found != expected {
            self.wrong.store(at + 1, Relaxed);
        }
    }

    /// Writes to the byte at `at` without changing its value. A concurrent write by another thread
    /// is not lost.
    pub fn rewrite(&self, at: usize) {
        // SAFETY: callers pass an offset below the length, and a byte is always aligned.
        unsafe { AtomicU8::from_ptr(self.pointer(at)) }.fetch_add(black_box(0), SeqCst);
    }

    /// Asserts that no thread and no handler has found a wrong byte.
    pub fn expect_no_wrong(&self) {
        let wrong = self.wrong.load(Relaxed);
        assert!(wrong == 0, "another thread or a handler found a wrong byte at {}", wrong - 1);
    }

    /// Sets the offset that the handler touches first.
    pub fn set_next(&self, at: usize) {
        self.next.store(at, Relaxed);
    }

    fn touch_next(&self) {
        let nth = self.next.fetch_add(0x9E37_79B9, Relaxed);
        self.touch(nth % self.len());
        if nth.is_multiple_of(2) {
            self.rewrite(nth % self.len());
        }
    }

    /// Makes the handler of [`SIGNAL`] use this mirror in this thread.
    ///
    /// # Safety
    /// [`forget`](Self::forget) is called before the mirror is dropped.
    pub unsafe fn handle(&self) {
        OF_HANDLER.set(self);
        // SAFETY: zeros are a valid action with an empty mask, and `on_signal` can safely run at
        // any point.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_signal as extern "C" fn(_) as usize;
            action.sa_flags = libc::SA_RESTART;
            assert_eq!(libc::sigaction(SIGNAL, &action, std::ptr::null_mut()), 0);
        }
    }

    /// Makes the handler do nothing in this thread.
    pub fn forget() {
        OF_HANDLER.set(null());
    }
}

/// The signal whose handler touches a region. By default the signal is ignored.
pub const SIGNAL: libc::c_int = libc::SIGURG;

extern "C" fn on_signal(_: libc::c_int) {
    // SAFETY: the pointer is null or refers to the mirror of an existing model, because `forget` is
    // called before the mirror is dropped.
    if let Some(mirror) = unsafe { OF_HANDLER.get().as_ref() } {
        mirror.touch_next();
    }
}
