//! Tests `uzram train-dictionary`: the file that it writes, its output, and wrong command lines.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use support::{Ended, PAGE, UZRAM, end, noise, text, write_all};

/// Creates a directory with much text in its subdirectory `in`. The command writes its output
/// beside `in`.
fn tree() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    write_all(
        dir.path(),
        &[
            ("in/text", text(1, 300 * PAGE)),
            ("in/sub/more", text(2, 99 * PAGE + 7)),
            ("in/same", vec![7; 20 * PAGE]),
            ("in/noise", noise(3, 20 * PAGE)),
        ],
    );
    dir
}

fn train(dir: &Path, args: &[&str]) -> Ended {
    let mut command = Command::new(UZRAM);
    command.current_dir(dir).stdin(Stdio::null());
    end(command.arg("train-dictionary").args(args))
}

/// Returns the names in a directory, without the contents of subdirectories.
fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_dictionary_is_written_and_tried() {
    let dir = tree();
    let args = ["--size", "16K", "--json", "-o", "out", "in"];
    let ended = train(dir.path(), &args);
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    let json = ended.json();
    let number = |key: &str| json[key].as_u64().unwrap();
    assert_eq!((number("block"), number("files"), number("skipped_files")), (4096, 4, 0));
    assert_eq!(number("blocks_trained") + number("blocks_held_out"), 420, "{json}");
    assert!((52..=53).contains(&number("blocks_held_out")), "{json}");
    let written = fs::read(dir.path().join("out")).unwrap();
    assert_eq!(number("dictionary_bytes"), written.len() as u64);
    assert!((1 << 10..=16 << 10).contains(&written.len()), "{}", written.len());

    let codecs = json["codecs"].as_array().unwrap();
    let algorithms: Vec<_> =
        codecs.iter().map(|codec| codec["algorithm"].as_str().unwrap()).collect();
    assert_eq!(algorithms, ["lz4", "lz4hc", "zstd"]);
    for codec in codecs {
        for side in ["with", "without"] {
            let figure = |key: &str| codec[side][key].as_f64().unwrap();
            let ratio = (number("blocks_held_out") * 4096) as f64 / figure("stored");
            assert!((figure("ratio") - ratio).abs() < 1e-9, "{codec}");
            assert!(figure("compress_mb_s") > 0.0 && figure("decompress_mb_s") > 0.0, "{codec}");
        }
        assert!(codec["dictionary_memory"].as_u64().unwrap() > number("dictionary_bytes"));
    }
    // The texts share a vocabulary. The dictionary makes the vocabulary available to lz4 from the
    // first page on.
    assert!(codecs[0]["with"]["stored"].as_u64() < codecs[0]["without"]["stored"].as_u64());

    // The same input gives the same dictionary. The new dictionary replaces the old file, and no
    // other file remains.
    fs::write(dir.path().join("out"), "old").unwrap();
    assert_eq!(train(dir.path(), &args).code, Some(0));
    assert!(fs::read(dir.path().join("out")).unwrap() == written);
    assert_eq!(names(dir.path()), ["in", "out"]);
}

#[test]
fn the_table_says_what_it_gives() {
    let dir = tree();
    let ended = train(dir.path(), &["--size=4K", "--block", "16K", "-o", "out", "in"]);
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    for part in
        ["'out': ", "for blocks of 16384 bytes", "4 files", "lz4hc         9", "without", "%"]
    {
        assert!(ended.out.contains(part), "{part:?} is missing:\n{}", ended.out);
    }
    assert!(ended.out.lines().all(|line| !line.ends_with(' ')), "{}", ended.out);
    // Random files share no data, so a dictionary does not improve compression. The table shows
    // this.
    let ended = train(dir.path(), &["--size=1K", "-o", "out", "in/noise"]);
    for algorithm in ["lz4", "lz4hc", "zstd"] {
        let verdict = format!("with {algorithm} it does not pay: ");
        assert!(ended.out.contains(&verdict), "{ended:?}");
    }
}

