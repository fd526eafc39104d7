//! preload: the library that `uzram run` loads into a program that is linked to glibc, so that the
//! runtime begins before the program does. `docs/design.md` has its rules (pl-1 ...).
//!
//! On other processors there is nothing here, as `dispatch` refuses.
#![cfg(target_arch = "x86_64")]
#![cfg_attr(not(test), allow(unsafe_code))]

#[cfg(not(test))]
use std::ffi::{c_char, c_int};

#[cfg(not(test))]
dispatch::export_storage!();
#[cfg(not(test))]
dispatch::export_wrappers!();

#[cfg(not(test))]
#[used]
// SAFETY: the section holds pointers to functions, which glibc calls in turn with the arguments of
// `main`. This one needs nothing that Rust's runtime sets up before `main`.
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn(c_int, *const *const c_char) = runtime::begin_preloaded;
