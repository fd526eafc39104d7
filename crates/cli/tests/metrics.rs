//! Tests the reports of a running server: one line per second, and metrics.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use rustix::process::Signal;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use support::metrics::lint;
use support::{ENDS_WITHIN, PAGE, Server, UZRAM, end, serve, text};

/// Starts a server that serves metrics on a port that the system chooses. Returns the server, and
/// the URI of the metrics.
fn server() -> (Server, String) {
    let dir = tempfile::tempdir().unwrap();
    let mut command = serve(dir.path());
    command.args(["--nbd", "unix:nbd.sock", "--metrics", "127.0.0.1:0", "--export", "a b"]);
    let server = Server::announced(command.spawn().unwrap(), dir);
    let stat = server.ask("stat", &["--json"]).json();
    let uri = stat["metrics"].as_str().unwrap().to_owned();
    (server, uri)
}

/// Returns the server's response to the bytes of `request`.
fn answer(uri: &str, request: &[u8]) -> String {
    let host = uri.strip_prefix("http://").unwrap().split('/').next().unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    stream.set_read_timeout(Some(ENDS_WITHIN)).unwrap();
    stream.write_all(request).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn metrics_are_served_and_say_what_stat_says() {
    let (server, uri) = server();
    let mut client = server.client();
    client.write(0, &text(1, 64 * PAGE));
    client.write(64 * PAGE as u64, &[7; PAGE]);
    let got = answer(&uri, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let (head, body) = got.split_once("\r\n\r\n").unwrap();
    assert!(
        head.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4"),
        "{head}"
    );
    assert!(head.contains(&format!("\r\nContent-Length: {}\r\n", body.len())), "{head}");
    let printed = server.ask("stat", &["--prometheus"]);
    assert_eq!((printed.code, printed.err.as_str()), (Some(0), ""));
    assert_eq!(printed.out, body, "nothing happened in between");
    let stat = server.ask("stat", &["--json"]).json();
    for (metric, field) in [
        ("uzram_disk_size_bytes", "disksize"),
        ("uzram_data_bytes", "orig_data_size"),
        ("uzram_compressed_bytes", "compr_data_size"),
        ("uzram_pool_bytes", "mem_used_total"),
        ("uzram_memory_bytes", "mem_total"),
        ("uzram_same_filled_pages", "same_pages"),
        ("uzram_connections", "connections"),
    ] {
        let line = format!("{metric}{{disk=\"a b\"}} {}", stat[field]);
        assert!(body.lines().any(|found| found == line), "{line} in {body}");
    }
    assert!(stat["orig_data_size"] == 65 * PAGE && stat["same_pages"] == 1, "{stat}");
    let info =
        concat!("algorithm=\"lz4\",disk=\"a b\",version=\"", env!("CARGO_PKG_VERSION"), "\"");
    assert!(body.contains(&format!("uzram_info{{{info}}} 1\n")), "{body}");
    lint(body);
}

#[test]
fn whoever_asks_badly_is_answered_and_others_are_too() {
    let (mut server, uri) = server();
    for (request, status) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], "404 Not Found"),
        (b"DELETE /metrics HTTP/1.1\r\n\r\n", "405 Method Not Allowed"),
        (b"\x16\x03\x01 hello\r\n\r\n", "400 Bad Request"),
        (
            &b"GET /metrics HTTP/1.1\r\nX: "
                .iter()
                .copied()
                .chain([b'a'; 4096])
                .collect::<Vec<_>>()[..4096],
            "400 Bad Request",
        ),
    ] {
        let got = answer(&uri, request);
        assert!(got.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{got}");
    }
    for (page, status) in [("/metrics", "200"), ("/", "404"), ("http://a/metrics", "200")] {
        let head = answer(&uri, format!("HEAD {page} HTTP/1.1\r\n\r\n").as_bytes());
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
        assert!(head.ends_with("\r\n\r\n") && head.matches("\r\n\r\n").count() == 1, "{head}");
    }
    // Bytes after a request do not affect the response to the request.
    let long = format!("GET /metrics HTTP/1.1\r\nX: {}\r\n\r\n", "a".repeat(20_000));
    let more = "GET /metrics HTTP/1.1\r\n\r\n".repeat(2000);
    for (request, status) in [(long, "400 Bad Request"), (more, "200 OK")] {
        for _ in 0..8 {
            let got = answer(&uri, request.as_bytes());
            assert!(got.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{got}");
        }
    }
    // More silent clients connect than the server serves at a time. Each additional client replaces
    // the oldest client.
    let host = uri.strip_prefix("http://").unwrap().split('/').next().unwrap();
    let silent: Vec<_> = (0..9).map(|_| TcpStream::connect(host).unwrap()).collect();
    assert!(answer(&uri, b"GET /metrics HTTP/1.1\r\n\r\n").contains("uzram_memory_bytes"));
    drop(silent);
    server.signal("TERM");
    assert_eq!(server.ended().0, Some(0));
}

#[test]
fn what_can_not_be_served_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let bound = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = bound.local_addr().unwrap().port().to_string();
    for (address, code, part) in [
        (port.as_str(), 1, "in use"),
        ("nosuch", 2, "PORT or HOST:PORT"),
        ("1:2:x", 2, "--metrics"),
    ] {
        let ended = end(serve(dir.path()).args(["--nbd", "unix:n", "--metrics", address]));
        assert_eq!(ended.code, Some(code), "{ended:?}");
        assert!(ended.err.contains(part) && ended.err.lines().count() == 1, "{ended:?}");
    }
}

