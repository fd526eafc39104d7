//! Checks that CPython's own tests have the same results with a host as natively.

use crate::support::{Place, Stats};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use testkit::is_long;
use testkit::programs::Shown;

/// Modules of CPython's tests. For each module: the limit as a percentage of the memory that the
/// module holds without a limit, and the block size.
type Modules = [(&'static str, u64, usize)];
const SHORT: &Modules = &[
    ("test.test_dict", 80, 4096),
    ("test.test_list", 80, 4096),
    ("test.test_mmap", 80, 16384),
    ("test.test_array", 93, 4096),
    ("test.test_select", 85, 4096),
    ("test.test_popen", 85, 4096),
];
const LONG: &Modules = &[
    ("test.test_set", 85, 4096),
    ("test.test_tuple", 85, 4096),
    ("test.test_bytes", 70, 4096),
    ("test.test_gc", 85, 4096),
    ("test.test_weakref", 85, 4096),
    ("test.test_zlib", 85, 4096),
    ("test.test_json", 85, 4096),
    ("test.test_sqlite3", 85, 4096),
    ("test.test_io", 85, 4096),
    // One of the module's tests must write 16 MB within 5 seconds.
    ("test.test_socket", 95, 4096),
    ("test.test_selectors", 85, 4096),
    ("test.test_poll", 85, 16384),
    ("test.test_epoll", 85, 16384),
    ("test.test_asyncio.test_events", 90, 4096),
    ("test.test_asyncio.test_streams", 85, 4096),
    ("test.test_asyncio.test_subprocess", 85, 4096),
    ("test.test_asyncio.test_unix_events", 85, 4096),
    ("test.test_asyncio.test_tasks", 90, 4096),
    ("test.test_asyncio.test_locks", 85, 4096),
    ("test.test_asyncio.test_sendfile", 85, 4096),
    ("test.test_signal", 85, 16384),
    ("test.test_threadsignals", 85, 4096),
    ("test.test_faulthandler", 85, 16384),
    ("test.test_thread", 90, 4096),
    ("test.test_threading", 85, 4096),
    ("test.test_queue", 85, 4096),
    ("test.test_subprocess", 85, 4096),
    ("multiprocessing_fork", 85, 4096),
    ("multiprocessing_spawn", 85, 4096),
    ("test.test_os", 85, 4096),
    ("test.test_posix", 85, 65536),
    ("test.test_fork1", 85, 16384),
    ("test.test_tempfile", 85, 4096),
    ("test.test_ctypes", 85, 4096),
];
/// Tests whose results with a host can differ from the native results (see
/// `docs/design/runtime.md`).
const SHOWN: &[&str] = &[
    // This test depends on the free descriptor numbers, and the runtime uses one descriptor.
    "test_pass_fds_redirected",
];

/// Returns the Python interpreter, if its tests are installed.
fn python() -> Option<String> {
    let script = "import sys, test.test_dict; print(sys.executable)";
    let out = Command::new("python3").args(["-c", script]).output().ok()?;
    let path = String::from_utf8(out.stdout).ok()?;
    (out.status.success() && !path.is_empty()).then(|| path.trim_end().to_owned())
}

/// Returns the result of each test of a module.
fn ends(file: &Path, shown: &Shown) -> BTreeMap<String, String> {
    let lines = fs::read_to_string(file).unwrap_or_else(|error| panic!("{error}: {shown:?}"));
    let of = |line: &str| line.split_once(' ').map(|(how, name)| (name.to_owned(), how.to_owned()));
    lines.lines().filter_map(of).collect()
}

/// Runs a module natively, with a host, and with a host and a limit. The limit is `share` percent
/// of the maximum memory that the module held. Returns the differences, and the number of blocks
/// that were evicted and filled. The number of blocks varies between runs, because the limit
/// depends on a short peak.
fn differences(python: &str, module: &str, share: u64, block: usize) -> (Vec<String>, u64) {
    let place = Place::new();
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    fs::copy(sources.join("modules.py"), place.path().join("modules.py")).unwrap();
    for way in ["fork", "spawn"] {
        let text = format!(
            "import test._test_multiprocessing as them\n\
             them.install_tests_in_module_dict(globals(), '{way}')\n"
        );
        fs::write(place.path().join(format!("multiprocessing_{way}.py")), text).unwrap();
    }
    let run = |name: &str, settings: Option<&str>| {
        let results = place.path().join(name);
        let command = [python, "modules.py", results.to_str().unwrap(), module];
        let (shown, stats) = match settings {
            Some(settings) => place.hosted(settings, &command),
            None => (place.run(&command), Stats(Vec::new())),
        };
        (ends(&results, &shown), stats)
    };
    let (without, _) = run("without", None);
    assert!(!without.is_empty(), "{module} has no tests");
    let (free, stats) = run("free", Some(&format!("block={block}")));
    let limit = stats.max("held_max") * share / 100;
    let (with, stats) = run("with", Some(&format!("block={block},limit={limit}")));
    let [evicted, filled] = ["evicted", "filled"].map(|name| stats.sum(name));
    eprintln!("{module}: {} tests; limit {limit}: {evicted} out, {filled} in", without.len());
    let mut found = Vec::new();
    for (with, how) in [(free, "free"), (with, "with a limit")] {
        for name in without.keys().chain(with.keys().filter(|name| !without.contains_key(*name))) {
            let (before, now) = (without.get(name), with.get(name));
            if before != now && !SHOWN.iter().any(|shown| name.ends_with(shown)) {
                found.push(format!("{name}: {before:?}, {how} {now:?}"));
            }
        }
    }
    (found, evicted.min(filled))
}

#[test]
fn tests_of_pythons_end_as_natively() {
    let Some(python) = python() else {
        eprintln!("LEFT OUT: python3 has no tests of its own here");
        return;
    };
    let modules = SHORT.iter().chain(if is_long() { LONG } else { &[] });
    // Two modules run at the same time, because most modules spend their time waiting.
    let modules = Mutex::new(modules);
    let all = Mutex::new((Vec::new(), 0));
    let work = || {
        while let Some(&(module, share, block)) = { modules.lock().unwrap().next() } {
            let (found, moved) = differences(&python, module, share, block);
            let mut all = all.lock().unwrap();
            all.0.extend(found);
            all.1 += moved;
        }
    };
    std::thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(work))));
    let (failed, moved) = all.into_inner().unwrap();
    assert!(failed.is_empty(), "{failed:#?}");
    assert!(moved > 2000, "only {moved} blocks went and came back");
}
