//! Tests the exit codes and messages for programs that are refused.

use crate::programs::Programs;
use crate::support::{Ended, HOST, UZRAM, end};
use crate::{WAYS, end_of, run};
use std::fs;
use std::os::unix::fs::chown;
use std::process::Command;

/// Asserts that the program is refused with an exit code and one line that contains `parts`.
fn assert_refused(ended: &Ended, code: i32, parts: &[&str]) {
    assert_eq!((ended.code, ended.out.as_str()), (Some(code), ""), "{ended:?}");
    assert_eq!(ended.err.lines().count(), 1, "{ended:?}");
    assert!(ended.err.starts_with("uzram: ") && ended.err.contains("; "), "{ended:?}");
    assert!(parts.iter().all(|part| ended.err.contains(part)), "{parts:?}: {ended:?}");
}

#[test]
fn what_can_not_be_executed_is_told_as_shells_do() {
    let programs = Programs::new();
    let missing = programs.file("missing", b"#!/no/such\n", 0o755);
    let not_allowed = programs.file("not-allowed", b"#!/bin/sh\n", 0o644);
    let damaged = programs.file("damaged", b"\x7fELF\x02\x01\x01", 0o755);
    let of_itself = programs.path().join("of-itself").to_str().unwrap().to_owned();
    programs.file("of-itself", format!("#!{of_itself}\n").as_bytes(), 0o755);
    for way in WAYS {
        for (program, code, part) in [
            ("no-such-program", 127, "PATH"),
            ("/no/such/program", 127, "No such file"),
            ("", 127, "PATH"),
            ("/etc", 126, "not a regular file"),
            (&not_allowed, 126, "Permission denied"),
            (&missing, 127, "'/no/such'"),
            (&damaged, 126, "damaged"),
            (&of_itself, 126, "interpreter"),
        ] {
            assert_refused(&end_of(way, &[program]), code, &[program, part]);
        }
    }
    // A file without execute permission is reported only if PATH has no other file with its name.
    let dirs = format!("{}:/bin:/usr/bin", programs.path().display());
    let ended = end(run(WAYS[0]).arg("not-allowed").env("PATH", &dirs));
    assert_refused(&ended, 126, &["not-allowed", "Permission denied"]);
    programs.file("true", b"", 0o644);
    assert_eq!(end(run(WAYS[0]).arg("true").env("PATH", &dirs)).code, Some(0));
    assert_eq!(end(run(WAYS[0]).arg("true").env_remove("PATH")).code, Some(0));
}

#[test]
fn scripts_are_run_by_their_interpreters() {
    let programs = Programs::new();
    let script = programs.file("script", b"#!/bin/sh -e\necho $0 $1; exit 4\n", 0o755);
    let text = programs.file("text", b"echo $0 $1; exit 4\n", 0o755);
    let of_script = programs.file("of-script", format!("#!{script}\n").as_bytes(), 0o755);
    for way in WAYS {
        for (program, says) in [(&script, &script), (&text, &text), (&of_script, &script)] {
            let ended = end_of(way, &[program, "a"]);
            assert_eq!(ended.code, Some(4), "{ended:?}");
            assert!(ended.out.starts_with(says.as_str()), "{ended:?}");
        }
    }
    // If PATH has an empty entry, a program in the working directory is found.
    let ended = end(run(WAYS[0]).arg("script").env("PATH", ":/no").current_dir(programs.path()));
    assert_eq!(ended.code, Some(4), "{ended:?}");
}

#[test]
fn programs_for_other_processors_are_named() {
    let programs = Programs::new();
    assert_eq!(end_of(WAYS[0], &[&programs.compiled("plain", &[])]).code, Some(5));
    let class_of_32_bits = (4, [1]);
    let machine_of_aarch64 = (18, [183, 0]);
    let (at, bytes) = machine_of_aarch64;
    let cases = [
        (programs.patched("aarch64", at, &bytes), "x86-64"),
        (programs.patched("32", class_of_32_bits.0, &class_of_32_bits.1), "x86-64"),
    ];
    for (program, why) in &cases {
        for way in WAYS {
            assert_refused(&end_of(way, &[program]), 1, &[program, why]);
        }
    }
    let script = programs.file("script", format!("#!{}\n", cases[0].0).as_bytes(), 0o755);
    assert_refused(&end_of(WAYS[0], &[&script]), 1, &[&script, &cases[0].0, "x86-64"]);
    // A host does not run another host.
    let host = env!("CARGO_BIN_EXE_uzram-host");
    assert_refused(&end_of(WAYS[0], &[host]), 1, &[host, "x86-64"]);
}

