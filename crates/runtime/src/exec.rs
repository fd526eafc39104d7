//! Programs that the program executes: a host runs them (pl-17).
//!
//! ```text
//!   execve(PATH, ARGV, ENV) -> execve(HOST, [HOST, SETTINGS, FILE, PATH, ARGV ...], ENV)
//! ```

use crate::executed::{ExecutedFile, is_executable};
use crate::settings::Settings;
use crate::system::system;
use dispatch::{Call, read_memory, write_memory};
use executable::{DEPTH, Kind, Loading};
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The kernel's names for the program of a process, with that by its number.
const SELF: [&[u8]; 2] = [b"/proc/self/exe", b"/proc/thread-self/exe"];
const PROC: &[u8; 6] = b"/proc/";
const WORD: usize = size_of::<usize>();
/// Arguments before those of the program: the host, settings, the file, the path as it was given.
const ADDED: usize = 4;
/// Files that the host could not open by their paths: descriptors, which `execve` may close.
const DESCRIPTORS: [&[u8]; 2] = [b"/proc/", b"/dev/fd/"];

/// How programs are executed.
#[derive(Debug)]
pub(crate) struct Hosting {
    /// The path of the host.
    host: CString,
    /// The settings that the host gets.
    settings: CString,
    /// The path of this process's program.
    program: CString,
    /// Whether programs that are executed have the limit, too.
    goes_on: bool,
}

impl Hosting {
    /// Returns how programs are executed by these settings, which have the text `text`, in a
    /// process that hosts the program of the file `path`. Returns `None` if no host is named.
    pub(crate) fn new(settings: &Settings, text: &OsStr, path: &Path) -> Option<Self> {
        Some(Hosting {
            host: settings.host.clone()?,
            settings: CString::new(text.as_bytes()).ok()?,
            program: CString::new(path.as_os_str().as_bytes()).ok()?,
            goes_on: !settings.is_first_only,
        })
    }

    /// Returns the program's path if the string at `address` is the kernel's name for it, which
    /// means the host.
    pub(crate) fn own_program(&self, address: usize) -> Option<&CString> {
        let mut start = [0; PROC.len()];
        if !read_memory(address, &mut start) || start != *PROC {
            return None;
        }
        let path = text(address)?;
        let process = system(libc::SYS_getpid, [0; 6]).unwrap_or(0);
        let is_self = SELF.contains(&&*path) || path == format!("/proc/{process}/exe").as_bytes();
        is_self.then_some(&self.program)
    }

    /// Puts the program's path in place of the kernel's name for it in a call that looks at the
    /// file. Returns the answer to a call that asks for the path itself.
    pub(crate) fn name_program(&self, call: &mut Call) -> Option<isize> {
        let mut args = call.args();
        let nth = match call.number() as i64 {
            libc::SYS_readlink | libc::SYS_open | libc::SYS_stat | libc::SYS_access => 0,
            libc::SYS_readlinkat | libc::SYS_openat | libc::SYS_statx | libc::SYS_newfstatat => 1,
            libc::SYS_faccessat | libc::SYS_faccessat2 => 1,
            _ => return None,
        };
        let program = self.own_program(args[nth])?;
        let of_link = match call.number() as i64 {
            libc::SYS_newfstatat => args[3],
            libc::SYS_statx => args[2],
            libc::SYS_readlink | libc::SYS_readlinkat => {
                let path = program.to_bytes();
                let path = &path[..path.len().min(args[nth + 2])];
                let is_written = args[nth + 2] as isize > 0 && write_memory(args[nth + 1], path);
                return is_written.then_some(path.len() as isize);
            }
            _ => 0,
        };
        if of_link & libc::AT_SYMLINK_NOFOLLOW as usize == 0 {
            args[nth] = program.as_ptr().addr();
            call.set_args(args);
        }
        None
    }

