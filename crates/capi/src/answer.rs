//! The result of every call: 0, or a negative errno and a message for the thread.
//!
//! # Safety
//! No other library defines the exported names, because each begins with `uzram_`. A call sets only
//! the cancellation state of its own thread, and restores this state.
#![allow(unsafe_code)]

use crate::policy::MESSAGE_BYTES;
use std::any::Any;
use std::cell::Cell;
use std::ffi::{c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

pub(crate) const ENOENT: i32 = 2;
pub(crate) const EIO: i32 = 5;
pub(crate) const E2BIG: i32 = 7;
pub(crate) const EBUSY: i32 = 16;
pub(crate) const EINVAL: i32 = 22;
/// A bug in this library.
pub(crate) const ENOTRECOVERABLE: i32 = 131;

/// The reason why a call failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) errno: i32,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(errno: i32, message: impl Into<String>) -> Self {
        Failure { errno, message: message.into() }
    }

    /// Returns the failure for an invalid argument.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Failure::new(EINVAL, message)
    }

    fn of_panic(panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let text = text.unwrap_or("no reason was given");
        let message = format!("a bug in uzram: {text}; please report it, with what led to it");
        Failure::new(ENOTRECOVERABLE, message)
    }
}

macro_rules! from_errors {
    ($($error:ty),*) => { $(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                let error = uzram::Error::from(error);
                Failure::new(error.errno(), error.to_string())
            }
        }
    )* };
}

from_errors!(
    uzram::zram::Error,
    uzram::zsmalloc::Error,
    uzram::zcomp::Error,
    uzram::page::Error,
    uzram::slab::Error,
    uzram::lru::Error,
    uzram::zmem::Error
);

thread_local! {
    /// The message of the thread's last failed call. The variable has no destructor, so the message
    /// stays valid for code that runs when the thread or the program ends.
    static MESSAGE: Cell<[u8; MESSAGE_BYTES]> = const { Cell::new([0; MESSAGE_BYTES]) };
}

/// Returns a text as a C string: without zeros, except one at the end.
fn message_of(text: &str) -> [u8; MESSAGE_BYTES] {
    let mut message = [0; MESSAGE_BYTES];
    let end = text.floor_char_boundary(MESSAGE_BYTES - 1);
    let bytes = text[..end].bytes().filter(|byte| *byte != 0);
    message.iter_mut().zip(bytes).for_each(|(to, byte)| *to = byte);
    message
}

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// PTHREAD_CANCEL_DISABLE of glibc and of musl.
const DISABLED: c_int = 1;

/// Prevents a cancellation of the thread. A cancellation would unwind the stack from a system call,
/// so locks would stay locked. The code that catches panics must not catch a cancellation.
struct Uncancelled(c_int);

impl Uncancelled {
    fn new() -> Self {
        let mut before = DISABLED;
        // SAFETY: `before` is a local variable, and DISABLED is a valid state.
        unsafe { pthread_setcancelstate(DISABLED, &raw mut before) };
        Uncancelled(before)
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        let mut ours = DISABLED;
        // SAFETY: `ours` is a local variable, and `self.0` is the valid state before the call.
        unsafe { pthread_setcancelstate(self.0, &raw mut ours) };
    }
}

/// Runs a call's work and returns its result. Catches panics.
pub(crate) fn answer(work: impl FnOnce() -> Result<(), Failure>) -> c_int {
    let _whole = Uncancelled::new();
    answer_at_once(work)
}

/// Does the same as [`answer`], for work that takes nanoseconds. No cancellation can occur in this
/// work, because it neither waits nor reads a file.
pub(crate) fn answer_at_once(work: impl FnOnce() -> Result<(), Failure>) -> c_int {
    let done = catch_unwind(AssertUnwindSafe(work));
    let failure = match done {
        Ok(Ok(())) => return 0,
        Ok(Err(failure)) => failure,
        Err(panic) => Failure::of_panic(&*panic),
    };
    MESSAGE.set(message_of(&failure.message));
    -failure.errno
}

/// Drops an object that the C caller passes; `None` stands for NULL. Catches panics.
pub(crate) fn end<T>(object: Option<T>) {
    answer(|| {
        drop(object);
        Ok(())
    });
}

/// Returns the message of this thread's last failed call, or "" if none has failed.
#[unsafe(no_mangle)]
pub extern "C" fn uzram_error_message() -> *const c_char {
    MESSAGE.with(|message| message.as_ptr().cast())
}

/// Returns the library's version: major << 16 | minor << 8 | patch.
#[unsafe(no_mangle)]
pub extern "C" fn uzram_version() -> u32 {
    let part = |text: &str| text.parse::<u32>().unwrap_or(0);
    part(env!("CARGO_PKG_VERSION_MAJOR")) << 16
        | part(env!("CARGO_PKG_VERSION_MINOR")) << 8
        | part(env!("CARGO_PKG_VERSION_PATCH"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use std::ffi::CStr;

    fn message() -> String {
        // SAFETY: the message ends with a zero, and no call of this thread fails while the message
        // is read.
        unsafe { CStr::from_ptr(uzram_error_message()) }.to_str().unwrap().to_owned()
    }

    #[test]
    fn a_panic_ends_at_the_border() {
        assert_eq!(message(), "");
        let panicked = answer(|| panic!("in {}", "two parts"));
        assert_eq!(panicked, -ENOTRECOVERABLE);
        assert!(message().starts_with("a bug in uzram: in two parts; "), "{}", message());
        assert_eq!(answer(|| Err(Failure::invalid("with a\0zero"))), -EINVAL);
        assert_eq!(message(), "with azero");
        let long = "\u{e9}".repeat(MESSAGE_BYTES);
        assert_eq!(answer(|| Err(Failure::invalid(long))), -EINVAL);
        assert_eq!(message(), "\u{e9}".repeat(MESSAGE_BYTES / 2 - 1), "cut at a letter's end");
        assert_eq!(answer(|| Err(Failure::invalid("with a\0zero"))), -EINVAL);
        assert_eq!(answer(|| Ok(())), 0);
        assert_eq!(message(), "with azero", "of the last call that failed");
        std::thread::spawn(|| assert_eq!(message(), "", "a message is its thread's"))
            .join()
            .unwrap();
    }
}
