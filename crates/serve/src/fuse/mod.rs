//! The device as files: `disk` is the device itself, `attr/NAME` its attributes, `classes` its size classes.
//!
//! All files are read and written past the page cache: of the disk it would keep uncompressed copies, and attributes
//! have no length before they are read.

mod node;

use crate::disk::Disk;
use crate::nbd::Mode;
use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr,
    ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyWrite, Request,
    TimeOrNow, WriteFlags,
};
use node::Node;
use rustix::mount::{UnmountFlags, unmount};
use rustix_futex_sync::Mutex;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, SystemTime};
use zram::{Access, Zram};

/// How long the kernel may keep what it was told of a file: nothing of it changes.
const TTL: Duration = Duration::from_secs(60);

/// Most bytes of a request.
const REQUEST_MAX: u32 = 1 << 20;

/// Zeros, to whole blocks and parts alike: what a hole is.
const PUNCH_HOLE: i32 = 2;
const ZERO_RANGE: i32 = 16;
const KEEP_SIZE: i32 = 1;

const SEEK_DATA: i32 = 3;
const SEEK_HOLE: i32 = 4;

/// Where a device is mounted, until it is stopped.
#[derive(Debug)]
pub struct Mounted {
    session: BackgroundSession,
    dir: PathBuf,
}

impl Mounted {
    /// Mounts at a directory, of which what is in it can't be seen meanwhile.
    ///
    /// # Errors
    /// There is no such directory, no `/dev/fuse`, or no right to mount and no `fusermount3`.
    pub fn start(
        dir: &Path,
        zram: Arc<Zram>,
        disk: Arc<dyn Disk>,
        mode: Mode,
        threads: usize,
    ) -> io::Result<Self> {
        let files = Files {
            zram,
            disk,
            mode,
            made: SystemTime::now(),
            texts: Mutex::new(HashMap::new()),
            next: AtomicU64::new(1),
        };
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
        Ok(Mounted { session, dir: dir.to_owned() })
    }

    /// Unmounts; whether all who used it were gone in time. If not they get errors once this process has ended.
    pub fn stop(self, within: Duration) -> bool {
        // So that no one who uses it holds that up. Without the right to, fusermount does the same.
        let _ = unmount(&self.dir, UnmountFlags::DETACH);
        let (ended, ends) = mpsc::channel();
        let session = self.session;
        let waiter = thread::Builder::new().spawn(move || {
            let _ = session.umount_and_join();
            let _ = ended.send(());
        });
        waiter.is_ok() && ends.recv_timeout(within).is_ok()
    }
}

/// The files, and what was read of those that are open.
struct Files {
    zram: Arc<Zram>,
    disk: Arc<dyn Disk>,
    mode: Mode,
    made: SystemTime,
    /// Of files that are open but the disk: as they were then.
    texts: Mutex<HashMap<u64, Arc<str>>>,
    next: AtomicU64,
}

impl Files {
    fn attr(&self, node: Node) -> FileAttr {
        let size = if let Node::Disk = node { self.disk.size() } else { 0 };
        let perm = match (node, self.mode) {
            (Node::Root | Node::Attributes, _) => 0o500,
            (Node::Disk, Mode::ReadWrite) => 0o600,
            (Node::Disk, Mode::ReadOnly) | (Node::Classes, _) => 0o400,
            (Node::Attribute(attribute), _) => match attribute.access() {
                Access::Read => 0o400,
                Access::Write => 0o200,
                Access::ReadWrite => 0o600,
            },
        };
        let kind = if node.is_directory() { FileType::Directory } else { FileType::RegularFile };
        FileAttr {
            ino: INodeNo(node.number()),
            size,
            blocks: size / 512,
            atime: self.made,
            mtime: self.made,
            ctime: self.made,
            crtime: self.made,
            kind,
            perm,
            nlink: if node.is_directory() { 2 } else { 1 },
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            rdev: 0,
            blksize: self.disk.block(),
            flags: 0,
        }
    }

    fn text(&self, name: &str) -> Result<Arc<str>, Errno> {
        self.zram.show(name).map(Arc::from).map_err(|error| Errno::from_i32(error.errno()))
    }

    fn read_disk(&self, offset: u64, size: u32) -> Result<Vec<u8>, Errno> {
        let len = u64::from(size).min(self.disk.size().saturating_sub(offset));
        let mut bytes = vec![0; len as usize];
        self.disk.read(offset, &mut bytes).map_err(errno)?;
        Ok(bytes)
    }

    fn write_disk(&self, offset: u64, bytes: &[u8]) -> Result<u32, Errno> {
        if self.mode == Mode::ReadOnly {
            return Err(Errno::EROFS);
        }
        let len = self.disk.size().saturating_sub(offset).min(bytes.len() as u64) as usize;
        if len == 0 && !bytes.is_empty() {
            return Err(Errno::ENOSPC);
        }
        self.disk.write(offset, &bytes[..len]).map_err(errno)?;
        Ok(len as u32)
    }

    fn fallocate_disk(&self, offset: u64, len: u64, mode: i32) -> Result<(), Errno> {
        let end = offset.saturating_add(len);
        let kept = end.min(self.disk.size()).saturating_sub(offset);
        match mode & !KEEP_SIZE {
            _ if self.mode == Mode::ReadOnly => Err(Errno::EROFS),
            PUNCH_HOLE | ZERO_RANGE if mode & KEEP_SIZE != 0 || end <= self.disk.size() => {
                self.disk.write_zeroes(offset, kept).map_err(errno)
            }
            // Room can't be promised.
            _ => Err(Errno::EOPNOTSUPP),
        }
    }

