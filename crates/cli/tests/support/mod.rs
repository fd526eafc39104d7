//! Helpers that run the command `uzram` and generate data.
#![allow(dead_code, reason = "each test file uses a part")]

pub mod host;
pub mod metrics;
pub mod nbd;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
pub use testkit::wait::until;

/// The path of the command under test.
pub const UZRAM: &str = env!("CARGO_BIN_EXE_uzram");
/// The path of the host. The host lies beside the command.
pub const HOST: &str = env!("CARGO_BIN_EXE_uzram-host");

/// The maximum time until a server ends, whatever its clients do. While it serves, a server waits
/// longer for the remaining bytes of a request.
pub const ENDS_WITHIN: Duration = Duration::from_secs(29);

/// The size of a page in bytes.
pub const PAGE: usize = 4096;

/// Returns the command `uzram fill`, whose output is captured.
pub fn fill() -> Command {
    let mut command = Command::new(UZRAM);
    command.arg("fill").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The result of a process: its exit code, or `None` if a signal killed it, and its output.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Ended {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        Ended {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// Runs the command until it ends.
pub fn end(command: &mut Command) -> Ended {
    command.output().unwrap().into()
}

/// Returns `bytes` random bytes. The bytes differ for each `nth` and for each `UZRAM_SEED`.
pub fn noise(nth: u64, bytes: usize) -> Vec<u8> {
    let mut state = testkit::seed_of(nth);
    let mut words = Vec::with_capacity(bytes + 8);
    while words.len() < bytes {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        words.extend_from_slice(
            &(mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb).to_le_bytes(),
        );
    }
    words.truncate(bytes);
    words
}

/// Returns `bytes` bytes of text, which compress to about a third.
pub fn text(nth: u64, bytes: usize) -> Vec<u8> {
    let words = ["page ", "slot ", "zspage ", "compressed ", "object ", "handle\n", "in ", "the "];
    let noise = noise(nth, bytes / 2);
    let picked = noise.iter().map(|byte| words[usize::from(byte % 8)]);
    let mut text: Vec<u8> = picked.flat_map(str::bytes).take(bytes).collect();
    text.resize(bytes, b'.');
    text
}

/// Writes files into a directory.
pub fn write_all(dir: &Path, files: &[(&str, Vec<u8>)]) {
    for (name, data) in files {
        let path = dir.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, data).unwrap();
    }
}

/// A running `uzram serve` with its own sockets. Dropping this value kills the server.
pub struct Server {
    pub child: Child,
    pub dir: tempfile::TempDir,
    /// The first line of the server's output, which contains the disk and its URI.
    pub announcement: String,
}

impl Server {
    /// Starts a server with a disk of 256 MiB.
    pub fn new(args: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut command = serve(dir.path());
        if !args.contains(&"--nbd") {
            command.args(["--nbd", "unix:nbd.sock"]);
        }
        let child = command.args(args).spawn().unwrap();
        Server::announced(child, dir)
    }

    /// Starts a server that restores its disk from `file`. The sockets lie in a separate directory.
    pub fn restored(file: &Path, args: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut command = serve_unsized(dir.path());
        command.args(["--nbd", "unix:nbd.sock", "--restore"]).arg(file).args(args);
        let child = command.spawn().unwrap();
        Server::announced(child, dir)
    }

    /// Starts a server by a shell line that ends in `exec "$@"`. The server has its own sockets.
    pub fn within(line: &str, args: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", line, "sh", UZRAM, "serve", "--nbd", "unix:nbd.sock"]).args(args);
        command.arg("--control").arg(dir.path().join("control.sock")).current_dir(dir.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Server::announced(command.spawn().unwrap(), dir)
    }

    /// Returns a running server. Panics with the server's output if the server has ended.
    pub fn announced(child: Child, dir: tempfile::TempDir) -> Self {
        let mut server = Server::begun(child, dir);
        if server.announcement.is_empty() {
            let (code, _) = server.ended();
            panic!("it does not serve, and ended with {code:?}: {}", server.said());
        }
        server
    }

    /// Returns a server that may have ended without an announcement.
    pub fn begun(mut child: Child, dir: tempfile::TempDir) -> Self {
        let mut announcement = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut announcement).unwrap();
        Server { child, dir, announcement }
    }

    pub fn uri(&self) -> String {
        self.announcement.trim_end().rsplit(": ").next().unwrap().to_owned()
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("nbd.sock")
    }

    pub fn client(&self) -> nbd::Client {
        nbd::Client::new(&self.socket())
    }

    pub fn control(&self) -> String {
        self.dir.path().join("control.sock").display().to_string()
    }

    /// Runs a command that sends a request to the server.
    pub fn ask(&self, command: &str, args: &[&str]) -> Ended {
        end(Command::new(UZRAM).args([command, "--control", &self.control()]).args(args))
    }

    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    /// Sends signals with pauses of `pause`. Returns whether the signals were sent close together.
    pub fn signal_at_once(&self, signals: &[Signal], pause: Duration) -> bool {
        let begun = Instant::now();
        for (nth, signal) in signals.iter().enumerate() {
            std::thread::sleep(if nth > 0 { pause } else { Duration::ZERO });
            kill_process(Pid::from_child(&self.child), *signal).unwrap();
        }
        begun.elapsed() < Duration::from_millis(200)
    }

    /// Returns the server's standard error after the server has ended.
    pub fn said(&mut self) -> String {
        let mut text = String::new();
        if let Some(said) = &mut self.child.stderr {
            said.read_to_string(&mut text).unwrap();
        }
        text
    }

    /// Waits until the server has ended. Returns the server's exit code and the waiting time. The
    /// exit code is `None` if a signal ended the server.
    pub fn ended(&mut self) -> (Option<i32>, Duration) {
        let begun = Instant::now();
        until("it ends", || self.child.try_wait().unwrap().is_some());
        (self.child.wait().unwrap().code(), begun.elapsed())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the command `uzram serve` for a disk of 256 MiB. The control socket lies in `dir`.
pub fn serve(dir: &Path) -> Command {
    let mut command = serve_unsized(dir);
    command.args(["--size", "256M"]);
    command
}

/// Returns the command `uzram serve` without a disk size. The control socket lies in `dir`.
pub fn serve_unsized(dir: &Path) -> Command {
    let mut command = Command::new(UZRAM);
    command.arg("serve").current_dir(dir);
    command.arg("--control").arg(dir.join("control.sock"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}
