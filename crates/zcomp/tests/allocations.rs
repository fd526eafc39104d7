//! Nothing allocates once a stream is made, the C libraries neither: every malloc of this process
//! is counted.
//!
//! # Safety
//! The functions below stand in for the C library's and pass everything on to it as it came.
#![allow(unsafe_code)]
// Helpers outside the test functions unwrap too.
#![allow(clippy::unwrap_used)]
// A sanitizer's own malloc stands in there already.
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
    // SAFETY: as it came.
    unsafe { __libc_malloc(bytes) }
}

#[unsafe(no_mangle)]
extern "C" fn calloc(count: usize, bytes: usize) -> *mut c_void {
    CALLS.fetch_add(1, Relaxed);
    // SAFETY: as it came.
    unsafe { __libc_calloc(count, bytes) }
}

/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn realloc(old: *mut c_void, bytes: usize) -> *mut c_void {
    CALLS.fetch_add(1, Relaxed);
    // SAFETY: as it came.
    unsafe { __libc_realloc(old, bytes) }
}

/// How often anything is allocated meanwhile.
fn allocations(work: impl FnOnce()) -> usize {
    let before = CALLS.load(Relaxed);
    work();
    CALLS.load(Relaxed) - before
}

/// The only test here: others would be counted too.
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
            // Its optimal parser does, see `Prepared::stream`.
            let is_known = setting.codec.name() == "lz4hc" && level >= 10;
            assert_eq!(calls > 0, is_known, "{} level {level}: {calls}", setting.name);
        }
    }
}
