//! Tests the reported numbers and the output formats of `uzram fill` on small trees of files.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use serde_json::json;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use support::{Ended, PAGE, UZRAM, end, fill, noise, text, write_all};
use zcomp::Params;

/// Writes files of all kinds, with 3 same-filled and 5 incompressible pages. Returns the files'
/// directory, names and contents.
fn tree() -> (tempfile::TempDir, Vec<(&'static str, Vec<u8>)>) {
    let dir = tempfile::tempdir().unwrap();
    let files = vec![
        ("zero", vec![0; 2 * PAGE]),
        ("sub/pattern", b"abcdefgh".repeat(PAGE / 8)),
        ("sub/deep/text", text(1, 10_000)),
        ("noise", noise(2, 5 * PAGE)),
        ("odd", vec![7]),
        ("edge", text(3, PAGE + 1)),
        ("empty", Vec::new()),
    ];
    write_all(dir.path(), &files);
    (dir, files)
}

/// Returns the sum of min(page size, compressed length) over all pages that are not same-filled.
fn codec_size(algorithm: &str, params: Params, files: &[(&str, Vec<u8>)]) -> u64 {
    let codec = zcomp::by_name(algorithm).unwrap();
    let mut stream = codec.prepare(&params, PAGE).unwrap().stream().unwrap();
    let mut sum = 0;
    for piece in files.iter().flat_map(|(_, data)| data.chunks(PAGE)) {
        let mut page = piece.to_vec();
        page.resize(PAGE, 0);
        if page.chunks(8).any(|word| word != &page[..8]) {
            let len = stream.compress(&page, &mut [0; 2 * PAGE]).unwrap();
            sum += len.map_or(PAGE, |len| len.min(PAGE)) as u64;
        }
    }
    sum
}

#[test]
fn figures_are_right_for_known_input() {
    let (dir, files) = tree();
    let pages: u64 = files.iter().map(|(_, data)| data.len().div_ceil(PAGE) as u64).sum();
    for (algorithm, level, threads) in
        [("lz4", 1, "1"), ("lz4hc", 9, "2"), ("zstd", 3, "2"), ("zstd", -5, "3")]
    {
        let level_text = level.to_string();
        let options = ["--json", "--algorithm", algorithm, "--level", &level_text];
        let ended = end(fill()
            .args(options)
            .args(["--threads", threads, "--mem-limit", "0"])
            .arg(dir.path()));
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
        let json = ended.json();
        let number = |key: &str| json[key].as_u64().unwrap_or_else(|| panic!("{key}: {json}"));
        assert_eq!(number("orig_data_size"), pages * PAGE as u64);
        assert_eq!((number("pages"), number("files")), (pages, 7));
        assert_eq!((number("same_pages"), number("huge_pages")), (3, 5), "{json}");
        let params = Params { level: Some(level), ..Params::default() };
        let codec_size = codec_size(algorithm, params, &files);
        assert_eq!(number("codec_size"), codec_size);
        assert!(number("compr_data_size") >= codec_size, "{json}");
        assert!(number("mem_used_total") >= codec_size, "{json}");
        assert!(number("mem_total") > number("mem_used_total"), "{json}");
        assert!(number("rss_bytes") > 1 << 16, "{json}");
        assert!(number("page_table_bytes") > 0 && json["rss_growth_bytes"].is_i64(), "{json}");
        for key in ["mismatches", "skipped_files", "changed_files", "mem_limit"] {
            assert_eq!(number(key), 0, "{key}");
        }
        for key in ["write_mb_s", "read_mb_s", "codec_compress_mb_s", "codec_decompress_mb_s"] {
            assert!(json[key].as_f64().unwrap() > 0.0, "{key}: {json}");
        }
        let over = |used: &str| number(used) as f64 / codec_size as f64 - 1.0;
        assert!((json["overhead"].as_f64().unwrap() - over("mem_used_total")).abs() < 1e-9);
        assert!((json["overhead_all"].as_f64().unwrap() - over("mem_total")).abs() < 1e-9);
        assert_eq!(json["algorithm"], algorithm);
        assert_eq!(json["level"], level);
        let mm_stat: Vec<&str> = json["mm_stat"].as_str().unwrap().split_whitespace().collect();
        assert_eq!(mm_stat.len(), 9);
        assert_eq!(mm_stat[0], number("orig_data_size").to_string());
    }
}

#[test]
fn the_table_is_plain_text_when_piped() {
    let (dir, _) = tree();
    let ended = end(fill().arg("--classes").arg(dir.path()));
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    assert!(!ended.out.contains(|c: char| c.is_control() && c != '\n'), "{}", ended.out);
    for part in
        ["mem_used", "mem_total", "resident", "ratio", "overhead", "same-filled", "huge", "MB/s"]
    {
        assert!(ended.out.contains(part), "{part} is missing:\n{}", ended.out);
    }
    let mm_stat = ended.out.lines().find_map(|line| line.strip_prefix("mm_stat")).unwrap();
    assert_eq!(mm_stat.split_whitespace().count(), 9);
    let head = ended.out.lines().find(|line| line.trim_start().starts_with("class")).unwrap();
    for column in
        ["size", "10%", "99%", "100%", "obj_allocated", "obj_used", "pages_used", "freeable"]
    {
        assert!(head.contains(column), "{column} is missing: {head}");
    }
    let plain = end(fill().arg(dir.path()));
    assert!(!plain.out.contains("obj_used"));
}

/// Returns the number, size and pages of each class in the output of `uzram fill --classes`.
fn rows_of(classes: &str) -> Vec<[u64; 3]> {
    let mut lines = classes.lines();
    let head = lines.next().unwrap();
    let at = |name| head.split_whitespace().position(|column| column == name).unwrap();
    let columns = ["class", "size", "pages_per_zspage"].map(at);
    let rows = lines.take_while(|line| !line.is_empty());
    rows.map(|row| {
        let cells: Vec<u64> = row.split_whitespace().map(|cell| cell.parse().unwrap()).collect();
        columns.map(|column| cells[column])
    })
    .collect()
}

#[test]
fn a_geometry_is_used_and_named() {
    let (dir, _) = tree();
    for (args, names) in [
        (&[][..], json!(["native", null, null, null])),
        (&["--geometry", "kernel"], json!(["kernel", 8, "least-waste", true])),
        (
            &["--geometry", "kernel", "--chain", "16", "--rule", "used-percent", "--no-merge"],
            json!(["kernel", 16, "used-percent", false]),
        ),
    ] {
        let ended = end(fill().args(["--json", "--classes"]).args(args).arg(dir.path()));
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
        let json = ended.json();
        let told = ["geometry", "chain", "rule", "merge"].map(|key| &json[key]);
        assert_eq!(json!(told), names);
        assert_eq!((&json["mismatches"], &json["pages_compared"]), (&0.into(), &json["pages"]));
        assert_eq!((&json["same_pages"], &json["huge_pages"]), (&3.into(), &5.into()), "{json}");
        // The device uses the classes that `uzram classes` prints.
        let geometry: &[&str] = if args.is_empty() { &["--geometry", "native"] } else { args };
        let listing = end(Command::new(UZRAM).args(["classes", "--json"]).args(geometry)).json();
        let rows = listing["classes"].as_array().unwrap().iter();
        let keys = ["index", "size", "pages_per_zspage"];
        let expected: Vec<_> = rows.map(|row| keys.map(|key| row[key].as_u64().unwrap())).collect();
        assert_eq!(rows_of(json["classes"].as_str().unwrap()), expected, "{args:?}");
    }
    let ended = end(fill().args(["--geometry", "kernel"]).arg(dir.path()));
    let line =
        "blocks of 4096 bytes, kernel geometry, chain 8, least-waste, merged, compaction auto\n";
    assert!(ended.out.contains(line), "{}", ended.out);
}

#[test]
fn compaction_is_named_and_leaves_the_columns_as_they_are() {
    let (dir, _) = tree();
    for mode in ["auto", "manual", "off"] {
        let ended = end(fill().args(["--json", "--compaction", mode]).arg(dir.path()));
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
        let json = ended.json();
        assert_eq!((&json["compaction"], &json["mismatches"]), (&mode.into(), &0.into()));
        let mm_stat: Vec<&str> = json["mm_stat"].as_str().unwrap().split_whitespace().collect();
        assert_eq!((mm_stat.len(), mm_stat[5], mm_stat[7]), (9, "3", "5"), "{json}");
        // No object was freed, so no object could be moved, and pages_compacted is 0.
        assert_eq!(mm_stat[6], "0", "{json}");
    }
}

#[test]
fn the_input_limit_cuts_at_a_page() {
    let (dir, _) = tree();
    let ended = end(fill().args(["--json", "--input-limit", "20479"]).arg(dir.path()));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.json()["orig_data_size"], 4 * PAGE);
    assert_eq!(ended.json()["mismatches"], 0);
}

