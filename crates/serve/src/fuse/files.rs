//! The contents of the mount's files, and the effects of writes to these files.

use super::Mapping;
use super::node::Node;
use crate::disk::Disk;
use crate::nbd::Mode;
use crate::steered::{self, Steered};
use fuser::{Errno, FileAttr, FileType, INodeNo};
use rustix_futex_sync::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};
use std::time::SystemTime;
use zram::Access;

/// Modes of fallocate. Punching a hole and zeroing make the range read as zeros, even if the range
/// contains parts of blocks.
const PUNCH_HOLE: i32 = 2;
const ZERO_RANGE: i32 = 16;
const KEEP_SIZE: i32 = 1;

/// The files of the mount, and the texts of the open files.
pub(super) struct Files {
    pub(super) steered: Arc<dyn Steered>,
    pub(super) disk: Arc<dyn Disk>,
    mode: Mode,
    pub(super) mapping: Mapping,
    made: SystemTime,
    /// The texts of open files other than `disk`, from the time when the files were opened.
    texts: Mutex<HashMap<u64, Arc<String>>>,
    next: AtomicU64,
    has_ended: Arc<AtomicBool>,
}

impl Files {
    pub(super) fn new(
        steered: Arc<dyn Steered>,
        disk: Arc<dyn Disk>,
        (mode, mapping): (Mode, Mapping),
        has_ended: Arc<AtomicBool>,
    ) -> Self {
        let (texts, next) = (Mutex::new(HashMap::new()), AtomicU64::new(1));
        Files { steered, disk, mode, mapping, made: SystemTime::now(), texts, next, has_ended }
    }

    /// Returns the result of an operation, or an error if the mount has ended. The disk may be
    /// saved before a late write, so no write is acknowledged after the end of the mount.
    pub(super) fn acknowledged<T>(&self, done: Result<T, rustix::io::Errno>) -> Result<T, Errno> {
        match self.has_ended.load(SeqCst) {
            true => Err(Errno::EIO),
            false => done.map_err(errno),
        }
    }

    /// Records `text`, and returns a handle by which later reads find `text`.
    pub(super) fn open(&self, text: Arc<String>) -> Result<u64, Errno> {
        let handle = self.next.fetch_add(1, Relaxed);
        let mut texts = self.texts.lock();
        texts.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        texts.insert(handle, text);
        Ok(handle)
    }

    pub(super) fn close(&self, handle: u64) {
        self.texts.lock().remove(&handle);
    }

    /// Returns the text that [`open`](Self::open) recorded.
    pub(super) fn opened(&self, handle: u64) -> Arc<String> {
        self.texts.lock().get(&handle).cloned().unwrap_or_default()
    }

    pub(super) fn attr(&self, node: Node) -> FileAttr {
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

    pub(super) fn text(&self, name: &str) -> Result<Arc<String>, Errno> {
        self.steered.zram().show(name).map(Arc::new).map_err(|error| Errno::from_i32(error.errno()))
    }

    /// Returns `size` bytes at `offset`, or fewer bytes if the disk ends before `offset + size`.
    pub(super) fn read_disk(&self, offset: u64, size: u32) -> Result<Vec<u8>, Errno> {
        let len = u64::from(size).min(self.disk.size().saturating_sub(offset));
        if len == 0 {
            return Ok(Vec::new());
        }
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len as usize).map_err(|_| Errno::ENOMEM)?;
        bytes.resize(len as usize, 0);
        self.disk.read(offset, &mut bytes).map_err(errno)?;
        Ok(bytes)
    }

    pub(super) fn write_disk(&self, offset: u64, bytes: &[u8]) -> Result<u32, Errno> {
        if self.mode == Mode::ReadOnly {
            return Err(Errno::EROFS);
        }
        let len = self.disk.size().saturating_sub(offset).min(bytes.len() as u64) as usize;
        if len == 0 && !bytes.is_empty() {
            return Err(Errno::ENOSPC);
        }
        self.acknowledged(self.disk.write(offset, &bytes[..len]))?;
        Ok(len as u32)
    }

