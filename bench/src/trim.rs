//! Free memory of malloc.
#![allow(unsafe_code)]

/// Returns free memory of malloc to the system.
pub(crate) fn trim() {
    // SAFETY: the call touches free memory only. A result of 0 means that no memory could be
    // released, which is no error.
    unsafe { libc::malloc_trim(0) };
}
