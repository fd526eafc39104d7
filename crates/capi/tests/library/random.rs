//! A random test of `uzram.h`, compared with models in plain memory, in C++.

use crate::support::{HERE, Language, compiled, installed, run};
use std::path::Path;
use std::process::Command;

#[test]
fn models_and_library_agree() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("model");
    let sources = ["main.cc", "device.cc", "lru.cc", "objects.cc", "region.cc", "threads.cc"];
    let sources = sources.map(|name| Path::new(HERE).join("tests/model").join(name));
    let lib = installed().join("lib");
    let lib = lib.to_str().unwrap();
    let (search, rpath) = (format!("-L{lib}"), format!("-Wl,-rpath,{lib}"));
    compiled(Language::Cpp, &sources, &program, &["-O1", &search, &rpath, "-luzram"]);
    let seed = std::env::var("UZRAM_SEED").unwrap_or("1".into());
    let rounds = if std::env::var_os("UZRAM_LONG").is_some() { "30" } else { "1" };
    let mut model = Command::new(&program);
    run(model.arg(dir.path()).args([&seed, rounds, "1000"]));
}