    /// Makes a host run the program that `call` executes, if a host can.
    pub(crate) fn redirect(&self, call: &mut Call) {
        let args = call.args();
        let (path_at, list, environment) = match call.number() as i64 {
            libc::SYS_execve => (args[0], args[1], args[2]),
            libc::SYS_execveat if args[4] == 0 => (args[1], args[2], args[3]),
            _ => return,
        };
        let own = self.own_program(path_at);
        let Some(path) = own.map(|own| own.to_bytes().to_vec()).or_else(|| text(path_at)) else {
            return;
        };
        let is_of_folder = call.number() as i64 == libc::SYS_execveat
            && args[0] as i32 != libc::AT_FDCWD
            && !path.starts_with(b"/");
        let is_descriptor = own.is_none() && DESCRIPTORS.iter().any(|dir| path.starts_with(dir));
        let is_candidate = self.goes_on && !is_of_folder && !is_descriptor;
        let path = Path::new(OsStr::from_bytes(&path));
        let is_hosted = is_candidate && is_hosted(path);
        if !is_hosted {
            if let Some(own) = own {
                call.set_args([own.as_ptr().addr(), list, environment, 0, 0, 0]);
                call.set_number(libc::SYS_execve as usize);
            }
            return;
        }
        let file_at = own.map_or(path_at, |own| own.as_ptr().addr());
        let count = (0..).take_while(|nth| list != 0 && has_word(list + nth * WORD)).count();
        // A child of `vfork` leaves a long list behind in its parent's heap.
        let mut long = Vec::new();
        let room = match call.room() {
            room if room.len() > ADDED + count.max(1) => room,
            _ => {
                long.resize(ADDED + count.max(1) + 1, 0);
                long.leak()
            }
        };
        room[..ADDED].copy_from_slice(&[
            self.host.as_ptr().addr(),
            self.settings.as_ptr().addr(),
            file_at,
            path_at,
        ]);
        // The kernel gives a program without arguments an empty one.
        room[ADDED] = c"".as_ptr().addr();
        for nth in 0..count {
            let Some(argument) = word(list + nth * WORD) else { return };
            room[ADDED + nth] = argument;
        }
        room[ADDED + count.max(1)] = 0;
        let list = room.as_ptr().addr();
        call.set_number(libc::SYS_execve as usize);
        call.set_args([self.host.as_ptr().addr(), list, environment, 0, 0, 0]);
    }

    /// Returns whether `call` executes a host in place of the program that it names.
    pub(crate) fn is_host(&self, call: &Call) -> bool {
        let is_host = call.args()[0] == self.host.as_ptr().addr();
        call.number() as i64 == libc::SYS_execve && is_host
    }
}

/// Returns whether a list goes on at `address`.
fn has_word(address: usize) -> bool {
    word(address).is_some_and(|word| word != 0)
}

fn word(address: usize) -> Option<usize> {
    let mut bytes = [0; WORD];
    read_memory(address, &mut bytes).then(|| usize::from_ne_bytes(bytes))
}

/// Returns a string of the program's, if it is a path's length at most.
fn text(address: usize) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    while text.len() < libc::PATH_MAX as usize {
        // A read ends with its page: the next one may not be there.
        let at = address.wrapping_add(text.len());
        let mut part = [0; 256];
        let bytes = part.len().min(4096 - at % 4096);
        if !read_memory(at, &mut part[..bytes]) {
            return None;
        }
        let end = part[..bytes].iter().position(|byte| *byte == 0);
        text.extend_from_slice(&part[..end.unwrap_or(bytes)]);
        if end.is_some() {
            return Some(text);
        }
    }
    None
}

/// Returns whether a host runs the program of a file.
fn is_hosted(path: &Path) -> bool {
    let mut path = PathBuf::from(path);
    for _ in 0..=DEPTH {
        let Some(file) = ExecutedFile::open(&path).filter(|_| is_executable(&path)) else {
            return false;
        };
        if file.is_raised() {
            return false;
        }
        match Kind::of(file) {
            Ok(Kind::Elf(file)) => {
                let is_there = |loader: &Path| ExecutedFile::open(loader).is_some();
                return matches!(Loading::of(file, is_there), Ok(Loading::Program));
            }
            Ok(Kind::Script(script)) => path = script.interpreter,
            _ => return false,
        }
    }
    false
}
