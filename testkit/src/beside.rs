//! What is built beside a program and that no crate can depend on: the library that `uzram run`
//! loads, as its functions named `read` and `write` would take the place of the C library's; and
//! what libuzram is linked of.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Builds packages as a program was built, and returns the folder where all of it lies.
pub fn build(program: &Path, packages: &[&str]) -> PathBuf {
    let mut args = vec!["build"];
    packages.iter().for_each(|package| args.extend(["-p", package]));
    cargo(program, &args)
}

/// Builds what libuzram is linked of in the same way, and nothing else, and returns the archive.
pub fn build_capi(program: &Path) -> PathBuf {
    let args = ["rustc", "--lib", "--crate-type", "staticlib", "-p", "uzram-capi"];
    cargo(program, &args).join("deps/libuzram_capi.a")
}

fn cargo(program: &Path, args: &[&str]) -> PathBuf {
    let dir = program.parent().unwrap();
    let profile = dir.file_name().unwrap().to_str().unwrap();
    let profile = if profile == "debug" { "test" } else { profile };
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(args).args(["--quiet", "--locked", "--profile", profile]);
    cargo.arg("--target-dir").arg(dir.parent().unwrap());
    let output = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).stdin(Stdio::null()).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    dir.to_owned()
}
