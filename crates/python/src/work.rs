//! Work that a thread does while it is detached from the interpreter, so that other Python threads
//! can run.

use crate::policy::{LOOKS, TINY};
use pyo3::prelude::*;
use std::hint;
use std::sync::atomic::{AtomicBool, Ordering};

/// True if the thread that finished its work last runs Python code, and has not made its next call.
/// The flag is only a hint, because another thread may have taken the interpreter, and two threads
/// may have set the flag.
static HELD: AtomicBool = AtomicBool::new(false);

/// Runs `work` on `bytes` bytes. If the work is long enough, lets other Python threads run at the
/// same time.
///
/// A thread makes its next call after some tenths of a microsecond, but sleeping and waking takes
/// tens of microseconds. So after its work, a thread spins for a while before it sleeps to wait for
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
