//! Handles the kernel's requests to the mounted file system.

use super::Mapping;
use super::files::{AttributeWrite, Files};
use super::node::Node;
use crate::policy::{FUSE_REQUEST_MAX, FUSE_STACK, TTL};
use crate::spawn::spawn;
use fuser::{
    Errno, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyWrite, Request, TimeOrNow,
    WriteFlags,
};
use std::ffi::OsStr;
use std::io;
use std::sync::Arc;
use std::time::SystemTime;
use zram::Access;

/// The size of a sector in bytes.
const SECTOR: u64 = 512;

const SEEK_DATA: i32 = 3;
const SEEK_HOLE: i32 = 4;

impl Filesystem for Files {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // The kernel can use a lower maximum.
        let _ = config.set_max_write(FUSE_REQUEST_MAX);
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        if self.mapping == Mapping::Shared {
            // `Mounted::start` has checked that the kernel supports this capability.
            let _ = config.add_capabilities(InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP);
        }
        Ok(())
    }

    // The set of files is fixed. No file can be created, removed or renamed.
    fn mknod(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, _: u32, _: u32, reply: ReplyEntry) {
        reply.error(Errno::EPERM);
    }

    fn create(
        &self,
        _: &Request,
        _: INodeNo,
        _: &OsStr,
        _: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        reply.error(Errno::EPERM);
    }

    fn mkdir(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        reply.error(Errno::EPERM);
    }

    fn unlink(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::EPERM);
    }

    fn rmdir(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::EPERM);
    }

    fn rename(
        &self,
        _: &Request,
        _: INodeNo,
        _: &OsStr,
        _: INodeNo,
        _: &OsStr,
        _: RenameFlags,
        reply: ReplyEmpty,
    ) {
        reply.error(Errno::EPERM);
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

    /// A program that opens a file for overwriting truncates the file. As with a block device, the
    /// truncation has no effect.
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
        let is_odd = |size: u64| size > attr.size || !size.is_multiple_of(SECTOR);
        if matches!(node, Node::Disk) && size.is_some_and(is_odd) {
            return reply.error(Errno::EINVAL);
        }
        if mode.is_some() || uid.is_some() || gid.is_some() {
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
                Ok(Arc::default())
            }
            Some(Node::Attribute(attribute)) if attribute.access() == Access::Write => {
                Ok(Arc::default())
            }
            Some(Node::Attribute(attribute)) => self.text(attribute.name),
            Some(Node::Classes) => self.text("classes"),
            _ => Err(Errno::ENOENT),
        };
        match text.and_then(|text| self.open(text)) {
            Ok(handle) => reply.opened(FileHandle(handle), direct),
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
        self.close(handle.0);
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
        let text = self.opened(handle.0);
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
        let answer = |reply: ReplyWrite, written| match written {
            Ok(len) => reply.written(len),
            Err(error) => reply.error(error),
        };
        match Node::by_number(ino.0) {
            Some(Node::Disk) => answer(reply, self.write_disk(offset, data)),
            Some(node) => match AttributeWrite::new(node, offset, data) {
                Err(error) => reply.error(error),
                // The write may start a job, so another thread executes the write. If no thread can
                // be started, `reply` is dropped, which sends an error.
                Ok(stored) => {
                    let (steered, len) = (self.steered.clone(), data.len() as u32);
                    let stores = move || answer(reply, stored.store(&*steered).map(|()| len));
                    drop(spawn("attribute", FUSE_STACK, stores));
                }
            },
            None => reply.error(Errno::ENOENT),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        match self.acknowledged(self.disk.flush()) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
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
