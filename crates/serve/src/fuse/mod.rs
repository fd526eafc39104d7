//! The device as files: `disk` is the device itself, `attr/NAME` its attributes, `classes` its size classes.
//!
//! All files are read and written past the page cache: of the disk it would keep uncompressed copies, and attributes
//! have no length before they are read. What is in them is known in `files`, which are there in `node`, and how the
//! kernel asks in `calls`.

mod calls;
mod files;
mod node;

use crate::disk::Disk;
use crate::nbd::Mode;
use files::Files;
use fuser::{BackgroundSession, Config, MountOption};
use rustix::mount::{UnmountFlags, unmount};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;
use zram::{Zram, room};

/// Bytes of the stack of who waits for the end.
const STACK: usize = 256 << 10;

/// Bytes of address space that the library takes for each of its threads: a buffer, and the usual stack.
const THREAD_BYTES: usize = (16 << 20) + (2 << 20) + (64 << 10);

/// Where a device is mounted, until it is stopped.
#[derive(Debug)]
pub struct Mounted {
    session: BackgroundSession,
    dir: PathBuf,
    has_ended: Arc<AtomicBool>,
}

impl Mounted {
    /// Mounts at a directory, of which what is in it can't be seen meanwhile.
    ///
    /// # Errors
    /// There is no such directory, no `/dev/fuse`, or no right to mount and no `fusermount3`; or too little address space.
    pub fn start(
        dir: &Path,
        zram: Arc<Zram>,
        disk: Arc<dyn Disk>,
        mode: Mode,
        threads: usize,
    ) -> io::Result<Self> {
        // The system would mount there, and nobody could go in.
        if dir.is_file() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        // Its threads can't be told that there is none.
        if !room::is_left((threads.max(1) + 1).saturating_mul(THREAD_BYTES)) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let has_ended = Arc::new(AtomicBool::new(false));
        let files = Files::new(zram, disk, mode, has_ended.clone());
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName("uzram".to_owned()),
            MountOption::Subtype("uzram".to_owned()),
            MountOption::DefaultPermissions,
            MountOption::NoSuid,
            MountOption::NoDev,
        ];
        config.n_threads = Some(threads.max(1));
        config.clone_fd = true;
        let session = fuser::spawn_mount(files, dir, &config)?;
        Ok(Mounted { session, dir: dir.to_owned(), has_ended })
    }

    /// Unmounts; whether all who used it were gone in time. No write is acknowledged from now on; what those get who stay,
    /// are errors.
    pub fn stop(self, within: Duration) -> bool {
        self.has_ended.store(true, SeqCst);
        // So that no one who uses it holds that up. Without the right to, fusermount does the same.
        let _ = unmount(&self.dir, UnmountFlags::DETACH);
        let (ended, ends) = mpsc::channel();
        let session = self.session;
        let waiter = thread::Builder::new().stack_size(STACK).spawn(move || {
            let _ = session.umount_and_join();
            let _ = ended.send(());
        });
        waiter.is_ok() && ends.recv_timeout(within).is_ok()
    }
}