#[test]
fn a_line_comes_every_second_until_ctrl_c_or_the_end() {
    let mut server = Server::new(&[]);
    let watch = |args: &[&str]| {
        let mut command = Command::new(UZRAM);
        command.args(["stat", "--watch", "--control", &server.control()]).args(args);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut json = watch(&["--json"]);
    let mut lines = BufReader::new(json.stdout.take().unwrap()).lines();
    for _ in 0..2 {
        let stat: serde_json::Value =
            serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert_eq!(stat["disksize"], 256 << 20);
    }
    rustix::process::kill_process(rustix::process::Pid::from_child(&json), Signal::INT).unwrap();
    assert_eq!(json.wait().unwrap().code(), Some(0), "Ctrl-C is how it ends");

    // `uzram stat --watch` can be interrupted while the server does not answer.
    let mut waits = watch(&[]);
    BufReader::new(waits.stdout.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
    server.signal("STOP");
    std::thread::sleep(std::time::Duration::from_millis(1500));
    rustix::process::kill_process(rustix::process::Pid::from_child(&waits), Signal::INT).unwrap();
    support::until("it has ended", || waits.try_wait().unwrap().is_some());
    assert_eq!(waits.wait().unwrap().code(), Some(0));
    server.signal("CONT");

    let mut plain = watch(&[]);
    let mut lines = BufReader::new(plain.stdout.take().unwrap()).lines();
    let head = lines.next().unwrap().unwrap();
    assert!(head.trim_start().starts_with("DATA ") && head.ends_with("JOB"), "{head}");
    assert!(lines.next().unwrap().unwrap().trim_start().starts_with("0 B "));
    server.signal("TERM");
    assert_eq!(server.ended().0, Some(0));
    assert_eq!(plain.wait().unwrap().code(), Some(0));
    let mut said = String::new();
    plain.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(said, "uzram: the server has ended\n");

    let ended = end(Command::new(UZRAM).args(["stat", "--watch", "--control", &server.control()]));
    assert!(ended.code == Some(1) && ended.err.contains("no server answers"), "{ended:?}");
}

#[test]
fn a_terminal_has_bars() {
    let server = Server::new(&["--mem-limit", "64M"]);
    let line = format!("timeout -s INT 1 {UZRAM} stat --watch --control {}", server.control());
    let terminal = Command::new("script").args(["-qec", &line, "/dev/null"]).output().unwrap();
    let shown = String::from_utf8(terminal.stdout).unwrap();
    assert!(shown.contains("[................]   0%") && shown.contains("LIMIT"), "{shown}");
}