    pub(super) fn fallocate_disk(&self, offset: u64, len: u64, mode: i32) -> Result<(), Errno> {
        let end = offset.saturating_add(len);
        let kept = end.min(self.disk.size()).saturating_sub(offset);
        match mode & !KEEP_SIZE {
            _ if self.mode == Mode::ReadOnly => Err(Errno::EROFS),
            PUNCH_HOLE | ZERO_RANGE if mode & KEEP_SIZE != 0 || end <= self.disk.size() => {
                self.acknowledged(self.disk.discard(offset, kept))
            }
            // Reservation of space is not supported.
            _ => Err(Errno::EOPNOTSUPP),
        }
    }

    /// Returns the first offset at or after `offset` at which a byte is stored. If `stored` is
    /// false, returns the first offset at which no byte is stored. The end of the disk counts as a
    /// hole.
    pub(super) fn seek(&self, offset: i64, stored: bool) -> Result<i64, Errno> {
        let (mut at, size) = (u64::try_from(offset).map_err(|_| Errno::ENXIO)?, self.disk.size());
        while at < size {
            let mut is_found = false;
            self.disk.extents(at..size, &mut |extent| {
                is_found = extent.is_stored == stored;
                at += if is_found { 0 } else { extent.len };
                !is_found
            });
            if is_found {
                return Ok(at as i64);
            }
        }
        if stored || at > size { Err(Errno::ENXIO) } else { Ok(size as i64) }
    }
}

/// A value that is to be written to an attribute.
pub(super) struct AttributeWrite {
    name: &'static str,
    text: String,
}

impl AttributeWrite {
    pub(super) fn new(node: Node, offset: u64, data: &[u8]) -> Result<Self, Errno> {
        let Node::Attribute(attribute) = node else { return Err(Errno::EACCES) };
        let text = std::str::from_utf8(data).ok().filter(|_| offset == 0).ok_or(Errno::EINVAL)?;
        // A shell writes a newline after a path, which is not part of the path. The device itself
        // removes a newline from a value that is not a path, as the kernel does.
        let is_path = matches!(attribute.name, "save" | "restore");
        let text = if is_path { text.trim_end_matches('\n') } else { text };
        Ok(AttributeWrite { name: attribute.name, text: text.to_owned() })
    }

    pub(super) fn store(self, steered: &dyn Steered) -> Result<(), Errno> {
        let stored = steered::store(steered, self.name, &self.text);
        stored.map_err(|refusal| Errno::from_i32(refusal.errno))
    }
}

fn errno(errno: rustix::io::Errno) -> Errno {
    Errno::from_i32(errno.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Refusal;
    use std::path::Path;
    use zram::{Restored, Saved, Zram};

    /// A server that refuses and records requests to save or restore the disk.
    struct Ending(Zram, Mutex<Vec<String>>);

    impl Steered for Ending {
        fn zram(&self) -> &Zram {
            &self.0
        }

        fn save(&self, path: &Path) -> Result<Saved, Refusal> {
            self.1.lock().push(format!("save {}", path.display()));
            Err(Refusal::new(rustix::io::Errno::AGAIN, "it saves itself"))
        }

        fn restore(&self, path: &Path) -> Result<Restored, Refusal> {
            self.1.lock().push(format!("restore {}", path.display()));
            Err(Refusal::new(rustix::io::Errno::BUSY, "it is mounted"))
        }
    }

    #[test]
    fn the_server_is_asked_to_save_and_restore() {
        let server = Ending(Zram::new(), Mutex::default());
        let write = |name: &str, text: &str| {
            let node = Node::Attributes.children().into_iter().find(|node| node.name() == name);
            AttributeWrite::new(node.unwrap(), 0, text.as_bytes()).unwrap().store(&server)
        };
        assert_eq!(write("save", "/a\n").unwrap_err(), Errno::EAGAIN);
        assert_eq!(write("restore", "/b").unwrap_err(), Errno::EBUSY);
        write("track_access", "1\n").unwrap();
        assert_eq!(write("track_access", "0\n\n").unwrap_err(), Errno::EINVAL, "one newline");
        assert_eq!(server.0.show("track_access").unwrap(), "1\n");
        assert_eq!(*server.1.lock(), ["save /a", "restore /b"]);
    }
}
