//! Work without the interpreter, which other threads of Python's may have meanwhile.

use pyo3::prelude::*;
use std::hint;
use std::sync::atomic::{AtomicBool, Ordering};

/// Below so many bytes a codec is done before another thread would have the interpreter.
const TINY: usize = 2048;
/// A thread that is done looks at most this often whether another has the interpreter: for some
/// microseconds.
const LOOKS: usize = 200;

/// Whether the thread that did some work last is still between that and its next. A hint: another
/// may have the interpreter, and two may have set it.
static HELD: AtomicBool = AtomicBool::new(false);

/// Does the work on so many bytes, and lets other threads of Python's run meanwhile if that pays.
///
/// A thread goes from one call to the next in some tenths of a microsecond; to sleep for that and
/// to be woken takes tens. So a thread that is done stays awake for a while.
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
