//! preload: the library that `uzram run` loads into a program that is linked to glibc, so that the
//! runtime begins before the program does. `docs/design.md` has its rules (pl-1 ...).
//!
//! On other processors there is nothing here, as `dispatch` refuses.
#![cfg(target_arch = "x86_64")]
#![cfg_attr(not(test), allow(unsafe_code))]

#[cfg(not(test))]
dispatch::export_storage!();
#[cfg(not(test))]
dispatch::export_wrappers!();

#[cfg(not(test))]
#[used]
// SAFETY: the section holds pointers to functions of no arguments that are needed, which the C
// library calls in turn. This one needs nothing that Rust's runtime sets up before `main`.
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = runtime::begin_preloaded;
