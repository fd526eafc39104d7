//! Tests that a command that sends a request to a stopped server ends in bounded time.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use serve::control::ANSWERS_WITHIN;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};
use support::{Server, end, until};

/// The maximum time that a command takes on an idle machine, without the time that it waits for the
/// server.
const BESIDE: Duration = Duration::from_secs(8);

/// Commands that send requests to a server. `DIR` stands for the server's directory.
const COMMANDS: [&[&str]; 15] = [
    &["stat"],
    &["stat", "--json"],
    &["stat", "--prometheus"],
    &["stat", "--watch"],
    &["attr"],
    &["attr", "disksize"],
    &["attr", "disksize", "--json"],
    &["attr", "mem_limit", "1M"],
    &["compact"],
    &["idle"],
    &["recompress"],
    &["writeback", "idle"],
    &["save", "DIR/x"],
    &["restore", "--served", "DIR/before"],
    &["cancel"],
];

#[test]
fn a_stopped_server_keeps_no_command_waiting() {
    let options = ["--set", "recomp_algorithm=algo=zstd", "--backing", "cold"];
    let server = Server::new(&options);
    let path = |name: &str| server.dir.path().join(name);
    server.client().write(0, b"here since the save");
    assert_eq!(server.ask("save", &[path("before").to_str().unwrap()]).code, Some(0));
    server.client().write(0, b"HERE");
    let before = server.ask("stat", &["--json"]).json();
    server.signal("STOP");
    let stopped = format!("kill -CONT {}'", server.child.id());
    let times = thread::scope(|scope| {
        // A process that sleeps for the same time shows how late the machine itself is.
        let ideal = scope.spawn(|| {
            let begun = Instant::now();
            end(Command::new("sleep").arg(ANSWERS_WITHIN.as_secs().to_string()));
            begun.elapsed()
        });
        let asked = COMMANDS.map(|command| {
            let (server, stopped) = (&server, &stopped);
            let dir = server.dir.path().to_str().unwrap();
            let args: Vec<_> = command[1..].iter().map(|arg| arg.replace("DIR", dir)).collect();
            scope.spawn(move || {
                let begun = Instant::now();
                let args: Vec<_> = args.iter().map(String::as_str).collect();
                let ended = server.ask(command[0], &args);
                assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""), "{command:?}");
                assert_eq!(ended.err.lines().count(), 1, "{command:?}: {ended:?}");
                for part in ["does not answer within 10 s", "control.sock'", stopped] {
                    assert!(ended.err.contains(part), "{command:?}: {ended:?}");
                }
                begun.elapsed()
            })
        });
        let ideal = ideal.join().unwrap();
        asked.map(|command| (command.join().unwrap(), ideal))
    });
    for (command, (took, ideal)) in COMMANDS.iter().zip(times) {
        assert!(took < ideal + BESIDE, "{command:?} took {took:?}, and a sleep {ideal:?}");
    }
    // The server does not carry out a failed request later.
    server.signal("CONT");
    until("it answers", || server.ask("stat", &[]).code == Some(0));
    until("all of it is read", || server.ask("attr", &["disksize"]).code == Some(0));
    thread::sleep(Duration::from_millis(300));
    let after = server.ask("stat", &["--json"]).json();
    assert_eq!(after["mem_limit"], before["mem_limit"]);
    assert!(!path("x").exists(), "a save was done whose client had given up");
    assert_eq!(server.client().read(0, 19), b"HERE since the save");
}
