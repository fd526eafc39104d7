//! The device as files: `disk` is the device itself, `attr/NAME` its attributes, `classes` its size
//! classes.
//!
//! All files are read and written with direct I/O, because the page cache would keep uncompressed
//! copies of the disk's data, and the length of an attribute is unknown until the attribute is
//! read. The module `files` provides the contents of files, `node` lists the files, and `calls`
//! handles the kernel's requests.

mod calls;
mod files;
mod fusermount;
mod mount;
mod node;

use crate::disk::Disk;
use crate::log::Log;
use crate::nbd::Mode;
use crate::policy::{FUSE_STACK, FUSE_THREAD_BYTES, FUSE_THREADS_MIN, READY_STEP, READY_WITHIN};
use crate::spawn::spawn_within;
use crate::steered::Steered;
use files::Files;
use fuser::{BackgroundSession, Config, Session, SessionACL};
use mount::Mount;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::sleep;
use std::time::{Duration, Instant};
use zram::room;

/// Whether programs are allowed to map the disk with MAP_SHARED, so that writes to memory are
/// writes to the disk.
///
/// The kernel caches the pages of a shared mapping. The cached pages are coherent with reads and
/// writes of the file. The cached pages are not coherent with writes by NBD clients, so NBD clients
/// must not write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapping {
    /// Shared mappings are refused (ENODEV). Private mappings are allowed.
    Private,
    /// Shared mappings are allowed. They need Linux 6.6 or newer.
    Shared,
}

/// The options of a mount.
#[derive(Clone, Copy, Debug)]
pub struct MountOptions {
    /// Whether the disk can be written.
    pub mode: Mode,
    /// Whether the disk can be mapped.
    pub mapping: Mapping,
    /// The number of threads that serve requests.
    pub threads: usize,
}

/// A mounted device. The device stays mounted until `stop` is called.
#[derive(Debug)]
pub struct Mounted {
    session: BackgroundSession,
    mount: Mount,
    log: Log,
    has_ended: Arc<AtomicBool>,
}

impl Mounted {
    /// Mounts the device at a directory, which hides the directory's contents. First unmounts any
    /// dead mount of a killed server at the directory, and logs a line.
    ///
    /// # Errors
    /// Fails if the directory or `/dev/fuse` does not exist, or if the address space is too small.
    /// Fails too if this user has neither the privilege to mount nor `fusermount3`.
    pub fn start(
        dir: &Path,
        steered: Arc<dyn Steered>,
        disk: Arc<dyn Disk>,
        options: MountOptions,
        log: Log,
    ) -> io::Result<Self> {
        let MountOptions { mode, mapping, threads } = options;
        if mapping == Mapping::Shared && !is_mapping_supported() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let threads = threads.max(FUSE_THREADS_MIN);
        // The library can't report a failed start of its threads, so the address space is checked
        // first.
        if !room::is_left((threads + 1).saturating_mul(FUSE_THREAD_BYTES)) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let has_ended = Arc::new(AtomicBool::new(false));
        let files = Files::new(steered, disk, (mode, mapping), has_ended.clone());
        let mut config = Config::default();
        config.n_threads = Some(threads);
        // Each thread has its own descriptor, if this user is allowed to open `/dev/fuse`.
        config.clone_fd = File::options().read(true).write(true).open("/dev/fuse").is_ok();
        let (mount, connection) = Mount::new(dir, &log)?;
        let session = Session::from_fd(files, connection, SessionACL::Owner, config)?.spawn()?;
        wait_for_threads(threads);
        Ok(Mounted { session, mount, log, has_ended })
    }

    /// Returns the loop devices whose files lie on the mount, and the mounts of these devices. Each
    /// result is a text for a message, such as "loop device /dev/loop0, mounted at '/mnt'".
    pub fn holders(&self) -> Vec<String> {
        self.mount.holders()
    }

    /// Writes to the disk all pages that programs have changed in shared mappings of the disk.
    /// Waits at most `within` for the pages to be written. [`stop`](Self::stop) refuses later
    /// writes.
    pub fn sync(&self, within: Duration) {
        self.mount.sync(within);
    }

    /// Unmounts the device. Returns whether the device was unmounted in time. After this call, no
    /// write is acknowledged, and programs that still use the mount get errors. If another file
    /// system was mounted over the directory, neither file system is unmounted, and the mount of
    /// this device is dead.
    pub fn stop(self, within: Duration) -> bool {
        self.has_ended.store(true, SeqCst);
        let Mounted { session, mut mount, log, .. } = self;
        let unmounted = spawn_within("unmount", FUSE_STACK, within, move || {
            let taken_off = mount.detach();
            if let Err(error) = &taken_off {
                log.line(format_args!("can't unmount {}: {error}", mount.name()));
            } else {
                let _ = session.join();
            }
            taken_off.is_ok()
        });
        unmounted == Some(true)
    }
}

/// Returns whether the kernel supports shared mappings of a file that is read with direct I/O.
fn is_mapping_supported() -> bool {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|of| of.parse().ok());
    let version: (Option<u32>, Option<u32>) = (numbers.next().flatten(), numbers.next().flatten());
    version >= (Some(6), Some(6))
}

/// Waits until `count` threads of the FUSE library wait for requests. A thread that waits for
/// requests has allocated its buffer. Data that are written to the disk later could leave no memory
/// for the buffer. The wait is bounded, because a slow start is no reason to refuse the mount.
fn wait_for_threads(count: usize) {
    let is_waiting = |task: &fs::DirEntry| {
        let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        // A thread whose name has no number allocates no buffer.
        let named = stat.split_once("(fuser-").map(|(_, rest)| rest);
        named.is_some_and(|rest| rest.starts_with(char::is_numeric) && rest.contains(") S "))
    };
    let tasks = || fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let begun = Instant::now();
    while tasks().filter(is_waiting).count() < count && begun.elapsed() < READY_WITHIN {
        sleep(READY_STEP);
    }
}
