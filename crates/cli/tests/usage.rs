//! Tests the help, the version, and wrong command lines. A wrong command line causes exit code 2
//! and one line that contains the wrong argument.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use std::os::unix::ffi::OsStrExt;
use std::process::Command;
use support::{UZRAM, end, fill, write_all};

#[test]
fn wrong_use_is_told_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    write_all(dir.path(), &[("file", vec![1; 5000])]);
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let file = path("file");
    let cases: [(&[&str], &[&str]); 29] = [
        (&[""], &["<PATH>"]),
        (&[], &["<PATH>"]),
        (&["--algorithm", "nosuch", &file], &["nosuch", "lz4", "zstd"]),
        (&["--algorithm", "deflate", &file], &["deflate", "lz4", "zstd"]),
        (&["--level", "0", &file], &["--level", "lz4", "1 to"]),
        (&["--algorithm", "zstd", "--level", "23", &file], &["23", "zstd", "to 22"]),
        (&["--level", "99999999999", &file], &["--level"]),
        (&["--threads", "0", &file], &["--threads", "1 to"]),
        (&["--mem-limit", "5X", &file], &["5X", "--mem-limit"]),
        (&["--mem-limit", "-1", &file], &["-1"]),
        (&["--mem-limit", "16777216T", &file], &["too large"]),
        (&["--input-limit", "4095", &file], &["--input-limit", "4096"]),
        (&["--input-limit", "1.5G", &file], &["1.5G"]),
        (&["--nosuch", &file], &["--nosuch", "uzram fill --help"]),
        (&["--chain", "8", &file], &["--chain", "--geometry kernel"]),
        (
            &["--no-merge", "--rule", "least-waste", &file],
            &["--rule, --no-merge", "--geometry kernel"],
        ),
        (&["--geometry", "kernel", "--chain", "0", &file], &["--chain", "1 to 256"]),
        (&["--geometry", "kernel", "--chain", "257", &file], &["--chain", "1 to 256"]),
        (&["--geometry", "both", &file], &["both", "kernel, native"]),
        (&["--compaction", "on", &file], &["--compaction", "auto, manual, off"]),
        (&["--order", "1", &file], &["--order"]),
        (&["--set", "dump", &file], &["--set", "NAME=VALUE"]),
        (&["--set", "nosuch=1", &file], &["nosuch", "uzram attributes"]),
        (&["--set", "mm_stat=1", &file], &["mm_stat", "only be shown"]),
        (&["--set", "disksize=1G", &file], &["disksize", "--input-limit"]),
        (&["--set", "idle=all", &file], &["--set: attribute idle", "disksize"]),
        (&["--set", "fork=5", &file], &["--set: attribute fork: invalid value '5'", "copy, leave"]),
        (&["--show", "nosuch", &file], &["nosuch", "uzram attributes"]),
        (&["--show", "compact", &file], &["compact", "only be set"]),
    ];
    for (args, parts) in cases {
        let ended = end(fill().args(args));
        assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{args:?}: {ended:?}");
        assert_eq!(ended.err.lines().count(), 1, "{args:?}: {ended:?}");
        assert!(ended.err.starts_with("uzram: "), "{args:?}: {ended:?}");
        assert!(parts.iter().all(|part| ended.err.contains(part)), "{args:?}: {ended:?}");
    }
}

/// If the command line is valid, but a file in the command line does not exist or is unsuitable,
/// the exit code is 1.
#[test]
fn what_is_not_there_is_no_wrong_use() {
    let dir = tempfile::tempdir().unwrap();
    write_all(dir.path(), &[("file", vec![1; 5000]), ("none/sub/.keep", Vec::new())]);
    std::fs::remove_file(dir.path().join("none/sub/.keep")).unwrap();
    let served = |rest: &'static [&'static str]| {
        [&["serve", "--nbd", "unix:n", "--control", "c"][..], rest].concat()
    };
    let cases: [(Vec<&str>, &[&str]); 18] = [
        (vec!["fill", "no\nsuch"], &["no\\nsuch", "give a file"]),
        (vec!["fill", "file", "no\nsuch"], &["no\\nsuch"]),
        (vec!["fill", "none"], &["none", "regular file"]),
        (vec!["fill", "/dev/null"], &["/dev/null", "regular file"]),
        (vec!["fill", "--save", "no/x", "file"], &["no/x", "No such file"]),
        (vec!["fill", "--backing", "no/x", "file"], &["no/x", "No such file"]),
        (vec!["fill", "--set", "algorithm_params=dict=no/x", "file"], &["no/x", "No such file"]),
        (vec!["train-dictionary", "nosuch", "-o", "x"], &["nosuch", "give a file"]),
        (vec!["train-dictionary", "file", "-o", "no/x"], &["no/x", "No such file"]),
        (vec!["train-dictionary", "file", "-o", "x"], &["too few"]),
        (vec!["restore", "nosuch"], &["nosuch", "No such file"]),
        (vec!["restore", "file", "-o", "no/x"], &["no/x", "No such file"]),
        (vec!["restore", "--served", "--control", "c", "nosuch"], &["'c'", "No such file"]),
        (vec!["save", "--control", "c", "x"], &["'c'", "No such file"]),
        (served(&["--size", "1M", "--save-on-exit", "no/x"]), &["no/x", "No such file"]),
        (served(&["--size", "1M", "--backing", "no/x"]), &["no/x", "No such file"]),
        (
            served(&["--size", "1M", "--set", "algorithm_params=dict=no/x"]),
            &["no/x", "No such file"],
        ),
        (served(&["--restore", "nosuch"]), &["nosuch", "No such file"]),
    ];
    for (args, parts) in cases {
        let ended = end(Command::new(UZRAM).args(&args).current_dir(dir.path()));
        assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""), "{args:?}: {ended:?}");
        assert_eq!(ended.err.lines().count(), 1, "{args:?}: {ended:?}");
        assert!(parts.iter().all(|part| ended.err.contains(part)), "{args:?}: {ended:?}");
    }
}

