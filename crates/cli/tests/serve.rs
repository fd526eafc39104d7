//! Tests `uzram serve`: its sockets, its end, and its control.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::process::Stdio;
use std::time::Duration;
use support::{ENDS_WITHIN, Server, end, nbd, serve};
use testkit::wait::patience;

fn connect(server: &Server) -> UnixStream {
    nbd::connect(&server.socket())
}

fn chosen(server: &Server) -> UnixStream {
    server.client().0
}

fn request(kind: u16, len: u32) -> Vec<u8> {
    nbd::request(kind, 0, len)
}

#[test]
fn signals_end_it_in_time_whatever_clients_do() {
    for signal in ["TERM", "INT"] {
        let mut server = Server::new(&[]);
        let mut clients = vec![connect(&server), chosen(&server)];
        let mut amid = chosen(&server);
        amid.write_all(&request(1, 20 << 20)).unwrap();
        amid.write_all(&[1; 5000]).unwrap();
        let mut stuck = chosen(&server);
        stuck.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
        while stuck.write_all(&request(0, 1 << 20)).is_ok() {}
        clients.extend([amid, stuck]);
        let _asking = UnixStream::connect(server.control()).unwrap();
        server.signal(signal);
        let (code, took) = server.ended();
        assert_eq!(code, Some(0));
        assert!(took < ENDS_WITHIN, "{took:?}");
        assert_eq!(fs::read_dir(server.dir.path()).unwrap().count(), 0, "a socket was left");
        let said = server.said();
        // The server abandons clients that do not disconnect in time.
        let is_expected = |line: &str| line.starts_with("uzram: some clients did not disconnect");
        let mut lines = said.lines();
        assert_eq!(lines.next(), Some(&*format!("uzram: received SIG{signal}, shutting down")));
        assert!(lines.all(is_expected), "{said}");
    }
}

#[test]
fn stale_sockets_are_replaced_and_live_ones_are_not() {
    let mut killed = Server::new(&[]);
    killed.child.kill().unwrap();
    killed.child.wait().unwrap();
    assert!(killed.dir.path().join("nbd.sock").exists());
    let here = ["--nbd", "unix:nbd.sock"];
    let child = serve(killed.dir.path()).args(here).spawn().unwrap();
    let dir = std::mem::replace(&mut killed.dir, tempfile::tempdir().unwrap());
    let server = Server::announced(child, dir);
    for path in ["nbd.sock", "control.sock"] {
        let mode = fs::metadata(server.dir.path().join(path)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    let second = end(serve(server.dir.path()).args(here));
    assert_eq!(second.code, Some(1));
    assert!(
        second.err.contains("'nbd.sock' is in use by another server; stop that one"),
        "{second:?}"
    );
    drop(connect(&server));
    // The control socket is protected in the same way as the NBD socket.
    let third = end(serve(server.dir.path()).args(["--nbd", "unix:other.sock"]));
    assert!(third.err.contains("control.sock' is in use by another server"), "{third:?}");
    assert!(!server.dir.path().join("other.sock").exists());
    assert_eq!(server.ask("stat", &[]).code, Some(0));
}

#[test]
fn what_is_no_socket_stays() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("nbd.sock"), "precious").unwrap();
    let here = ["--nbd", "unix:nbd.sock"];
    let ended = end(serve(dir.path()).args(here));
    assert_eq!(ended.code, Some(1));
    assert!(ended.err.contains("'nbd.sock' exists and is not a socket"), "{ended:?}");
    assert_eq!(fs::read_to_string(dir.path().join("nbd.sock")).unwrap(), "precious");
    // A server that accepts no connections is still treated as running.
    let held = tempfile::tempdir().unwrap();
    let _live = UnixListener::bind(held.path().join("nbd.sock")).unwrap();
    assert!(end(serve(held.path()).args(here)).err.contains("is in use by another server"));
}

