//! Programs that the program executes. The loader of glibc loads the library into those that are
//! linked to it, if the environment says so; a host runs the others (pl-17).
//!
//! ```text
//!   execve(PATH, ARGV, ENV) -> execve(HOST, [HOST, SETTINGS, FILE, PATH, ARGV ...], ENV)
//! ```

use dispatch::{Call, read_memory, write_memory};
use executable::{DEPTH, Kind, Loading};
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The kernel's name for the program of a process.
const SELF: &[u8] = b"/proc/self/exe";
const WORD: usize = size_of::<usize>();
/// Arguments before those of the program: the host, settings, the file, the path as it was given.
const ADDED: usize = 4;
/// The variables without which a program that could load the library does not.
const PREPARED: [&[u8]; 2] = [b"UZRAM_RUN=", b"LD_PRELOAD="];
/// Strings of the environment that are looked at.
const STRINGS_MAX: usize = 1 << 16;
const SETUID: u32 = 0o4000;
const SETGID_EXECUTABLE: u32 = 0o2010;

/// How programs are executed.
#[derive(Debug)]
pub(crate) struct Hosting {
    /// The path of the host.
    host: CString,
    /// The settings that the host gets.
    settings: CString,
    /// The path of this process's program, if a host has mapped it.
    program: Option<CString>,
    /// Whether the limit is that of programs that are executed, too.
    goes_on: bool,
}

impl Hosting {
    pub(crate) fn new(
        host: CString,
        settings: CString,
        program: Option<CString>,
        goes_on: bool,
    ) -> Self {
        Hosting { host, settings, program, goes_on }
    }

    /// Returns the program's path if the string at `address` is the kernel's name for it, which
    /// means the host.
    pub(crate) fn own_program(&self, address: usize) -> Option<&CString> {
        let mut path = [0; SELF.len() + 1];
        let program = self.program.as_ref()?;
        let is_self = read_memory(address, &mut path) && path.strip_suffix(b"\0") == Some(SELF);
        is_self.then_some(program)
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

    /// Makes a host run the program that `call` executes, if that would not load the library.
    pub(crate) fn redirect(&self, call: &mut Call) {
        let args = call.args();
        let (path_at, list, environment) = match call.number() as i64 {
            libc::SYS_execve => (args[0], args[1], args[2]),
            libc::SYS_execveat if args[0] as i32 == libc::AT_FDCWD && args[4] == 0 => {
                (args[1], args[2], args[3])
            }
            _ => return,
        };
        let own = self.own_program(path_at);
        let Some(path) = own.map(|own| own.to_bytes().to_vec()).or_else(|| text(path_at)) else {
            return;
        };
        let is_hosted = self.goes_on
            && is_hosted(Path::new(OsStr::from_bytes(&path)), || is_prepared(environment));
        if !is_hosted {
            if let Some(own) = own {
                call.set_args([own.as_ptr().addr(), list, environment, 0, 0, 0]);
                call.set_number(libc::SYS_execve as usize);
            }
            return;
        }
        let file_at = own.map_or(path_at, |own| own.as_ptr().addr());
        let room = call.room();
        let Some(last) = room.len().checked_sub(ADDED + 2) else { return };
        room[..ADDED].copy_from_slice(&[
            self.host.as_ptr().addr(),
            self.settings.as_ptr().addr(),
            file_at,
            path_at,
        ]);
        let mut count = 0;
        loop {
            let word = if list == 0 { Some(0) } else { word(list + count * WORD) };
            match word {
                // An error that the kernel reports, or more arguments than the room holds.
                None => return,
                Some(_) if count == last => return,
                Some(argument) => room[ADDED + count] = argument,
            }
            if room[ADDED + count] == 0 {
                break;
            }
            count += 1;
        }
        if count == 0 {
            // The kernel gives a program without arguments an empty one.
            room[ADDED..ADDED + 2].copy_from_slice(&[c"".as_ptr().addr(), 0]);
        }
        let list = room.as_ptr().addr();
        call.set_number(libc::SYS_execve as usize);
        call.set_args([self.host.as_ptr().addr(), list, environment, 0, 0, 0]);
    }
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

/// Returns whether an environment has the loader load the library.
fn is_prepared(environment: usize) -> bool {
    let mut has = [false; PREPARED.len()];
    for nth in 0..STRINGS_MAX {
        let Some(at) = word(environment + nth * WORD).filter(|at| *at != 0) else { break };
        for (has, name) in has.iter_mut().zip(PREPARED) {
            let mut start = [0; 16];
            let start = &mut start[..name.len()];
            *has |= read_memory(at, start) && start == name;
        }
    }
    has == [true; PREPARED.len()]
}

/// Returns whether a host runs the program of a file.
fn is_hosted(path: &Path, is_prepared: impl Fn() -> bool) -> bool {
    let mut path = PathBuf::from(path);
    for _ in 0..=DEPTH {
        if !is_executable(&path) {
            return false;
        }
        match Kind::of(&path) {
            Ok(Kind::Elf(file)) => {
                return !is_raised(&file)
                    && match Loading::of(file) {
                        Ok(Loading::Host) => true,
                        Ok(Loading::Preload) => !is_prepared(),
                        _ => false,
                    };
            }
            Ok(Kind::Script(script)) => path = script.interpreter,
            _ => return false,
        }
    }
    false
}

/// Returns whether this user may execute a file.
fn is_executable(path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return false };
    crate::space::system(
        libc::SYS_faccessat,
        [libc::AT_FDCWD as usize, path.as_ptr().addr(), libc::X_OK as usize, 0, 0, 0],
    )
    .is_ok()
}

/// Returns whether a program may have more rights than this process, which a host could not give
/// it.
fn is_raised(file: &File) -> bool {
    file.metadata().map_or(true, |facts| {
        let mode = facts.mode();
        mode & SETUID != 0 || mode & SETGID_EXECUTABLE == SETGID_EXECUTABLE
    })
}
