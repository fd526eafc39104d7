//! A handler of faults, and compressor threads, for tests of an arena.
//!
//! # Safety
//! The handler passes its arguments to `answer_fault`. All signals except SIGSEGV are blocked in
//! the handler.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, Once};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use zmem::{Arena, StartThread, answer_fault};

extern "C" fn on_fault(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes the arguments to this handler. All signals but SIGSEGV are blocked.
    if !unsafe { answer_fault(signal, info, context.cast()) } {
        // SAFETY: the call ends the process, because no arena contains the address.
        unsafe { libc::_exit(77) };
    }
}

/// Installs a handler of SIGSEGV that passes faults to `answer_fault`, and ends the process if no
/// arena contains the address of the fault.
pub fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // SAFETY: zeros are a valid value of the structure. The handler has the required type.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_fault as extern "C" fn(_, _, _) as usize;
            // SA_ONSTACK is not set, because the alternate stack of a test's thread is small.
            action.sa_flags = libc::SA_SIGINFO;
            libc::sigfillset(&mut action.sa_mask);
            libc::sigdelset(&mut action.sa_mask, libc::SIGSEGV);
            assert_eq!(libc::sigaction(libc::SIGSEGV, &action, std::ptr::null_mut()), 0);
        }
    });
}

/// Starts compressor threads for an arena. Only one of these threads runs at a time.
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

/// Makes `arena` store evicted blocks through a compressor thread.
pub fn defer_stores(arena: &Arena) {
    // Makes the leaked values reachable for a leak checker.
    static ALL: Mutex<Vec<&Threads>> = Mutex::new(Vec::new());
    let threads = Box::leak(Box::<Threads>::default());
    ALL.lock().unwrap().push(threads);
    arena.defer_stores(threads);
}
