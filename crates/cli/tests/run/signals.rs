//! Tests signals that are sent to the command while its child runs.

use crate::run;
use crate::support::until;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Stdio};

/// A command that waits for its child. The child is a shell that has printed its process ID.
struct Waiting {
    command: Child,
    program: Pid,
    out: BufReader<ChildStdout>,
}

impl Waiting {
    fn new(line: &str) -> Self {
        let mut command = run(&["--limit", "32M", "--stats", "--", "sh", "-c", line]);
        let mut command = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut out = BufReader::new(command.stdout.take().unwrap());
        let mut number = String::new();
        out.read_line(&mut number).unwrap();
        let program = Pid::from_raw(number.trim().parse().unwrap()).unwrap();
        Waiting { command, program, out }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.command), signal).unwrap();
    }

    /// Returns the exit code of the command, and the unread output of the program.
    fn ended(mut self) -> (Option<i32>, String) {
        until("it ends", || self.command.try_wait().unwrap().is_some());
        let mut said = String::new();
        self.out.read_to_string(&mut said).unwrap();
        (self.command.wait().unwrap().code(), said)
    }

    fn are_stopped(&self) -> [bool; 2] {
        [Pid::from_child(&self.command), self.program].map(|process| {
            let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
            stat.rsplit(") ").next().unwrap().starts_with('T')
        })
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.command.try_wait().unwrap().is_none() {
            let _ = kill_process(self.program, Signal::KILL);
            let _ = self.command.kill();
            let _ = self.command.wait();
        }
    }
}

/// Returns whether this process ignores a signal. Children inherit ignored signals, and a shell
/// can't trap an ignored signal.
fn is_ignored(signal: Signal) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(ignored.trim(), 16).unwrap() >> (signal.as_raw() - 1) & 1 == 1
}

#[test]
fn signals_are_passed_on() {
    for (signal, name) in [
        (Signal::TERM, "TERM"),
        (Signal::INT, "INT"),
        (Signal::HUP, "HUP"),
        (Signal::QUIT, "QUIT"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
    ] {
        if is_ignored(signal) {
            eprintln!("left out, as it is ignored here: {name}");
            continue;
        }
        let line =
            format!("trap 'echo {name}; exit 9' {name}; echo $$; while :; do sleep 0.05; done");
        let waiting = Waiting::new(&line);
        waiting.signal(signal);
        assert_eq!(waiting.ended(), (Some(9), format!("{name}\n")));
    }
    let waiting = Waiting::new("echo $$; exec sleep 100");
    waiting.signal(Signal::TERM);
    assert_eq!(waiting.ended().0, Some(128 + 15));
}

#[test]
fn it_stops_and_goes_on_with_its_program() {
    // On SIGTSTP, the shell sends itself SIGSTOP instead. SIGTSTP stops no process if the test runs
    // without a shell that could continue its processes.
    let line =
        "trap 'exit 9' TERM; trap 'kill -STOP $$' TSTP; echo $$; while :; do sleep 0.05; done";
    let waiting = Waiting::new(line);
    for _ in 0..3 {
        waiting.signal(Signal::TSTP);
        until("both are stopped", || waiting.are_stopped() == [true; 2]);
        waiting.signal(Signal::CONT);
        until("both go on", || waiting.are_stopped() == [false; 2]);
    }
    waiting.signal(Signal::TERM);
    assert_eq!(waiting.ended().0, Some(9));
}