#[test]
fn nothing_but_empty_files_is_no_error() {
    let dir = tempfile::tempdir().unwrap();
    write_all(dir.path(), &[("empty", Vec::new())]);
    let ended = end(fill().arg("--json").arg(dir.path()));
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    assert_eq!((&ended.json()["orig_data_size"], &ended.json()["files"]), (&0.into(), &1.into()));
    assert!(ended.json()["ratio"].is_null());
}

#[test]
fn what_is_no_regular_file_is_passed_by() {
    let (dir, _) = tree();
    symlink("nowhere", dir.path().join("dangling")).unwrap();
    symlink("noise", dir.path().join("link")).unwrap();
    symlink(".", dir.path().join("sub/loop")).unwrap();
    let fifo = dir.path().join("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    if !made.is_ok_and(|status| status.success()) {
        eprintln!("what_is_no_regular_file_is_passed_by: no FIFO, mkfifo (coreutils) is missing");
    }
    let ended = end(fill().arg("--json").arg(dir.path()).arg("/dev/null"));
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    assert_eq!(ended.json()["files"], 7);
    let link = end(fill().arg("--json").arg(dir.path().join("link")));
    assert_eq!(link.json()["orig_data_size"], 5 * PAGE);
}

#[test]
fn unreadable_files_are_skipped_and_named() {
    const NAME: &str = "unreadable_files_are_skipped_and_named";
    const NOBODY: u32 = 65534;
    let (dir, _) = tree();
    write_all(dir.path(), &[("secret\n", noise(9, 2 * PAGE)), ("locked/in", vec![1])]);
    let mode = |path: &str, mode| {
        fs::set_permissions(dir.path().join(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    mode("", 0o755);
    mode("secret\n", 0o000);
    mode("locked", 0o000);
    // Root can read every file, so another user runs the command.
    let is_root = fs::File::open(dir.path().join("secret\n")).is_ok();
    let ask = |path: &Path| {
        let mut command = fill();
        command.arg("--json").arg(path);
        if is_root {
            command.uid(NOBODY).gid(NOBODY).current_dir("/");
        }
        command.output()
    };
    let output = ask(dir.path());
    mode("locked", 0o755);
    let ended: Ended = match output {
        Ok(output) => output.into(),
        Err(error) => {
            eprintln!("{NAME}: skipped, nobody may not run the binary: {error}");
            return;
        }
    };
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let json = ended.json();
    assert_eq!((&json["skipped_files"], &json["mismatches"]), (&2.into(), &0.into()), "{json}");
    assert_eq!(json["orig_data_size"], 14 * PAGE);
    let lines: Vec<&str> = ended.err.lines().collect();
    assert_eq!(lines.len(), 2, "{ended:?}");
    assert!(lines[0].starts_with("uzram: warning: ") && lines[0].contains("locked"), "{ended:?}");
    assert!(lines[1].contains("secret\\n") && lines[1].contains("denied"), "{ended:?}");
    // If the only input is unreadable, the command reports an error instead of a warning.
    let ended = Ended::from(ask(&dir.path().join("secret\n")).unwrap());
    assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""), "{ended:?}");
    assert!(ended.err.contains("secret\\n") && ended.err.contains("denied"), "{ended:?}");
}

#[test]
fn blocks_are_compressed_as_one() {
    let dir = tempfile::tempdir().unwrap();
    let files = [("text", text(4, 40 * PAGE)), ("noise", noise(5, 17 * PAGE)), ("odd", vec![7])];
    write_all(dir.path(), &files);
    let sizes = ["4K", "16K", "64K"].map(|block| {
        let ended = end(fill()
            .args(["--json", "--algorithm", "zstd", "--block", block, "--show", "block_stat"])
            .arg(dir.path()));
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
        let json = ended.json();
        assert_eq!((&json["mismatches"], &json["pages_compared"]), (&json!(0), &json!(58)));
        assert_eq!(
            json["block_size"],
            json!(block.trim_end_matches('K').parse::<u64>().unwrap() << 10)
        );
        let lines = json["attributes"]["block_stat"].as_str().unwrap().lines().count();
        assert_eq!(lines, if block == "4K" { 1 } else { 2 });
        ["codec_size", "compr_data_size"].map(|key| json[key].as_u64().unwrap())
    });
    assert!(sizes.is_sorted_by(|a, b| a[0] > b[0] && a[1] > b[1]), "{sizes:?}");
    for block in ["5K", "128K", "0"] {
        let ended = end(fill().args(["--block", block]).arg(dir.path()));
        assert_eq!(ended.code, Some(2));
        assert!(ended.err.contains("--block") && ended.err.contains("64K"), "{}", ended.err);
    }
}