#[test]
fn programs_with_rights_of_their_own_are_refused() {
    let programs = Programs::new();
    let contents = fs::read(programs.compiled("plain", &[])).unwrap();
    let own = programs.file("own", &contents, 0o6755);
    assert_eq!(end_of(WAYS[0], &[&own]).code, Some(5), "its user is who runs it");
    if !rustix::process::geteuid().is_root() {
        eprintln!("left out, as only root can make a file another user's");
        return;
    }
    for (mode, word) in [(0o4755, "setuid"), (0o2755, "setgid")] {
        let other = programs.file(word, &contents, mode);
        chown(&other, Some(65534), Some(65534)).unwrap();
        fs::set_permissions(&other, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
        assert_refused(&end_of(WAYS[0], &[&other]), 1, &[&other, word]);
        // With no_new_privs, the setuid and setgid bits have no effect.
        let mut kept = Command::new("setpriv");
        kept.args(["--no-new-privs", UZRAM, "run", "--limit", "32M", "--", &other]);
        assert_eq!(end(&mut kept).code, Some(5));
    }
}

#[test]
fn a_host_that_is_none_is_refused() {
    for file in ["/bin/true", "/etc/passwd"] {
        let ended = end(run(WAYS[0]).arg("true").env("UZRAM_HOST", file));
        assert_refused(&ended, 1, &[&format!("{file}'"), "not a uzram-host", "UZRAM_HOST"]);
    }
}

#[test]
fn a_host_that_is_not_there_is_told_with_its_places() {
    let dir = tempfile::tempdir().unwrap();
    let ended = end(run(WAYS[0]).arg("true").env("UZRAM_HOST", "no/host"));
    assert_refused(&ended, 1, &["/no/host'", "UZRAM_HOST", "make build"]);
    let (bin, lib) = (dir.path().join("bin"), dir.path().join("lib/uzram"));
    fs::create_dir_all(&bin).and_then(|()| fs::create_dir_all(&lib)).unwrap();
    let command = bin.join("uzram");
    fs::copy(UZRAM, &command).unwrap();
    let installed = || {
        let mut command = Command::new(&command);
        end(command.args(["run", "--limit", "32M", "cat", "/proc/self/maps"]))
    };
    let places = ["/bin/uzram-host'", "/lib/uzram/uzram-host'"];
    assert_refused(&installed(), 1, &places);
    let host = lib.join("uzram-host");
    fs::copy(HOST, &host).unwrap();
    let ended = installed();
    assert!(ended.out.contains(host.to_str().unwrap()), "{ended:?}");
    let with_comma = dir.path().join("a,b");
    fs::copy(HOST, &with_comma).unwrap();
    let ended = end(run(WAYS[0]).arg("true").env("UZRAM_HOST", with_comma));
    assert_refused(&ended, 1, &["a,b", "a comma"]);
}

#[test]
fn wrong_use_is_refused() {
    let cases: [(&[&str], &[&str]); 12] = [
        (&[], &["<PROGRAM>"]),
        (&["--limit", "5X", "true"], &["--limit", "5X"]),
        (&["--limit", "0", "true"], &["--limit", "more than 0"]),
        (&["--limit", "0%", "true"], &["--limit", "1% to 100%"]),
        (&["--limit", "101%", "true"], &["--limit", "1% to 100%"]),
        (&["--limit", "x%", "true"], &["--limit", "1% to 100%"]),
        (&["--limit", "1M", "--block", "3K", "true"], &["--block", "4K"]),
        (&["--limit", "1M", "--block", "128K", "true"], &["--block", "64K"]),
        (&["--limit", "1M", "--algorithm", "x", "true"], &["--algorithm", "lz4"]),
        (&["--limit", "1M", "--backend", "x", "true"], &["--backend", "signal-remap"]),
        (&["--limit", "1M", "--json", "true"], &["--stats"]),
        (&["--nosuch", "true"], &["--nosuch", "uzram run --help"]),
    ];
    for (args, parts) in cases {
        assert_refused(&end_of(args, &[]), 2, parts);
    }
    // The runtime refuses a limit that is too low.
    let ended = end_of(&["--limit", "1", "--"], &["true"]);
    assert_eq!((ended.code, ended.err.lines().count()), (Some(1), 1), "{ended:?}");
}