#[test]
fn a_path_that_is_no_text_is_refused_with_words() {
    let path = std::ffi::OsStr::from_bytes(b"/tmp/\xff");
    for line in [&["save"][..], &["restore", "--served"]] {
        let ended = end(Command::new(UZRAM).args(line).arg(path));
        assert!(ended.code == Some(2) && ended.err.contains("not valid UTF-8"), "{ended:?}");
        assert!(!ended.err.contains("can't create a file"), "{ended:?}");
    }
}

#[test]
fn help_that_can_not_be_written_is_a_failure() {
    for what in ["--help", "--version"] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let ended = Command::new(UZRAM).arg(what).stdout(full).output().unwrap();
        let told = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.code() == Some(1) && told.contains("standard output"), "{ended:?}");
    }
}

#[test]
fn help_and_version_read_well() {
    for (args, parts) in [
        (&["--help"][..], &["Usage: uzram", "fill  ", "classes  ", "train-dictionary  "][..]),
        (
            &["fill", "--help"],
            &[
                "Usage: uzram fill",
                "<PATH>",
                "--algorithm <NAME>",
                "--level <N>",
                "--threads <N>",
                "--mem-limit <SIZE>",
                "--input-limit <SIZE>",
                "--geometry <KIND>",
                "[default: native]",
                "--chain <N>",
                "--rule <RULE>",
                "--no-merge",
                "--compaction <WHEN>",
                "--set <NAME=VALUE>",
                "--show <NAME>",
                "--classes",
                "--json",
                "Exit codes",
                "Examples",
            ],
        ),
        (
            &["classes", "--help"],
            &[
                "Usage: uzram classes",
                "the table is that of the current kernel",
                "--geometry <KIND>",
                "[default: kernel]",
                "--chain <N>",
                "--rule <RULE>",
                "--no-merge",
                "--order <K>",
                "--json",
                "Examples",
            ],
        ),
        (
            &["train-dictionary", "--help"],
            &[
                "Usage: uzram train-dictionary",
                "--output <FILE>",
                "--size <SIZE>",
                "[default: 64K]",
                "--block <SIZE>",
                "[default: 4K]",
                "an existing file is",
                "does not pay",
                "--json",
                "Exit codes",
                "Examples",
            ],
        ),
        (
            &["run", "--help"],
            &["Usage: uzram run", "--limit <SIZE|PERCENT%>", "[default: 85%", "126 ", "127 "],
        ),
        (&["--version"], &[concat!("uzram ", env!("CARGO_PKG_VERSION"), "\n")]),
    ] {
        let ended = end(Command::new(UZRAM).args(args));
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
        assert!(parts.iter().all(|part| ended.out.contains(part)), "{}", ended.out);
        assert!(!ended.out.contains(|c: char| c.is_control() && c != '\n'), "{}", ended.out);
    }
    let asking = ["attr", "stat", "compact", "idle", "recompress", "writeback", "save", "cancel"];
    for command in asking {
        let ended = end(Command::new(UZRAM).args([command, "--help"]));
        assert!(ended.out.contains("Exit codes"), "{command}: {}", ended.out);
    }
    assert_eq!(end(&mut Command::new(UZRAM)).code, Some(2));
    let ended = end(Command::new(UZRAM).arg("nosuch"));
    assert_eq!(ended.code, Some(2));
    assert!(ended.err.contains("'nosuch'; see 'uzram --help'"), "{ended:?}");
    let ended = end(Command::new(UZRAM).args(["attr", "comp_algorithm=zstd"]));
    assert_eq!(ended.code, Some(2));
    assert!(ended.err.contains("'comp_algorithm zstd'"), "{ended:?}");
}
