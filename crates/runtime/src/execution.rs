//! A call that executes a program: the file, its arguments and its environment.

use crate::user::text;
use dispatch::Call;
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Paths with these prefixes may refer to descriptors that `execve` closes, so a host can't open
/// files by these paths.
const DESCRIPTORS: [&[u8]; 2] = [b"/proc/", b"/dev/fd/"];

pub(crate) struct Execution {
    /// The address of the path that is an argument of the call.
    pub(crate) path_at: usize,
    /// The path that is an argument of the call. If the argument is /proc/self/exe, this field is
    /// the path of this process's program.
    pub(crate) path: PathBuf,
    pub(crate) list: usize,
    pub(crate) environment: usize,
    /// Whether a host can open the file by the path.
    pub(crate) is_plain: bool,
}

impl Execution {
    /// Parses a call that executes a program. Returns `None` for other calls. `own` is the path of
    /// this process's program, if the call executes that program by a name such as /proc/self/exe.
    pub(crate) fn of(call: &Call, own: Option<&CString>) -> Option<Self> {
        let args = call.args();
        let (folder, args, flags) = match call.number() as i64 {
            libc::SYS_execve => (libc::AT_FDCWD, [args[0], args[1], args[2]], 0),
            libc::SYS_execveat => (args[0] as i32, [args[1], args[2], args[3]], args[4] as i32),
            _ => return None,
        };
        let [path_at, list, environment] = args;
        let text = own.map(|own| own.to_bytes().to_vec()).or_else(|| text(path_at))?;
        let is_of_folder = folder != libc::AT_FDCWD && !text.starts_with(b"/");
        let is_descriptor = own.is_none() && DESCRIPTORS.iter().any(|dir| text.starts_with(dir));
        let path = PathBuf::from(OsStr::from_bytes(&text));
        let path = match is_of_folder {
            true if text.is_empty() => PathBuf::from(format!("/proc/self/fd/{folder}")),
            true => Path::new(&format!("/proc/self/fd/{folder}")).join(path),
            false => path,
        };
        let is_plain = !is_of_folder && !is_descriptor && flags == 0;
        Some(Execution { path_at, path, list, environment, is_plain })
    }
}
