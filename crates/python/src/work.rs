//! Work that a thread does while it is detached from the interpreter, so that other Python threads
//! can run.

use crate::policy::{LOOKS, TINY};
use pyo3::prelude::*;
use std::hint;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the thread that finished last is still running Python code before its next call. This is
/// a hint: another thread may have the interpreter, and two threads may have set the flag.
static HELD: AtomicBool = AtomicBool::new(false);

/// Runs `work` on `bytes` bytes, and lets other Python threads run at the same time if that is
/// worthwhile.
///
/// A thread needs some tenths of a microsecond from one call to the next, but going to sleep and
/// being woken take tens of microseconds. So a thread that has finished stays awake for a while.
pub(crate) fn work<T: Send>(py: Python<'_>, bytes: usize, work: impl FnOnce() -> T + Send) -> T {
    if bytes < TINY {
        return work();
    }
    py.detach(|| {
        HELD.store(false, Ordering::Relaxed);
        let done = work();
        for _ in 0..LOOKS {
            if !HELD.load(Ordering::Relaxed) {
                break;
            }
            hint::spin_loop();
        }
        HELD.store(true, Ordering::Relaxed);
        done
    })
}
