//! A file that is about to be executed. The runtime reads the file by system calls that are not
//! dispatched.

use crate::group::stat;
use crate::kernel::{CWD, ENOSYS, WORD};
use dispatch::{OwnFile, system};
use executable::{Denial, FileRights, Rights};
use std::ffi::CString;
use std::io::{self, Read, Seek, SeekFrom};
use std::mem::offset_of;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// The index of the word with the mount flags in a `statfs`.
const MOUNT_FLAGS: usize = offset_of!(libc::statfs, f_frsize) / WORD + 1;

#[derive(Debug)]
pub(crate) struct ExecutedFile {
    file: OwnFile,
    facts: libc::stat,
    at: u64,
}

fn name(path: &Path) -> Option<CString> {
    CString::new(path.as_os_str().as_bytes()).ok()
}

/// Returns whether this process is allowed to execute a file.
pub(crate) fn is_executable(path: &Path) -> bool {
    let Some(path) = name(path) else { return false };
    let (path, mode) = (path.as_ptr().addr(), libc::X_OK as usize);
    let as_effective = [CWD, path, mode, libc::AT_EACCESS as usize, 0, 0];
    match system(libc::SYS_faccessat2, as_effective) {
        // The kernel is older than Linux 5.8.
        Err(ENOSYS) => system(libc::SYS_faccessat, [CWD, path, mode, 0, 0, 0]).is_ok(),
        allowed => allowed.is_ok(),
    }
}

/// Returns the contents of a file in /proc, or an empty vector if it can't be read.
pub(crate) fn contents(path: &str) -> Vec<u8> {
    let mut contents = Vec::new();
    let file = ExecutedFile::open(Path::new(path));
    let _unread = file.map(|mut file| file.read_to_end(&mut contents));
    contents
}

impl ExecutedFile {
    /// Opens the file at `path`. Returns `None` if the file is not a regular file.
    pub(crate) fn open(path: &Path) -> Option<Self> {
        let path = name(path)?;
        // With O_NONBLOCK, opening a pipe does not wait for the pipe's writer.
        let file = OwnFile::open(&path, libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOCTTY).ok()?;
        let facts = stat(libc::SYS_fstat, [file.descriptor(), 0]).ok()?;
        let is_regular = facts.st_mode & libc::S_IFMT == libc::S_IFREG;
        is_regular.then_some(ExecutedFile { file, facts, at: 0 })
    }

    /// Returns the privileges that the file's program gets when it is executed.
    pub(crate) fn rights(&self) -> Rights {
        let number = |number| system(number, [0; 6]).unwrap_or(0) as u32;
        let capabilities = c"security.capability".as_ptr().addr();
        let found = system(libc::SYS_fgetxattr, [self.file.descriptor(), capabilities, 0, 0, 0, 0]);
        let rights = FileRights {
            mode: self.facts.st_mode,
            owners: [self.facts.st_uid, self.facts.st_gid],
            has_capabilities: found.is_ok_and(|bytes| bytes > 0),
        };
        rights.of_program([libc::SYS_geteuid, libc::SYS_getegid].map(number), || {
            let asked = [libc::PR_GET_NO_NEW_PRIVS as usize, 0, 0, 0, 0, 0];
            let no_new_privs = system(libc::SYS_prctl, asked) == Ok(1);
            Denial { no_new_privs, nosuid: self.is_nosuid() }
        })
    }

    fn is_nosuid(&self) -> bool {
        let mut mount = [0; size_of::<libc::statfs>() / WORD];
        let args = [self.file.descriptor(), mount.as_mut_ptr().addr(), 0, 0, 0, 0];
        let found = system(libc::SYS_fstatfs, args);
        found.is_ok() && mount[MOUNT_FLAGS] & libc::ST_NOSUID != 0
    }
}

impl Read for ExecutedFile {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let args =
            [self.file.descriptor(), into.as_mut_ptr().addr(), into.len(), self.at as usize, 0, 0];
        let bytes = system(libc::SYS_pread64, args)
            .map_err(|error| io::Error::from_raw_os_error(-error as i32))?;
        self.at += bytes as u64;
        Ok(bytes)
    }
}

impl Seek for ExecutedFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => (self.facts.st_size as u64).checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}