/// Devices with and without the dictionary use the memory that was forecast.
#[test]
fn devices_take_what_was_said() {
    let dir = tempfile::tempdir().unwrap();
    write_all(dir.path(), &[("few", records(4, 1 << 20)), ("many", records(5, 24 << 20))]);
    let mut verdicts = Vec::new();
    for (input, block) in [("few", "4K"), ("many", "4K"), ("many", "64K")] {
        let args = ["--size", "64K", "--block", block, "--json", "-o", "dict", input];
        let ended = train(dir.path(), &args);
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
        let json = ended.json();
        let threads = std::thread::available_parallelism().unwrap().to_string();
        for said in json["codecs"].as_array().unwrap() {
            let memory = |side: &str| said[side]["memory"].as_u64().unwrap();
            let taken = |more: &[&str]| {
                let mut fill = Command::new(UZRAM);
                fill.current_dir(dir.path()).args(["fill", "--json", "--threads", &threads]);
                fill.args(["--algorithm", said["algorithm"].as_str().unwrap(), "--block", block]);
                end(fill.args(more).arg(input)).json()["mem_total"].as_u64().unwrap()
            };
            let (without, with) = (taken(&[]), taken(&["--set", "algorithm_params=dict=dict"]));
            for (taken, key) in [(without, "without"), (with, "with")] {
                let off = memory(key).abs_diff(taken);
                println!("{input} {block} {} {key}: {taken}, off {off}", said["algorithm"]);
                // A small device uses more memory than forecast, because it has retained pages and
                // partly filled pages.
                let most = taken / 20 + (128 << 10);
                assert!(off < most, "{input} {block} {key}: {taken}\n{said}");
            }
            let (pays, all) = (with < without, json["data_bytes"].as_u64().unwrap());
            assert!(with.abs_diff(without) > without / 100, "{with} is next to {without}: {said}");
            assert_eq!(memory("with") < memory("without"), pays, "{with}: {said}");
            let from = said["pays_from"].as_u64();
            assert_eq!(from.is_some_and(|from| from < all), pays, "{said}");
            verdicts.push(pays);
        }
    }
    assert!(verdicts.contains(&true) && verdicts.contains(&false), "{verdicts:?}");
}

/// Returns `bytes` bytes of records. The fields of all records have the same names.
fn records(nth: u64, bytes: usize) -> Vec<u8> {
    let noise = noise(nth, bytes / 8);
    let record = |four: &[u8]| {
        let number = u32::from_le_bytes(four.try_into().unwrap());
        format!("{{\"customer\": {}, \"state\": \"paid\", \"amount\": {number}}}\n", number % 9999)
    };
    let mut records: Vec<u8> =
        noise.chunks_exact(4).flat_map(|four| record(four).into_bytes()).take(bytes).collect();
    records.resize(bytes, b'.');
    records
}

#[test]
fn failures_leave_what_was_there() {
    let dir = tree();
    fs::write(dir.path().join("out"), "old").unwrap();
    let cases: [(&[&str], i32, &[&str]); 10] = [
        (&["in"], 2, &["--output <FILE>"]),
        (&["-o", "out"], 2, &["<PATH>"]),
        (&["-o", "out", "nosuch"], 1, &["nosuch", "give a file"]),
        (&["-o", "out", "in/same"], 1, &["0 blocks of 4096", "takes 24", "--size"]),
        (&["-o", "out", "--size", "2M", "in"], 1, &["420 blocks", "2097152", "takes 592"]),
        (&["-o", "out", "--size", "255", "in"], 2, &["--size", "256 bytes to 8M"]),
        (&["-o", "out", "--block", "5K", "in"], 2, &["--block", "4K, 8K"]),
        (&["-o", "no/out", "in"], 1, &["'no/out'", "No such file", "give another path"]),
        (&["-o", "in", "in"], 1, &["'in'", "not a regular file"]),
        (&["-o", "/dev/null", "in"], 1, &["/dev/null", "not a regular file"]),
    ];
    for (args, code, parts) in cases {
        let ended = train(dir.path(), args);
        assert_eq!((ended.code, ended.out.as_str()), (Some(code), ""), "{args:?}: {ended:?}");
        assert_eq!(ended.err.lines().count(), 1, "{args:?}: {ended:?}");
        assert!(parts.iter().all(|part| ended.err.contains(part)), "{args:?}: {ended:?}");
    }
    assert_eq!(fs::read(dir.path().join("out")).unwrap(), b"old");
    assert_eq!(names(dir.path()), ["in", "out"]);
}
