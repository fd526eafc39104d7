//! Tests that other users of the machine can neither block a server nor impersonate a server.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use support::host::has;
use support::{Server, UZRAM, end, nbd, serve};

#[test]
fn a_lock_on_the_directory_holds_up_no_start() {
    let server = {
        let dir = tempfile::tempdir().unwrap();
        let held = fs::File::open(dir.path()).unwrap();
        held.lock().unwrap();
        let child = serve(dir.path()).args(["--nbd", "unix:nbd.sock"]).spawn().unwrap();
        let server = Server::announced(child, dir);
        drop(nbd::connect(&server.socket()));
        held.unlock().unwrap();
        server
    };
    assert_eq!(server.ask("stat", &[]).code, Some(0));
}

#[test]
fn socket_paths_are_as_long_as_they_can_be() {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().join("");
    for len in [99, 100, 101, 106, 107, 108, 120] {
        let name = "n".repeat(len - base.as_os_str().len());
        let path = base.join(name);
        let mut command = serve(dir.path());
        command.args(["--nbd", &format!("unix:{}", path.display())]);
        if len > 107 {
            let ended = end(&mut command);
            assert_eq!(ended.code, Some(1), "{ended:?}");
            assert!(ended.err.contains("at most 107 bytes"), "{ended:?}");
            continue;
        }
        let held = tempfile::tempdir().unwrap();
        let mut server = Server::announced(command.spawn().unwrap(), held);
        drop(nbd::connect(&path));
        server.signal("TERM");
        assert_eq!(server.ended().0, Some(0));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "a socket was left");
    }
}

/// Many servers start at the same time after a server was killed. Exactly one of these servers
/// serves the disk and keeps running.
#[test]
fn of_many_that_start_one_serves() {
    for _ in 0..5 {
        let mut killed = Server::new(&[]);
        killed.child.kill().unwrap();
        killed.child.wait().unwrap();
        let dir = std::mem::replace(&mut killed.dir, tempfile::tempdir().unwrap());
        let start = |nth: usize| {
            let mut command = Command::new(UZRAM);
            command.args(["serve", "--size", "1M", "--nbd", "unix:nbd.sock", "--control"]);
            command.arg(format!("{nth}.sock")).current_dir(dir.path());
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let mut children: Vec<_> = (0..6).map(start).collect();
        let mut serving = 0;
        for child in &mut children {
            let mut line = String::new();
            BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
            serving += usize::from(!line.is_empty());
        }
        let answers = std::panic::catch_unwind(|| drop(nbd::connect(&dir.path().join("nbd.sock"))));
        for mut child in children {
            let _ = (child.kill(), child.wait());
        }
        assert!(serving == 1 && answers.is_ok(), "{serving} serve");
    }
}

/// A process that replaces the server reports success for every request.
#[test]
fn a_false_server_is_not_believed() {
    if !rustix::process::geteuid().is_root() || !has(&["setpriv", "python3"]) {
        eprintln!("left out, as it takes root");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let socket = dir.path().join("control.sock");
    let script = "
import socket, sys
s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(5); print('listening', flush=True)
while True:
    c, _ = s.accept()
    try:
        c.recv(65536); c.sendall(b'ok\\npages 1\\nbytes 1\\n'); c.close()
    except OSError: pass
";
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3", "-c"]);
    let mut false_server = command.arg(script).arg(&socket).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(false_server.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let mut save = Command::new(UZRAM);
    save.arg("save").arg("--control").arg(&socket).arg(dir.path().join("saved"));
    let save = end(&mut save);
    let _ = (false_server.kill(), false_server.wait());
    assert_eq!(line, "listening\n");
    assert!(save.code == Some(1) && save.err.contains("user 65534"), "{save:?}");
}

/// A server does not use a directory of sockets to which other users can write.
#[test]
fn sockets_are_in_a_directory_of_ones_own() {
    let dir = tempfile::tempdir().unwrap();
    let run = |command: &mut Command| end(command.env("XDG_RUNTIME_DIR", dir.path()));
    let sub = dir.path().join("uzram");
    fs::create_dir(&sub).unwrap();
    fs::set_permissions(&sub, fs::Permissions::from_mode(0o777)).unwrap();
    let served = run(Command::new(UZRAM).args(["serve", "--size", "1M"]));
    assert!(served.code == Some(1) && served.err.contains("/uzram'"), "{served:?}");
    let asked = run(Command::new(UZRAM).arg("stat"));
    assert!(asked.code == Some(1) && asked.err.contains("/uzram'"), "{asked:?}");
    fs::remove_dir(&sub).unwrap();
    let real = dir.path().join("real");
    fs::create_dir(&real).unwrap();
    std::os::unix::fs::symlink(&real, &sub).unwrap();
    for command in [&["serve", "--size", "1M"][..], &["stat"]] {
        let ended = run(Command::new(UZRAM).args(command));
        assert!(ended.code == Some(1) && ended.err.contains("/uzram'"), "{ended:?}");
    }
    assert_eq!(fs::read_dir(&real).unwrap().count(), 0);
}

#[test]
fn what_is_told_can_be_pasted() {
    let dir = tempfile::tempdir().unwrap();
    let odd = dir.path().join("it's $HOME; x");
    fs::create_dir(&odd).unwrap();
    let mut command = Command::new(UZRAM);
    command.args(["serve", "--size", "1M", "--nbd", "unix:n s.sock", "--control"]);
    command.arg(odd.join("c.sock")).current_dir(&odd).args(["--export", "o'n"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let line = out.find(|line| line.contains("uzram stat")).unwrap();
    let stat = line.split_once("uzram stat").unwrap().1;
    let stat = format!("exec '{UZRAM}' stat{stat}");
    let asked = end(Command::new("sh").args(["-c", &stat]));
    let _ = (child.kill(), child.wait());
    assert_eq!(asked.code, Some(0), "{stat} {asked:?}");
}

#[test]
fn a_loopback_port_is_everyones() {
    let mut server = Server::new(&["--nbd", "tcp:0"]);
    server.signal("TERM");
    server.ended();
    let said = server.said();
    assert!(said.contains("every user of this machine"), "{said}");
}

/// A relative path is resolved in the client's working directory.
#[test]
fn paths_are_from_where_the_client_is() {
    let server = Server::new(&[]);
    let dir = tempfile::tempdir().unwrap();
    let mut attr = Command::new(UZRAM);
    attr.args(["attr", "--control", &server.control(), "save", "saved"]).current_dir(dir.path());
    let attr = end(&mut attr);
    assert_eq!(attr.code, Some(0), "{attr:?}");
    assert!(dir.path().join("saved").exists());
    let mut restore = Command::new(UZRAM);
    restore.args(["attr", "--control", &server.control(), "restore", "saved"]);
    assert_eq!(end(restore.current_dir(dir.path())).code, Some(0));
}
