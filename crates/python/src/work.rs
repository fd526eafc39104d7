//! Work that a thread does while it is detached from the interpreter, so that other Python threads
//! can run.

use crate::policy::{LOOKS, TINY};
use pyo3::prelude::*;
use std::hint;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the thread that finished last still runs Python code before its next call. The flag is
/// only a hint, because another thread may have taken the interpreter, and two threads may have set
/// the flag.
static HELD: AtomicBool = AtomicBool::new(false);

/// Runs `work` on `bytes` bytes. If the work is long enough, lets other Python threads run at the
/// same time.
///
/// A thread makes its next call after some tenths of a microsecond, but to sleep and wake takes
/// tens of microseconds. So a thread stays awake for a while after its work, instead of waiting for
/// the interpreter.
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
