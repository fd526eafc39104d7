//! A Rust library that depends on this package exports the functions that `uzram.h` declares, in
//! addition to its own functions.

use crate::header::{declared, exported};
use crate::support::run;
use std::env;
use std::process::Command;

#[test]
fn a_rust_library_can_bring_it() {
    let dir = tempfile::tempdir().unwrap();
    let [source, library] = ["own.rs", "libown.so"].map(|name| dir.path().join(name));
    let own = "use uzram_capi as _;\n#[unsafe(no_mangle)]\npub extern \"C\" fn own() {}\n";
    std::fs::write(&source, own).unwrap();
    // Compiles the library as cargo does, with the crates that were built for this test.
    let program = env::current_exe().unwrap();
    let built = program.parent().unwrap();
    let mut rustc = Command::new(env::var_os("RUSTC").unwrap_or("rustc".into()));
    rustc.args(["--edition", "2024", "--crate-type", "cdylib", "--crate-name", "own"]);
    rustc.arg("-L").arg(format!("dependency={}", built.display()));
    rustc.arg(format!("--extern=uzram_capi={}", built.join("libuzram_capi.rlib").display()));
    run(rustc.arg("-o").arg(&library).arg(&source));
    let mut names = exported(library.to_str().unwrap(), &["-D", "--defined-only"]);
    assert!(names.remove("own"), "{names:?}");
    let ours = names.iter().filter(|name| name.starts_with("uzram_")).cloned();
    assert_eq!(ours.collect::<std::collections::BTreeSet<_>>(), declared());
}
