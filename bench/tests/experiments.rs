//! Each experiment must report figures for a small part of the input `system`, also on a busy
//! machine.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;
use std::sync::Once;

use serde_json::Value;

/// Returns the figures that `bench EXPERIMENT` prints for a few pages of the input `system`.
fn figures(experiment: &str, limit: &str, operations: &str) -> Vec<Value> {
    figures_with(&[], experiment, limit, operations)
}

/// Like `figures`, with the further arguments `more`.
fn figures_with(more: &[&str], experiment: &str, limit: &str, operations: &str) -> Vec<Value> {
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_bench"))
        .args([experiment, "--json", "--input", "system", "--limit", limit])
        .args(["--operations", operations])
        .args(more)
        .env("UZRAM_BENCH_DIR", dir.path())
        .env("UZRAM_BENCH_SETTLE", "50")
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{errors}");
    assert!(!errors.contains("bench: wrong") && !errors.contains("other bytes"), "{errors}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the value of a figure, which must exist.
fn value(figures: &[Value], name: &str) -> f64 {
    let found = figures.iter().find(|figure| figure["figure"] == name);
    let found = found.unwrap_or_else(|| panic!("no figure {name} in {figures:#?}"));
    found["value"].as_f64().unwrap_or_else(|| panic!("{found} has no value"))
}

#[test]
fn analyze() {
    // If only the tests of this crate are run, the command is not built.
    if !Path::new(env!("CARGO_BIN_EXE_bench")).with_file_name("uzram").exists() {
        return;
    }
    let figures = figures("analyze", "8M", "1");
    for what in ["lz4 1, 4 KiB", "zstd 3, 16 KiB", "zstd 3, 64 KiB"] {
        let off = value(&figures, &format!("system/{what}: forecast off what it takes"));
        // The error is large because the sample has only 2 MiB.
        assert!((0.0..50.0).contains(&off), "{off}");
    }
}

#[test]
fn removal() {
    let figures = figures("removal", "16M", "1");
    for step in ["untar", "random 97%"] {
        assert!(value(&figures, &format!("{step}/C by raw lz4")) > 0.0);
        assert!(value(&figures, &format!("{step}/overhead over C")) > 0.0);
        assert!(value(&figures, &format!("{step}/everything counted")) > 0.0);
    }
    assert!(value(&figures, "random 97%/bytes moved over bytes freed") >= 0.0);
}

#[test]
fn grow() {
    let figures = figures("grow", "8M", "500");
    for what in ["an extent given back and made", "a page committed under a limit of all memory"] {
        assert!(value(&figures, &format!("{what}, by addresses/1 TiB over 1 GiB")) > 0.0);
    }
    assert!(value(&figures, "a free and a store at the limit, by what is stored/8 MiB") > 0.0);
    assert!(value(&figures, "at the limit over away from it/8 MiB") > 0.0);
}

#[test]
fn lru() {
    let figures = figures("lru", "4M", "1");
    for rival in ["moka", "quick_cache", "moka of documents compressed by zstd"] {
        let kept = format!("sources, 4 MiB: kept over {rival}, in the same memory");
        assert!(value(&figures, &kept) > 0.0);
        assert!(
            value(&figures, &format!("sources, 1024 documents: gets over those of {rival}")) > 0.0
        );
    }
}

#[test]
fn zram() {
    let figures = figures("zram", "8M", "1");
    for what in ["overwriting with other pages by 4 KiB", "reading by 64 KiB a device just filled"]
    {
        assert!(value(&figures, &format!("system/{what}, ours over raw lz4")) > 0.0);
    }
    assert!(value(&figures, "system/filling a fresh device by 4 KiB, ours over raw lz4") > 0.0);
    assert!(value(&figures, "system/metadata per slot") > 8.0);
    assert!(value(&figures, "system/memory beyond the dense device's, over the slots' own") > 0.0);
}

#[test]
fn blocks_ratio() {
    let figures = figures("blocks-ratio", "4M", "1");
    for codec in ["zstd 3", "lz4"] {
        for block in [4, 16, 64] {
            let over = format!("system/{codec}, {block} KiB: memory over the raw codec's bytes");
            assert!(value(&figures, &over) > 1.0);
        }
    }
}

#[test]
fn fill() {
    let figures = figures("fill", "8M", "1");
    let stored = value(&figures, "system/C by raw lz4");
    assert!(stored > 0.5 && stored < 8.0, "{stored}");
    assert!(value(&figures, "system/overhead over C") > 0.0);
    assert!(value(&figures, "system/everything counted over C") > 0.0);
}

/// Each region is held by a process of its own, with each backend that the system permits.
#[test]
fn zmem() {
    let figures = figures("zmem", "4M", "1");
    assert!(value(&figures, "system/lz4, 4 KiB: memory over the raw codec's bytes") > 1.0);
    let signal = |what: &str| {
        let of_signal = |figure: &&Value| {
            let name = figure["figure"].as_str().unwrap();
            let of = name.strip_prefix("system/signal").unwrap_or_default();
            of.starts_with([',', ':']) && name.ends_with(what)
        };
        let found = figures.iter().find(of_signal);
        let found = found.unwrap_or_else(|| panic!("no figure of {what} in {figures:#?}"));
        found["value"].as_f64().unwrap_or_else(|| panic!("{found} has no value"))
    };
    assert!(signal("4 KiB blocks, in order: out, each") > 0.0);
    assert!(signal("at random: in, over a fault without a codec and decoding") > 0.0);
    assert!(signal("16 over 4 KiB: in") > 0.0);
    assert!(signal("threads at once, over one thread's rate times processors") > 0.0);
}

/// Builds the command and its host beside this program, with the same profile.
#[cfg(target_arch = "x86_64")]
fn build_the_command() {
    let dir = Path::new(env!("CARGO_BIN_EXE_bench")).parent().unwrap();
    let profile = dir.file_name().unwrap().to_str().unwrap();
    let profile = if profile == "debug" { "test" } else { profile };
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--locked", "--profile", profile]);
    cargo.args(["-p", "uzram-cli"]);
    cargo.arg("--target-dir").arg(dir.parent().unwrap());
    assert!(cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status().unwrap().success());
}

#[cfg(target_arch = "x86_64")]
fn build_the_command_once() {
    static BUILT: Once = Once::new();
    BUILT.call_once(build_the_command);
}

/// Returns figures of programs under `uzram run`.
#[cfg(target_arch = "x86_64")]
fn run_figures(experiment: &str) -> Vec<Value> {
    build_the_command_once();
    let figures = figures(experiment, "40M", "1");
    let otherwise = |figure: &&Value| {
        figure["figure"].as_str().unwrap().ends_with("runs that end otherwise than alone")
    };
    for figure in figures.iter().filter(otherwise) {
        assert_eq!(figure["value"], 0.0, "{figures:#?}");
    }
    assert!(figures.iter().any(|figure| otherwise(&figure)), "{figures:#?}");
    figures
}

/// Returns true if the test `test`, which takes minutes, is left out, and prints the reason.
#[cfg(target_arch = "x86_64")]
fn is_left_out(test: &str) -> bool {
    if !testkit::is_long() {
        println!("left out: {test} takes minutes; UZRAM_LONG=1 has it run");
    }
    !testkit::is_long()
}

#[test]
#[cfg(target_arch = "x86_64")]
fn run_heap() {
    if is_left_out("run_heap") {
        return;
    }
    let figures = run_figures("run-heap");
    for limit in ["30 MB, in blocks of 16 KiB", "18 MB, zstd (level 1) in blocks of 16 KiB"] {
        let figure = |what: &str| value(&figures, &format!("heap at {limit}: {what}"));
        assert!(figure("wall clock with every right") > 0.0);
        assert!(figure("processor time with none") > 0.0);
        assert!(figure("most memory over the limit") > 0.5);
        assert!(figure("evictions, signal") > 1000.0, "{figures:#?}");
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn run_jobs() {
    if is_left_out("run_jobs") {
        return;
    }
    let figures = run_figures("run-jobs");
    let evicted = figures.iter().filter(|figure| {
        let name = figure["figure"].as_str().unwrap();
        name.ends_with("evictions, signal") && figure["value"].as_f64().unwrap() > 0.0
    });
    // At least sort, SQLite and xz must evict. Other tests require these programs, too.
    assert!(evicted.count() >= 3, "{figures:#?}");
}

#[test]
#[cfg(target_arch = "x86_64")]
fn run_overhead() {
    if is_left_out("run_overhead") {
        return;
    }
    let figures = run_figures("run-overhead");
    for name in ["heap", "sort", "dd bs=1"] {
        assert_eq!(value(&figures, &format!("{name}, with room: evictions")), 0.0);
        assert!(value(&figures, &format!("{name}, with room: wall clock over alone")) > 0.0);
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn run_programs() {
    if is_left_out("run_programs") {
        return;
    }
    build_the_command_once();
    let names = ["sort", "gzip", "numpy"];
    let more: Vec<&str> = names.iter().flat_map(|name| ["--program", name]).collect();
    let figures = figures_with(&more, "run-programs", "40M", "1");
    for name in names {
        assert_eq!(value(&figures, &format!("{name}: same output")), 1.0);
        assert!(value(&figures, &format!("{name}: wall clock over native")) > 0.0);
    }
    assert!(value(&figures, "numpy: limit") > value(&figures, "gzip: limit"));
    assert_eq!(value(&figures, "programs with the same output"), names.len() as f64);
    assert_eq!(value(&figures, "programs that were skipped"), 0.0);
}

/// The fastest kind of page depends on the machine, but all kinds must have figures.
#[test]
fn runs() {
    let figures = figures("runs", "4M", "1");
    assert_eq!(figures.len(), 7);
    assert!(figures.iter().all(|figure| figure["rival_value"].as_f64().unwrap() > 0.0));
    assert!(value(&figures, "slowest kind over fastest") >= 1.0);
}
