//! Tests sockets that a service manager passes to the server, and the configuration file.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use support::{UZRAM, end, nbd, serve, serve_unsized};
use testkit::wait::until;

/// The source of a service manager. The manager listens at paths, passes the sockets to each server
/// that it starts, and prints the server's process ID and exit code. The sockets stay open after a
/// server has ended.
const MANAGER: &str = r#"
import os, socket, sys
names, uzram, *args = sys.argv[1:]
sockets = []
for name in ("n.sock", "c.sock", "m")[:names.count(":") + 1]:
    s = socket.socket(socket.AF_UNIX if name != "m" else socket.AF_INET)
    s.bind(name if name != "m" else ("127.0.0.1", 0))
    s.listen()
    sockets.append(s)
print("ready", flush=True)
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        for nth, s in enumerate(os.dup(s.fileno()) for s in sockets): os.dup2(s, 40 + nth)
        for nth in range(len(sockets)): os.dup2(40 + nth, 3 + nth, inheritable=True)
        os.environ.update(LISTEN_FDS=str(len(sockets)), LISTEN_FDNAMES=names)
        os.environ.update(LISTEN_PID=str(os.getpid()))
        os.dup2(os.open("/dev/null", os.O_RDWR), 1)
        os.execv(uzram, [uzram, "serve", *args])
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"#;

