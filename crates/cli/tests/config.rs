//! Tests the configuration file. The server reads or refuses any file, pipe or value in bounded
//! time. Error messages have a bounded length.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::{Ended, Server, UZRAM, end, serve_unsized};

/// The maximum size of the file in bytes.
const BYTES_MAX: usize = 1 << 20;

/// The maximum length in bytes of an error message. The message contains a path, part of a value,
/// and a fixed text.
const ERROR_MAX: usize = 700;

fn serve_of(dir: &Path, config: &str) -> Command {
    let mut command = serve_unsized(dir);
    command.args(["--nbd", "unix:nbd.sock", "--config", config]);
    command
}

fn refused(dir: &Path, config: &str) -> Ended {
    let ended = end(&mut serve_of(dir, config));
    assert_eq!((ended.code, ended.err.lines().count()), (Some(1), 1), "{ended:.400?}");
    assert!(ended.err.len() < ERROR_MAX, "{} bytes: {ended:.400?}", ended.err.len());
    ended
}

#[test]
fn what_is_no_file_is_refused_and_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    assert!(Command::new("mkfifo").arg(path("fifo")).status().unwrap().success());
    let _socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
    fs::create_dir(path("dir")).unwrap();
    let begun = Instant::now();
    for (config, part) in [
        ("fifo", "no program writes to"),
        ("socket", "neither a regular file nor a pipe"),
        ("dir", "neither a regular file nor a pipe"),
        ("/dev/zero", "neither a regular file nor a pipe"),
        ("/dev/null", "neither a regular file nor a pipe"),
        ("nosuch", "No such file"),
    ] {
        let ended = refused(dir.path(), config);
        assert!(ended.err.contains(part), "{config}: {ended:?}");
    }
    assert!(begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());
}

#[test]
fn a_pipe_is_read_to_its_end_and_not_for_ever() {
    let dir = tempfile::tempdir().unwrap();
    let line = |line: &str| {
        let mut command = Command::new("bash");
        let rest = "--nbd unix:nbd.sock --control control.sock --config";
        command.args(["-c", &format!("exec {UZRAM} serve {rest} {line}")]);
        command.current_dir(dir.path()).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    for whole in [
        "<(sleep 0.3; echo '[a]'; sleep 0.3; echo size = 1M)",
        "/dev/stdin < <(printf 'size = 1M\\n')",
    ] {
        let own = tempfile::tempdir().unwrap();
        let mut server = Server::announced(line(whole).spawn().unwrap(), own);
        assert!(server.announcement.starts_with("serving 1.0 MiB"), "{}", server.announcement);
        server.signal("TERM");
        assert_eq!(server.ended().0, Some(0));
    }
    let ended = end(&mut line("<(echo size = 1M; exec sleep 30)"));
    assert!(ended.code == Some(1) && ended.err.contains("does not end within 10 s"), "{ended:?}");
    let ended = end(&mut line("<(exec yes)"));
    assert!(ended.code == Some(1) && ended.err.contains("more than 1 MiB"), "{ended:?}");
}

#[test]
fn a_file_has_a_bound() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("f");
    let of_bytes = |bytes: usize| {
        let text = "size = 1M\n# ".to_owned();
        text.clone() + &"x".repeat(bytes - text.len())
    };
    fs::write(&file, of_bytes(BYTES_MAX)).unwrap();
    let own = tempfile::tempdir().unwrap();
    let mut server = Server::announced(serve_of(dir.path(), "f").spawn().unwrap(), own);
    server.signal("TERM");
    assert_eq!(server.ended().0, Some(0));
    fs::write(&file, of_bytes(BYTES_MAX + 1)).unwrap();
    let ended = refused(dir.path(), "f");
    assert!(ended.err.contains("more than 1 MiB"), "{ended:?}");
    // The server does not read the file beyond the maximum size.
    fs::File::options().write(true).open(&file).unwrap().set_len(1 << 40).unwrap();
    let begun = Instant::now();
    assert!(refused(dir.path(), "f").err.contains("more than 1 MiB"));
    assert!(begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());
}

#[test]
fn zero_bytes_and_long_names_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("f");
    for (text, part) in [
        ("[a]\nsize = 1M\nexport = a\0b\n".to_owned(), "line 3 has a zero byte"),
        ("size = 1M\nsave-on-exit = a\0b\n".to_owned(), "line 2 has a zero byte"),
        (format!("size = 1M\nexport = {}\n", "x".repeat(4097)), "at most 4096 bytes"),
    ] {
        fs::write(&file, text).unwrap();
        let ended = refused(dir.path(), "f");
        assert!(ended.err.contains(part), "{ended:?}");
    }
    fs::write(&file, b"size = \xff1M\n").unwrap();
    assert!(refused(dir.path(), "f").err.contains("not valid UTF-8"));
}

#[test]
fn values_are_repeated_in_part() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("f");
    let long = "ab ".repeat(100_000);
    let under = || long.replace(' ', "_");
    for text in [
        format!("size = {long}\n"),
        format!("zram-size = {long}\n"),
        format!("{} = 1\n", long.trim_end()),
        format!("algorithm = {long}\n"),
        format!("compression-algorithm = {}\n", under()),
        format!("size = 1M\ncompression-algorithm = zstd {}({long})\n", under()),
        format!("threads = {long}\n"),
        format!("read-only = {long}\n"),
        format!("nbd = {long}\n"),
        format!("set = {long}\n"),
        format!("set = {}=1\n", under()),
        format!("size = 1M\nset = max_comp_streams={long}\n"),
        format!("size = 1M\nset = recomp_algorithm=algo={}\n", under()),
        format!("[{long}]\n[b]\n"),
        format!("{long}=1\n[b]\n"),
        format!("[{long}]\n[{long}]\n"),
    ] {
        fs::write(&file, &text).unwrap();
        let ended = end(&mut serve_of(dir.path(), "f"));
        assert!(matches!(ended.code, Some(1 | 2)), "{text:.60}: {ended:.400?}");
        assert!(ended.err.len() < ERROR_MAX, "{text:.60}: {} bytes", ended.err.len());
        assert!(ended.err.contains("..."), "{text:.60}: {ended:?}");
    }
}

/// Arguments on the command line are shortened in the same way as values in the file.
#[test]
fn arguments_are_repeated_in_part() {
    let long = "ab_".repeat(20_000);
    let cases: [&[&str]; 12] = [
        &[&long],
        &["fill", "--algorithm", &long, "x"],
        &["fill", "--level", &long, "x"],
        &["fill", "--mem-limit", &long, "x"],
        &["fill", "--set", &long, "x"],
        &["fill", &format!("--{long}"), "x"],
        &["fill", "--show", &long, "x"],
        &["serve", "--size", &long],
        &["serve", "--size", "1M", "--metrics", &long],
        &["serve", "--size", "1M", "--export", &long],
        &["attr", &format!("{long}={long}")],
        &["run", "--limit", &long, "true"],
    ];
    for args in cases {
        let ended = end(Command::new(UZRAM).args(args));
        assert_eq!(ended.code, Some(2), "{:.80?}: {ended:.400?}", args.concat());
        assert!(ended.err.len() < ERROR_MAX, "{:.80}: {}", args.concat(), ended.err.len());
    }
    let server = Server::new(&[]);
    for args in [[&long[..20_000], "1"], ["mem_limit", &long[..20_000]]] {
        let ended = server.ask("attr", &args);
        assert!(ended.code == Some(1) && ended.err.len() < ERROR_MAX, "{}", ended.err.len());
    }
}
