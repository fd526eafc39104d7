//! The system's list of mounts.

use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{self, Mode, OFlags, makedev};
use std::ffi::OsString;
use std::fs::read_to_string;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// A mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MountEntry {
    pub(crate) id: u64,
    /// The number of the mount on which this mount is mounted.
    pub(crate) parent: u64,
    /// The number of the mount's file system.
    pub(crate) device: u64,
    pub(crate) fs_type: String,
    /// The mount point. The system escapes this path and the next two fields, which may be in any
    /// encoding.
    pub(crate) dir: Vec<u8>,
    pub(crate) source: Vec<u8>,
    pub(crate) options: Vec<u8>,
}

/// Opens a path without a request to the server of the file system.
pub(crate) fn open(path: &Path) -> io::Result<OwnedFd> {
    Ok(fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
}

/// Returns the mount that contains an open file.
pub(crate) fn of(file: &OwnedFd) -> io::Result<MountEntry> {
    let told = read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd()))?;
    let id = told.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok());
    let found = all()?.into_iter().find(|entry| Some(entry.id) == id);
    found.ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Returns all mounts that this process can see.
pub(crate) fn all() -> io::Result<Vec<MountEntry>> {
    let told = std::fs::read("/proc/self/mountinfo")?;
    Ok(told.split(|&byte| byte == b'\n').filter_map(entry).collect())
}

fn entry(line: &[u8]) -> Option<MountEntry> {
    const BETWEEN: &[u8] = b" - ";
    let between = line.windows(BETWEEN.len()).position(|of| of == BETWEEN)?;
    let (of_mount, of_system) = (&line[..between], &line[between + BETWEEN.len()..]);
    let text = |word: &[u8]| String::from_utf8(word.to_vec()).ok();
    let mut of_mount = of_mount.split(|&byte| byte == b' ');
    let mut number = || text(of_mount.next()?)?.parse().ok();
    let (id, parent) = (number()?, number()?);
    let device = device_number(&text(of_mount.next()?)?)?;
    let dir = of_mount.nth(1)?.to_owned();
    let mut of_system = of_system.split(|&byte| byte == b' ');
    let (fs_type, source) = (text(of_system.next()?)?, of_system.next()?.to_owned());
    let options = of_system.next().unwrap_or_default().to_owned();
    Some(MountEntry { id, parent, device, fs_type, dir, source, options })
}

/// Parses a device number of the form `MAJOR:MINOR`.
pub(crate) fn device_number(text: &str) -> Option<u64> {
    let (major, minor) = text.trim_end().split_once(':')?;
    Some(makedev(major.parse().ok()?, minor.parse().ok()?))
}

/// Decodes a path in which the system has escaped bytes that would split words. An escaped byte has
/// the form `\\OOO`, in octal.
pub(crate) fn unescaped(text: &[u8]) -> PathBuf {
    let (mut bytes, mut rest) = (Vec::new(), text);
    while let Some((&byte, behind)) = rest.split_first() {
        let code = behind
            .get(..3)
            .filter(|_| byte == b'\\')
            .and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 8).ok());
        bytes.push(code.unwrap_or(byte));
        rest = if code.is_some() { &behind[3..] } else { behind };
    }
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        let line =
            "36 35 98:0 /mnt1 /mnt\\0402 rw,noatime master:1 - fuse.uzram uzram rw,user_id=0";
        let entry = entry(line.as_bytes()).unwrap();
        assert_eq!((entry.id, entry.parent, entry.device), (36, 35, makedev(98, 0)));
        assert_eq!((entry.fs_type.as_str(), &entry.source[..]), ("fuse.uzram", &b"uzram"[..]));
        assert_eq!(entry.options, b"rw,user_id=0");
        assert_eq!(unescaped(&entry.dir), Path::new("/mnt 2"));
        for line in ["", "36 35", "x 35 98:0 / / - a b", "1 2 3:4 / / -"] {
            assert_eq!(super::entry(line.as_bytes()), None, "{line}");
        }
        for (text, path) in [
            ("/a\\040b\\134\\054", "/a b\\,"),
            ("/a\\04", "/a\\04"),
            ("\\999\\777", "\\999\\777"),
            ("", ""),
        ] {
            assert_eq!(unescaped(text.as_bytes()), Path::new(path), "{text}");
        }
        let odd = b"36 35 98:0 / /\xff\xfe rw - overlay \xff upperdir=/\xfe\\040";
        let odd = super::entry(odd).unwrap();
        assert_eq!((odd.fs_type.as_str(), &odd.source[..]), ("overlay", &b"\xff"[..]));
        assert_eq!(unescaped(&odd.options).into_os_string().into_vec(), b"upperdir=/\xfe ");
        let here = of(&open(Path::new("/proc/self")).unwrap()).unwrap();
        assert_eq!(here.fs_type, "proc");
    }
}