#[test]
fn wrong_use_is_told_of() {
    let dir = tempfile::tempdir().unwrap();
    for (args, code, part) in [
        (&["--size", "0"][..], 2, "--size: a device can't have 0 bytes"),
        (&["--size", "1E"], 2, "--size"),
        (&["--size", "32T"], 2, "16 TiB"),
        (&["--algorithm", "nosuch"], 2, "lz4, lz4hc, zstd"),
        (&["--level", "99999999"], 2, "--level"),
        (&["--nbd", "nosuch:1"], 2, "unix:PATH"),
        (&["--nbd", "tcp:host:port"], 2, "unix:PATH"),
        (&["--nbd", "unix:no/such/dir/sock"], 1, "can't listen on 'no/such/dir/sock'"),
        (&["--set", "disksize=1G"], 2, "is what --size says"),
        (&["--connections", "0"], 2, "--connections"),
        (&["--mount", "no/such"], 1, "can't mount at 'no/such'"),
    ] {
        let mut command = std::process::Command::new(support::UZRAM);
        command.args(["serve", "--control", "c.sock"]).current_dir(dir.path()).args(args);
        if !args.contains(&"--size") {
            command.args(["--size", "1M"]);
        }
        if !args.contains(&"--nbd") {
            command.args(["--nbd", "unix:n.sock"]);
        }
        let ended = end(&mut command);
        assert_eq!(ended.code, Some(code), "{args:?} {ended:?}");
        assert!(ended.err.contains(part), "{args:?} {ended:?}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "{args:?}: a socket was left");
    }
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let mut on_file = serve(dir.path());
    let on_file = end(on_file.args(["--nbd", "unix:n.sock", "--mount", "file"]));
    assert!(
        on_file.code == Some(1) && on_file.err.contains("can't mount at 'file'"),
        "{on_file:?}"
    );
    fs::remove_file(file).unwrap();
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let mut unheard = serve(dir.path());
    let unheard = end(unheard.args(["--nbd", "unix:n.sock"]).stdout(full));
    assert!(unheard.code == Some(1) && unheard.err.contains("standard output"), "{unheard:?}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "a socket was left");
    let nobody =
        end(std::process::Command::new(support::UZRAM).args(["stat", "--control", "/no/such"]));
    assert_eq!(nobody.code, Some(1));
    assert!(nobody.err.contains("no server answers at '/no/such'"), "{nobody:?}");
}

/// If the client can't write the answer, the client's error is not reported as an error of the
/// server.
#[test]
fn answers_that_nobody_takes_are_no_fault_of_the_server() {
    let server = Server::new(&[]);
    let control = server.control();
    let show = || {
        let mut command = std::process::Command::new(support::UZRAM);
        command.args(["attr", "--control", &control, "classes"]).stderr(Stdio::piped());
        command
    };
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let full = end(show().stdout(full));
    assert!(
        full.code == Some(1) && full.err.contains("can't write to standard output"),
        "{full:?}"
    );
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let gone = end(show().stdout(writer));
    assert_eq!((gone.code, gone.err.as_str()), (Some(0), ""), "{gone:?}");
}

#[test]
fn attributes_are_read_and_written_meanwhile() {
    let server =
        Server::new(&["--algorithm", "zstd", "--mem-limit", "64M", "--set", "track_access=1"]);
    let mut client = chosen(&server);
    client.write_all(&request(1, 4096)).unwrap();
    client.write_all(&support::text(1, 4096)).unwrap();
    client.read_exact(&mut [0; 16]).unwrap();
    let show = |name: &str| server.ask("attr", &[name]).out;
    assert_eq!(show("disksize"), format!("{}\n", 256 << 20));
    assert_eq!(show("comp_algorithm"), "lz4 lz4hc [zstd] \n");
    assert!(show("mm_stat").trim_start().starts_with("4096 "), "{}", show("mm_stat"));
    assert!(show("block_state").ends_with(" ......\n"), "{}", show("block_state"));
    assert_eq!(server.ask("idle", &[]).code, Some(0));
    assert!(show("block_state").ends_with(" ...i..\n"), "{}", show("block_state"));
    assert_eq!(server.ask("idle", &["--older", "1000000"]).code, Some(0));
    assert!(show("block_state").ends_with(" ......\n"), "{}", show("block_state"));
    assert_eq!(server.ask("compact", &[]).code, Some(0));
    assert_eq!(server.ask("attr", &["mem_limit", "32M"]).code, Some(0));
    assert!(show("mm_stat").contains(&format!(" {} ", 32 << 20)));
    for (args, part) in [
        (&["nosuch"][..], "unknown attribute 'nosuch'"),
        (&["compact"], "it is write-only"),
        (&["mm_stat", "1"], "it is read-only"),
        (&["mem_limit", "-1"], "expected bytes"),
        (&["comp_algorithm", "lz4"], "'uzram serve --set comp_algorithm=VALUE'"),
        (&["disksize", "1M"], "with another --size"),
        (&["save", ""], "expected the path of a file"),
        (&["restore", ""], "expected the path of a file"),
        (&["reset", "1"], "stop its server"),
        (&["a\nb", "1"], "unknown attribute"),
    ] {
        let ended = server.ask("attr", args);
        assert_eq!((ended.code, ended.err.lines().count()), (Some(1), 1), "{args:?} {ended:?}");
        assert!(ended.err.contains(part), "{args:?} {ended:?}");
    }
    let all = server.ask("attr", &["--json"]).json();
    assert_eq!(all["disksize"], format!("{}\n", 256 << 20));
    assert!(all["block_state"].is_null() && all["compact"].is_null());
    let stat = server.ask("stat", &["--json"]).json();
    assert_eq!((&stat["disksize"], &stat["connections"]), (&(256 << 20).into(), &1.into()));
    assert_eq!((&stat["orig_data_size"], &stat["nbd"]), (&4096.into(), &server.uri().into()));
    let table = server.ask("stat", &[]).out;
    assert!(table.starts_with("NAME  ALGORITHM  DISKSIZE"), "{table}");
    assert!(table.contains("\n-     zstd       256.0 MiB"), "{table}");
}

#[test]
fn requests_to_the_control_socket_are_bounded() {
    let server = Server::new(&[]);
    for bytes in
        [&b""[..], b"\n", b"show", b"store", b"nosuch x\n", &[255; 100], &vec![b'x'; 1 << 20]]
    {
        let mut stream = UnixStream::connect(server.control()).unwrap();
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        assert!(answer.is_empty() || answer.starts_with("error 22 "), "{answer}");
    }
    assert_eq!(server.ask("stat", &[]).code, Some(0));
}

#[test]
fn systemd_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let notify = UnixDatagram::bind(dir.path().join("notify")).unwrap();
    let args = ["--nbd", "unix:nbd.sock"];
    let child = serve(dir.path())
        .args(args)
        .env("NOTIFY_SOCKET", dir.path().join("notify"))
        .spawn()
        .unwrap();
    let mut server = Server::announced(child, dir);
    let told = || {
        let mut text = [0; 100];
        notify.set_read_timeout(Some(patience())).unwrap();
        let len = notify.recv(&mut text).unwrap();
        String::from_utf8_lossy(&text[..len]).into_owned()
    };
    assert_eq!(told(), "READY=1\n");
    server.signal("TERM");
    assert_eq!(told(), "STOPPING=1\n");
    assert_eq!(server.ended().0, Some(0));
}

#[test]
fn a_server_that_others_reach_says_who_they_are() {
    for (nbd, parts, not) in [
        ("tcp:0", &["every user of this machine", "--nbd unix:PATH"][..], "network"),
        (
            "tcp:0.0.0.0:0",
            &[
                "everyone who can reach tcp:0.0.0.0:",
                "over the network",
                "tcp:127.0.0.1",
                "firewall",
            ],
            "every user",
        ),
        ("tcp:[::]:0", &["everyone who can reach tcp:[::]:", "over the network"], "every user"),
        ("tcp:[::1]:0", &["every user of this machine"], "network"),
    ] {
        let mut server = Server::new(&["--nbd", nbd]);
        server.signal("TERM");
        assert_eq!(server.ended().0, Some(0));
        let said = server.said();
        let warning = said.lines().find(|line| line.contains("can read and write the disk"));
        let warning = warning.unwrap_or_else(|| panic!("{nbd}: {said}"));
        assert!(parts.iter().all(|part| warning.contains(part)), "{nbd}: {warning}");
        assert!(!warning.contains(not), "{nbd}: {warning}");
    }
}

#[test]
fn tcp_is_loopback_unless_told_otherwise() {
    let server = Server::new(&["--nbd", "tcp:0", "--export", "scratch", "--read-only"]);
    let uri = server.uri();
    assert!(uri.starts_with("nbd://127.0.0.1:") && uri.ends_with("/scratch"), "{uri}");
    assert!(server.announcement.starts_with("serving 256.0 MiB, lz4, read-only: "));
    let address = uri.trim_start_matches("nbd://").trim_end_matches("/scratch").to_owned();
    let mut stream = std::net::TcpStream::connect(&address).unwrap();
    stream.read_exact(&mut [0; 18]).unwrap();
}
