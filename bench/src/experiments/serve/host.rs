//! Servers that run in processes of their own: uzram's server, which is this program, and nbdkit.

use std::env;
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use measure::memory::bytes;
use measure::page::PAGE_SIZE;

use super::held::{Holds, Order, PoolKind};
use crate::Error;
use crate::own::{Pipes, Task};
use crate::processor_time;
use crate::undo::{Action, Undo, apart, whole};

/// The time within which a server must begin to listen.
const STARTS_WITHIN: Duration = Duration::from_secs(10);

/// The disk that is served.
#[derive(Debug, Clone, Copy)]
pub enum Disk {
    /// A uzram device with this codec, level and block size in bytes.
    Ours { algorithm: &'static str, level: Option<i32>, block: usize, pool: PoolKind },
    /// nbdkit's memory plugin.
    Nbdkit { allocator: &'static str },
}

impl Disk {
    /// Returns a uzram device with zstd at nbdkit's level.
    pub fn zstd(block: usize) -> Disk {
        Disk::Ours { algorithm: "zstd", level: Some(3), block, pool: PoolKind::Native }
    }

    pub fn lz4() -> Disk {
        Disk::packed(PoolKind::Native)
    }

    /// Returns a uzram device with lz4 and blocks of one page.
    pub(crate) fn packed(pool: PoolKind) -> Disk {
        Disk::Ours { algorithm: "lz4", level: None, block: PAGE_SIZE, pool }
    }

    pub fn name(&self) -> String {
        match self {
            Disk::Ours { algorithm, .. } => format!("ours {algorithm}"),
            Disk::Nbdkit { allocator } => format!("nbdkit memory allocator={allocator}"),
        }
    }

    fn command(&self, path: PathBuf, bytes: u64, mount: Option<PathBuf>) -> Result<Command, Error> {
        match *self {
            Disk::Nbdkit { allocator } => {
                let mut command = Command::new("nbdkit");
                command.arg("-f").arg("-U").arg(path).args(["memory", &bytes.to_string()]);
                command.arg(format!("allocator={allocator}"));
                Ok(command)
            }
            Disk::Ours { algorithm, level, block, pool } => {
                let algorithm = algorithm.to_owned();
                Task::Serve.command(&Order { path, algorithm, level, block, bytes, mount, pool })
            }
        }
    }
}

/// The process id, the directory and the pipes of a server.
type Spawned = (u32, PathBuf, Option<Pipes>);

/// A running server, which is killed on drop.
#[derive(Debug)]
pub struct Host {
    pid: u32,
    dir: PathBuf,
    disk: Disk,
    /// The pipes over which a uzram server receives requests for its device's statistics.
    pipes: Mutex<Option<Pipes>>,
    _undo: Undo,
}

impl Host {
    /// Starts a server and waits until it listens.
    pub fn start(disk: &Disk, bytes: u64) -> Result<Host, Error> {
        Host::ready(disk, bytes, None, "nbd")
    }

    /// Starts a uzram server whose disk is also mounted as a file.
    pub fn mounted(disk: &Disk, bytes: u64) -> Result<Host, Error> {
        Host::ready(disk, bytes, Some("m"), "m/disk")
    }

    pub fn file(&self) -> PathBuf {
        self.dir.join("m/disk")
    }

    /// Starts a server and waits until `file` exists in its directory and the server listens.
    fn ready(disk: &Disk, bytes: u64, mount: Option<&str>, file: &str) -> Result<Host, Error> {
        let begun = Instant::now();
        let ((pid, dir, pipes), undo) = Undo::of(|| Host::spawn(disk, bytes, mount))?;
        let host = Host { pid, dir, disk: *disk, pipes: Mutex::new(pipes), _undo: undo };
        while !host.dir.join(file).exists() || UnixStream::connect(host.dir.join("nbd")).is_err() {
            if begun.elapsed() > STARTS_WITHIN {
                return Err(failed(disk, "it does not listen"));
            }
            sleep(Duration::from_millis(10));
        }
        Ok(host)
    }

    /// Starts a server. Returns the server, which might not listen yet, and the action that ends
    /// it.
    fn spawn(disk: &Disk, bytes: u64, mount: Option<&str>) -> Result<(Spawned, Action), Error> {
        let remedy = "set TMPDIR to a directory of yours";
        let dir = TempDir::with_prefix("uzram-bench-");
        let dir = dir.map_err(Error::file("create in", &env::temp_dir(), remedy))?.keep();
        let mount = mount.map(|name| dir.join(name));
        if let Some(mount) = &mount {
            let made = fs::create_dir(mount).inspect_err(|_| drop(fs::remove_dir_all(&dir)));
            made.map_err(Error::file("create", mount, remedy))?;
        }
        let mut command = disk.command(dir.join("nbd"), bytes, mount.clone())?;
        let is_ours = matches!(disk, Disk::Ours { .. });
        let end = || if is_ours { Stdio::piped() } else { Stdio::null() };
        let child = command.stdin(end()).stdout(end()).spawn();
        let child = child.inspect_err(|_| drop(fs::remove_dir_all(&dir)));
        let mut child = child.map_err(|error| match (disk, error.kind()) {
            (Disk::Nbdkit { .. }, std::io::ErrorKind::NotFound) => {
                Error::ToolMissing { tool: "nbdkit", package: "nbdkit" }
            }
            _ => failed(disk, &error.to_string()),
        })?;
        let host = (child.id(), dir.clone(), Pipes::of(&mut child));
        let end: Action = Box::new(move || {
            let _ = child.kill();
            let _ = child.wait();
            if let Some(mount) = mount {
                // The command fails if the server has unmounted the disk.
                let _unmounted = whole(apart("umount").arg("-l").arg(mount));
            }
            let _ = fs::remove_dir_all(&dir);
            Ok(())
        });
        Ok((host, end))
    }

    pub fn name(&self) -> String {
        self.disk.name()
    }

    pub fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.dir.join("nbd").display())
    }

    /// Asks a uzram server for the amounts of data on its device.
    pub(crate) fn holds(&self) -> Result<Holds, Error> {
        let mut pipes = self.pipes.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *pipes {
            Some(pipes) => pipes.ask(&()),
            None => Err(failed(&self.disk, "it is not one of ours")),
        }
    }

    /// Returns the seconds of processor time that the server has used.
    pub fn processor_time(&self) -> Result<f64, Error> {
        processor_time::of_process(self.pid)
    }

    /// Returns the size of the server's resident and swapped memory in bytes.
    pub fn held(&self) -> Result<u64, Error> {
        let path = PathBuf::from(format!("/proc/{}/smaps_rollup", self.pid));
        let text = fs::read_to_string(&path).map_err(Error::file(
            "read",
            &path,
            "run it as the same user",
        ))?;
        let held = bytes(&text, "Rss").zip(bytes(&text, "Swap")).map(|(rss, swap)| rss + swap);
        held.ok_or_else(|| failed(&self.disk, "its memory is not told"))
    }
}

fn failed(disk: &Disk, reason: &str) -> Error {
    let reason = format!("{}: {reason}", disk.name());
    Error::ToolFailed { tool: "a server", reason, remedy: "see its message on standard error" }
}
