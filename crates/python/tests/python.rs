//! Runs the tests written in Python, with the library that cargo has built.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;
use std::process::Command;

/// Assembles the package in `dir`, in its installed form.
fn put_package(dir: &Path) {
    let package = dir.join("uzram");
    fs::create_dir(&package).unwrap();
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/uzram");
    for file in fs::read_dir(sources).unwrap() {
        let file = file.unwrap();
        if file.file_type().unwrap().is_file() {
            fs::copy(file.path(), package.join(file.file_name())).unwrap();
        }
    }
    // Cargo builds the library, with the same profile, beside this program.
    let library = std::env::current_exe().unwrap().with_file_name("lib_uzram.so");
    let library = fs::canonicalize(&library).unwrap_or_else(|error| {
        panic!("{} is not there, which cargo builds for this test: {error}", library.display())
    });
    std::os::unix::fs::symlink(library, package.join("_uzram.abi3.so")).unwrap();
}

#[test]
fn python_passes_its_tests() {
    let dir = tempfile::tempdir().unwrap();
    put_package(dir.path());
    let out = Command::new("python3")
        .args(["-X", "dev", "-m", "unittest", "discover", "-s"])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python"))
        .env("PYTHONPATH", dir.path())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .expect("python3, which `make setup` installs");
    let (said, told) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{}:\n{said}\n{told}", out.status);
    println!("{}", told.trim_end().lines().rev().take(3).collect::<Vec<_>>().join("; "));
}
