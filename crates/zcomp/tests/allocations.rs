//! Tests that neither a stream nor the C libraries allocate memory after the stream is created.
//! Every malloc of this process is counted.
//!
//! # Safety
//! The functions in this file replace functions of the C library, and pass all arguments on to them
//! unchanged.
#![allow(unsafe_code)]
// Helper functions outside the tests use `unwrap`, too.
#![allow(clippy::unwrap_used)]
// A sanitizer replaces malloc with its own function.
#![cfg(all(target_env = "gnu", not(asan)))]

use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use testkit::samples::kinds;
use testkit::seed;
use testkit::settings::{levels, settings};

static CALLS: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" {
    fn __libc_malloc(bytes: usize) -> *mut c_void;
    fn __libc_calloc(count: usize, bytes: usize) -> *mut c_void;
    fn __libc_realloc(old: *mut c_void, bytes: usize) -> *mut c_void;
}

#[unsafe(no_mangle)]
extern "C" fn malloc(bytes: usize) -> *mut c_void {
    CALLS.fetch_add(1, Relaxed);
    // SAFETY: the arguments are passed on unchanged.
    unsafe { __libc_malloc(bytes) }
}

#[unsafe(no_mangle)]
extern "C" fn calloc(count: usize, bytes: usize) -> *mut c_void {
    CALLS.fetch_add(1, Relaxed);
    // SAFETY: the arguments are passed on unchanged.
    unsafe { __libc_calloc(count, bytes) }
}

/// # Safety
/// The same requirements as for the function of the C library.
#[unsafe(no_mangle)]
unsafe extern "C" fn realloc(old: *mut c_void, bytes: usize) -> *mut c_void {
    CALLS.fetch_add(1, Relaxed);
    // SAFETY: the arguments are passed on unchanged.
    unsafe { __libc_realloc(old, bytes) }
}

/// Returns the number of allocations during `work`.
fn allocations(work: impl FnOnce()) -> usize {
    let before = CALLS.load(Relaxed);
    work();
    CALLS.load(Relaxed) - before
}

/// The count would include allocations of other tests, so this file contains only one test.
#[test]
fn nothing_allocates_once_a_stream_is_made() {
    assert!(allocations(|| drop(std::hint::black_box(Box::new(1)))) > 0, "they are counted");
    let seed = seed(41);
    for setting in settings() {
        for level in levels(setting.codec) {
            let mut stream = setting.stream(Some(level), 16_384);
            let sources = kinds(16_384, seed);
            let (mut compressed, mut back) = (vec![0; 32_768], vec![0; 16_384]);
            let calls = allocations(|| {
                for src in &sources {
                    let length = stream.compress(src, &mut compressed).unwrap().unwrap();
                    let _ = stream.compress(src, &mut back[..length / 2]).unwrap();
                    stream.decompress(&compressed[..length], &mut back).unwrap();
                    let _ = stream.decompress(&compressed[..length / 2], &mut back);
                }
            });
            // From level 10 on, the parser of lz4hc allocates memory, see `Prepared::stream`.
            let is_known = setting.codec.name() == "lz4hc" && level >= 10;
            assert_eq!(calls > 0, is_known, "{} level {level}: {calls}", setting.name);
        }
    }
}
