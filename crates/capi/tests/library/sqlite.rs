//! SQLite with a page cache on libuzram: the pages lie in a region, and their descriptors in an
//! object cache.

use crate::support::{HERE, Language, compiled, installed, run};
use std::path::Path;
use std::process::Command;

#[test]
fn a_page_cache_is_larger_than_its_memory() {
    if !Path::new("/usr/include/sqlite3.h").exists() {
        println!("left out: there is no SQLite; install libsqlite3-dev");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("pages");
    let sources =
        ["main.c", "pcache.c"].map(|name| Path::new(HERE).join("tests/sqlite").join(name));
    let archive = installed().join("lib/libuzram.a");
    let libraries = [archive.to_str().unwrap(), "-lsqlite3", "-lgcc_s", "-ldl", "-lm"];
    compiled(Language::C, &sources, &program, &libraries);
    let output = run(Command::new(&program).arg(dir.path().join("database")));
    print!("{}", String::from_utf8_lossy(&output.stdout));
}