    /// Where the next byte is that is stored, or is not; the end of the disk counts as a hole.
    fn seek(&self, offset: i64, stored: bool) -> Result<i64, Errno> {
        let (mut at, size) = (u64::try_from(offset).map_err(|_| Errno::ENXIO)?, self.disk.size());
        while at < size {
            for extent in self.disk.extents(at..size, 64) {
                if extent.is_stored == stored {
                    return Ok(at as i64);
                }
                at += extent.len;
            }
        }
        if stored || at > size { Err(Errno::ENXIO) } else { Ok(size as i64) }
    }

    fn store(&self, node: Node, offset: u64, data: &[u8]) -> Result<u32, Errno> {
        let Node::Attribute(attribute) = node else { return Err(Errno::EACCES) };
        let text = std::str::from_utf8(data).map_err(|_| Errno::EINVAL)?;
        if offset != 0 {
            return Err(Errno::EINVAL);
        }
        let stored = self.zram.store(attribute.name, text);
        stored.map(|()| data.len() as u32).map_err(|error| Errno::from_i32(error.errno()))
    }
}

fn errno(errno: rustix::io::Errno) -> Errno {
    Errno::from_i32(errno.raw_os_error())
}

impl Filesystem for Files {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Where the kernel takes less, less it is.
        let _ = config.set_max_write(REQUEST_MAX);
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let children = Node::by_number(parent.0).map(Node::children).unwrap_or_default();
        match children.into_iter().find(|node| Some(node.name()) == name.to_str()) {
            Some(node) => reply.entry(&TTL, &self.attr(node), Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match Node::by_number(ino.0) {
            Some(node) => reply.attr(&TTL, &self.attr(node)),
            None => reply.error(Errno::ENOENT),
        }
    }

    /// A shell that writes to an attribute cuts it down to nothing first, which changes nothing.
    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let Some(node) = Node::by_number(ino.0) else { return reply.error(Errno::ENOENT) };
        let attr = self.attr(node);
        let is_resized = matches!(node, Node::Disk) && size.is_some_and(|size| size != attr.size);
        if is_resized || mode.is_some() || uid.is_some() || gid.is_some() {
            return reply.error(Errno::EPERM);
        }
        reply.attr(&TTL, &attr);
    }

    fn open(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let direct = FopenFlags::FOPEN_DIRECT_IO;
        let text = match Node::by_number(ino.0) {
            Some(Node::Disk) => {
                return reply
                    .opened(FileHandle(0), direct | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES);
            }
            Some(Node::Attribute(_)) if flags.acc_mode() == fuser::OpenAccMode::O_WRONLY => {
                Ok(Arc::from(""))
            }
            Some(Node::Attribute(attribute)) if attribute.access() == Access::Write => {
                Ok(Arc::from(""))
            }
            Some(Node::Attribute(attribute)) => self.text(attribute.name),
            Some(Node::Classes) => self.text("classes"),
            _ => Err(Errno::ENOENT),
        };
        match text {
            Ok(text) => {
                let handle = self.next.fetch_add(1, Relaxed);
                self.texts.lock().insert(handle, text);
                reply.opened(FileHandle(handle), direct);
            }
            Err(error) => reply.error(error),
        }
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.texts.lock().remove(&handle.0);
        reply.ok();
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        if let Some(Node::Disk) = Node::by_number(ino.0) {
            return match self.read_disk(offset, size) {
                Ok(bytes) => reply.data(&bytes),
                Err(error) => reply.error(error),
            };
        }
        let text = self.texts.lock().get(&handle.0).cloned().unwrap_or_else(|| Arc::from(""));
        let start = text.len().min(offset as usize);
        let end = text.len().min(start + size as usize);
        reply.data(&text.as_bytes()[start..end]);
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let written = match Node::by_number(ino.0) {
            Some(Node::Disk) => self.write_disk(offset, data),
            Some(node) => self.store(node, offset, data),
            None => Err(Errno::ENOENT),
        };
        match written {
            Ok(len) => reply.written(len),
            Err(error) => reply.error(error),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        match self.disk.flush() {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn fallocate(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        len: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let done = match Node::by_number(ino.0) {
            Some(Node::Disk) => self.fallocate_disk(offset, len, mode),
            _ => Err(Errno::EOPNOTSUPP),
        };
        match done {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn lseek(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let found = match (Node::by_number(ino.0), whence) {
            (Some(Node::Disk), SEEK_DATA) => self.seek(offset, true),
            (Some(Node::Disk), SEEK_HOLE) => self.seek(offset, false),
            _ => Err(Errno::EINVAL),
        };
        match found {
            Ok(at) => reply.offset(at),
            Err(error) => reply.error(error),
        }
    }

    fn readdir(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let Some(node) = Node::by_number(ino.0).filter(|node| node.is_directory()) else {
            return reply.error(Errno::ENOTDIR);
        };
        let dots = [(node.number(), "."), (Node::Root.number(), "..")];
        let children = node.children().into_iter().map(|child| (child.number(), child.name()));
        for (nth, (number, name)) in
            dots.into_iter().chain(children).enumerate().skip(offset as usize)
        {
            let is_directory = Node::by_number(number).is_some_and(Node::is_directory);
            let kind = if is_directory { FileType::Directory } else { FileType::RegularFile };
            if reply.add(INodeNo(number), nth as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }
}