struct Manager {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Manager {
    fn new(dir: &Path, names: &str, args: &[&str]) -> Self {
        let mut command = Command::new("python3");
        command.args(["-c", MANAGER, names, UZRAM]).args(args).current_dir(dir);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut manager = Manager { child, input, output: BufReader::new(output) };
        assert_eq!(manager.line(), "ready");
        manager
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    /// Starts a server, and returns its process ID.
    fn start(&mut self) -> String {
        self.input.write_all(b"start\n").unwrap();
        self.line()
    }

    /// Ends the server with this process ID, and returns its exit code.
    fn stop(&mut self, server: &str) -> String {
        assert!(Command::new("kill").arg(server).status().unwrap().success());
        self.line()
    }

    /// Ends the manager, and returns the text that servers wrote to standard error.
    fn said(mut self) -> String {
        drop(self.input);
        let mut text = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        self.child.wait().unwrap();
        text
    }
}

#[test]
fn clients_connect_before_it_runs_and_between_two() {
    let dir = tempfile::tempdir().unwrap();
    let mut manager = Manager::new(dir.path(), "a:b:c", &["--size", "16M"]);
    for round in 0..2 {
        // No server answers yet, but the connection is not refused.
        let early = UnixStream::connect(dir.path().join("n.sock")).unwrap();
        let server = manager.start();
        let mut client = nbd::Client::new(&dir.path().join("n.sock"));
        assert_eq!(client.read(0, 4096), [0; 4096], "round {round}: each has a disk of its own");
        client.write(0, &[7; 4096]);
        let mut greeting = [0; 8];
        (&early).read_exact(&mut greeting).unwrap();
        assert_eq!(&greeting, b"NBDMAGIC");
        let control = dir.path().join("c.sock");
        let stat = end(Command::new(UZRAM).args(["stat", "--json", "--control"]).arg(&control));
        let stat = stat.json();
        assert!(stat["nbd"].as_str().unwrap().ends_with("n.sock"), "{stat}");
        assert!(stat["metrics"].as_str().unwrap().starts_with("http://127.0.0.1:"), "{stat}");
        drop((early, client));
        assert_eq!(manager.stop(&server), "0");
        assert!(control.exists() && dir.path().join("n.sock").exists(), "they are the manager's");
    }
    manager.said();
}

#[test]
fn names_say_what_a_socket_is_for() {
    let dir = tempfile::tempdir().unwrap();
    let mut manager = Manager::new(dir.path(), "control:nbd", &["--size", "16M"]);
    let server = manager.start();
    let control = dir.path().join("n.sock");
    let asks = || end(Command::new(UZRAM).args(["stat", "--json", "--control"]).arg(&control));
    let stat = asks().json();
    assert!(stat["nbd"].as_str().unwrap().ends_with("c.sock"), "{stat}");
    assert_eq!(manager.stop(&server), "0");
}

#[test]
fn what_does_not_fit_what_was_passed_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for (names, args, code, part) in [
        ("nbd", &["--size", "1M", "--nbd", "unix:x"][..], "2", "--nbd: the service manager passed"),
        ("a:b", &["--size", "1M", "--control", "x"], "2", "--control: the service manager"),
        ("a:", &["--size", "1M", "--metrics", "x"], "2", "--metrics"),
        ("nbd:nbd", &["--size", "1M"], "1", "two sockets named 'nbd'"),
        ("nbd:metrics:control", &["--size", "1M"], "1", "for control is at tcp:127.0.0.1:"),
    ] {
        let dir = tempfile::tempdir_in(dir.path()).unwrap();
        let mut manager = Manager::new(dir.path(), names, args);
        manager.start();
        assert_eq!(manager.line(), code);
        let said = manager.said();
        assert!(said.contains(part) && said.lines().count() == 1, "{said}");
    }
    // The passed descriptor is not a socket.
    let line = format!("LISTEN_FDS=1 LISTEN_PID=$$ exec {UZRAM} serve --size 1M 3</dev/null");
    let ended = end(Command::new("sh").args(["-c", &line]));
    assert!(ended.code == Some(1) && ended.err.contains("it is not a socket"), "{ended:?}");
    let line = format!("LISTEN_FDS=1 LISTEN_PID=$$ exec {UZRAM} serve --size 1M 3<&-");
    let ended = end(Command::new("sh").args(["-c", &line]));
    assert!(ended.code == Some(1) && ended.err.contains("LISTEN_FDS"), "{ended:?}");
}

/// The variables are ignored if they specify another process, as in `sd_listen_fds`.
#[test]
fn what_was_passed_to_another_process_is_left_alone() {
    for of_another in [
        "LISTEN_PID=1 LISTEN_FDS=2 LISTEN_FDNAMES=nbd:control",
        "LISTEN_PID=1 LISTEN_FDS=1 LISTEN_FDNAMES=a:b:c",
        "LISTEN_PID=1 LISTEN_FDS=x LISTEN_FDNAMES=a",
        "LISTEN_FDS=1 LISTEN_FDNAMES=nbd",
        "LISTEN_FDNAMES=nbd",
        "LISTEN_PID=$$ LISTEN_FDNAMES=nbd",
        "LISTEN_PID=$$ LISTEN_FDS=0 LISTEN_FDNAMES=nbd",
    ] {
        let line = format!("{of_another} exec \"$@\"");
        let mut server = support::Server::within(&line, &["--size", "1M"]);
        assert!(server.ask("stat", &[]).code == Some(0), "{of_another}");
        server.signal("TERM");
        assert_eq!((server.ended().0, server.said().lines().count()), (Some(0), 1), "{of_another}");
    }
}

/// Tests with `systemd-socket-activate`.
#[test]
fn systemd_starts_it_with_its_first_client() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new("systemd-socket-activate");
    for name in ["nbd.sock", "control.sock"] {
        command.arg("-l").arg(dir.path().join(name));
    }
    command.args([UZRAM, "serve", "--size", "16M"]).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut child) = command.spawn() else {
        eprintln!("SKIPPED: systemd-socket-activate is not installed");
        return;
    };
    until("it listens", || dir.path().join("control.sock").exists());
    let mut client = nbd::Client::new(&dir.path().join("nbd.sock"));
    client.write(0, &[3; 4096]);
    assert_eq!(client.read(0, 4096), [3; 4096]);
    // `systemd-socket-activate` executes the server in its own process.
    let pid = child.id().to_string();
    assert!(Command::new("kill").arg(&pid).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_file_has_what_the_command_line_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("f");
    let sections = "[one]\nzram-size = 2\n\
        compression-algorithm = zstd(level=19) lz4hc\nexport = x\n\
        set = track_access=1\n[two]\nsize = 4x\n[three]\nnosuch = 1\n[five]\nsize = 1M\n\
        threads = 0\n";
    std::fs::write(&file, sections).unwrap();
    let asked = |section: &str, more: &[&str]| {
        let mut command = serve_unsized(dir.path());
        command.args(["--nbd", "unix:n", "--config", "f", "--section", section]).args(more);
        command
    };
    // If the command line sets another algorithm, the level in the file is ignored.
    for (more, algorithm) in
        [(&[][..], "zstd"), (&["--algorithm=lz4"], "lz4"), (&["--algorithm=lz4hc"], "lz4hc")]
    {
        let own = tempfile::tempdir().unwrap();
        let mut server = support::Server::announced(asked("one", more).spawn().unwrap(), own);
        let control = dir.path().join("control.sock").display().to_string();
        let ask = |args: &[&str]| end(Command::new(UZRAM).args(args).args(["--control", &control]));
        let stat = ask(&["stat", "--json"]).json();
        assert_eq!(stat["disksize"], 2 << 20);
        assert_eq!((&stat["algorithm"], &stat["name"]), (&algorithm.into(), &"x".into()));
        let attributes = ask(&["attr", "--json"]).json();
        assert!(
            attributes["recomp_algorithm"].as_str().unwrap().contains("[lz4hc]"),
            "{attributes}"
        );
        server.signal("TERM");
        assert_eq!(server.ended().0, Some(0));
    }
    for (section, code, parts) in [
        ("two", 1, &["'f'", "'4x'", "--size"][..]),
        ("five", 1, &["'f'", "'0'", "--threads"]),
        ("three", 1, &["'f'", "nosuch = 1", "there is no such key"]),
        ("four", 1, &["'f'", "no section 'four'", "one, two, three, five"]),
    ] {
        let ended = end(&mut asked(section, &[]));
        assert_eq!((ended.code, ended.err.lines().count()), (Some(code), 1), "{ended:?}");
        assert!(parts.iter().all(|part| ended.err.contains(part)), "{ended:?}");
    }
    // A level on the command line overrides the level in the file.
    let ended = end(&mut asked("one", &["--level=99"]));
    assert!(ended.code == Some(2) && ended.err.contains("level 99"), "{ended:?}");
    let ended = end(serve(dir.path()).args(["--config", "no/such"]));
    assert!(ended.code == Some(1) && ended.err.contains("'no/such'"), "{ended:?}");
}
