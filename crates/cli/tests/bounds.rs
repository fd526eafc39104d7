//! Tests the limits of a server and its behaviour at these limits. The limits concern descriptors,
//! memory in small cgroups, and compressed pages.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use std::io::{BufRead as _, BufReader};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use support::nbd::Client;
use support::{Server, UZRAM, noise, until};
use testkit::cgroup::Group;
use testkit::nbd::TRIM;

const MIB: usize = 1 << 20;

/// Runs a shell line that starts a server. The server can refuse to start.
fn begun(line: &str, args: &[&str]) -> Server {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new("sh");
    let line = format!("{line}; exec \"$@\"");
    command.args(["-c", &line, "sh", UZRAM, "serve", "--size", "64M", "--nbd", "unix:nbd.sock"]);
    command.args(args).args(["--control", "control.sock"]).current_dir(dir.path());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Server::begun(command.spawn().unwrap(), dir)
}

/// Returns the number of clients that have chosen an export.
fn connections(server: &Server) -> Option<u64> {
    server.ask("stat", &["--json"]).json()["connections"].as_u64()
}

#[test]
fn descriptors_for_control_and_saves_are_kept() {
    let mut refused = begun("ulimit -n 512", &["--connections", "512"]);
    let (code, said) = (refused.ended().0, refused.said());
    assert!(code == Some(1) && said.contains("ulimit -Hn"), "{code:?}: {said}");
    // The message states the highest possible number of connections. The server starts with this
    // number of connections, but not with a higher number.
    let most = said.rsplit("--connections ").next().unwrap().split(' ').next().unwrap();
    let one_more = (most.parse::<u32>().unwrap() + 1).to_string();
    assert_eq!(begun("ulimit -n 512", &["--connections", &one_more]).ended().0, Some(1));
    let mut server = begun("ulimit -n 512", &["--connections", most]);
    assert!(!server.announcement.is_empty(), "{}", server.said());

    let most = most.parse::<usize>().unwrap();
    let mut clients: Vec<Client> = (0..most).map(|_| server.client()).collect();
    // The server refuses all clients beyond the limit.
    let others: Vec<_> = (0..600).map(|_| UnixStream::connect(server.socket())).collect();
    assert_eq!(connections(&server), Some(most as u64));
    clients[0].write(0, b"stored");
    let saved = server.dir.path().join("saved");
    let answer = server.ask("save", &[saved.to_str().unwrap()]);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let cancelled = server.ask("cancel", &[]);
    assert!(cancelled.err.contains("no job"), "it is answered: {cancelled:?}");
    drop(others);
    // After one client has disconnected, another client can connect.
    clients.pop();
    until("a client is let in again", || Client::try_new(&server.socket()).is_ok());
    server.signal("TERM");
    assert_eq!(server.ended().0, Some(0));
}

/// The server raises the soft limit if the hard limit allows that.
#[test]
fn a_soft_limit_of_descriptors_is_raised() {
    let server = begun("ulimit -S -n 64", &["--connections", "100"]);
    assert!(!server.announcement.is_empty());
    let clients: Vec<Client> = (0..100).map(|_| server.client()).collect();
    assert_eq!(connections(&server), Some(100));
    drop(clients);
}

/// The threads for the control socket are started with the server, before clients need them.
#[test]
fn control_answers_when_no_thread_can_be_started() {
    let server = Server::new(&[]);
    let tasks = || std::fs::read_dir(format!("/proc/{}/task", server.child.id())).unwrap().count();
    let before = tasks();
    for _ in 0..20 {
        assert_eq!(server.ask("stat", &[]).code, Some(0));
    }
    assert!(tasks() <= before, "a request started a thread");
}

#[test]
fn small_groups_have_a_useful_limit_or_none() {
    for group_mib in [12, 24, 32, 64, 128, 256] {
        let Some(group) = Group::new(&format!("bounds-{group_mib}"), group_mib * MIB) else {
            return eprintln!("left out, as no memory cgroup may be made here");
        };
        let line = format!("echo $$ > '{}'", group.members().display());
        let mut server = begun(&line, &[]);
        if server.announcement.is_empty() {
            let (code, said) = (server.ended().0, server.said());
            let names_least = said.contains("it needs at least") && said.contains("--mem-limit");
            assert!(group_mib <= 12 && code == Some(1) && names_least, "{group_mib}: {said}");
            continue;
        }
        let stat = server.ask("stat", &["--json"]).json();
        let limit = stat["mem_limit"].as_u64().unwrap() as usize;
        let percent = limit * 100 / (group_mib * MIB);
        let least = [(24, 25), (64, 40), (128, 60), (256, 75)];
        let least = least.iter().rfind(|(from, _)| *from <= group_mib).map_or(0, |least| least.1);
        assert!((least..=85).contains(&percent), "{group_mib} MiB: {limit} bytes, {percent}%");
        // Filling the disk up to its limit causes no OOM kill in the cgroup.
        let mut client = server.client();
        let bytes = noise(9, MIB / 4);
        let full = (0..256).find(|nth| client.try_write(nth * MIB as u64 / 4, &bytes).is_err());
        assert_eq!(full.is_some(), limit < 62 * MIB, "{group_mib} MiB");
        assert!(client.read(0, bytes.len()) == bytes, "{group_mib} MiB");
        // The maximum length of a write is 1/16 of the cgroup's memory. A longer write is refused.
        let most = group_mib * MIB / 16;
        let most = most - most % (MIB / 4);
        client.ask(TRIM, 0, 0, 64 << 20).unwrap();
        client.write_at_once(0, &vec![7; most]).unwrap();
        let longer = client.write_at_once(0, &vec![8; most + 1]).unwrap_err();
        assert_eq!(longer.raw_os_error(), Some(12), "ENOMEM at {group_mib} MiB");
        assert_eq!(client.read(0, 1), [7]);
        assert_eq!(server.child.try_wait().unwrap(), None, "{group_mib} MiB: it ended");
    }
}

/// Returns the lines of a server's log.
fn log_of(server: &mut Server) -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel();
    let log = BufReader::new(server.child.stderr.take().unwrap());
    thread::spawn(move || log.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    lines
}

#[test]
fn a_limit_is_logged_before_it_is_reached_and_when_writes_fail() {
    let mut server = Server::new(&["--mem-limit", "8M"]);
    let log = log_of(&mut server);
    let mut client = server.client();
    let bytes = noise(10, MIB / 2);
    let mut nth = 0;
    let mut write = || {
        nth += 1;
        client.try_write(nth * bytes.len() as u64, &bytes)
    };
    (0..15).for_each(|_| write().unwrap());
    let line = log.recv_timeout(testkit::wait::patience()).unwrap();
    assert!(line.contains("near its limit") && line.contains("ext4 becomes read-only"), "{line}");
    assert!(line.contains("uzram attr mem_limit"), "{line}");
    until("a write fails", || write().is_err());
    let line = log.recv_timeout(testkit::wait::patience()).unwrap();
    assert!(line.contains("writes fail with 'no space left'"), "{line}");
    let metrics = server.ask("stat", &["--prometheus"]).out;
    assert!(metrics.lines().any(|line| line == "uzram_pool_near_limit{disk=\"\"} 1"), "{metrics}");
    // After the limit was raised, writes succeed again.
    assert_eq!(server.ask("attr", &["mem_limit", "12M"]).code, Some(0));
    write().unwrap();
    let metrics = server.ask("stat", &["--prometheus"]).out;
    assert!(metrics.lines().any(|line| line == "uzram_pool_near_limit{disk=\"\"} 0"), "{metrics}");
}
