//! Executes programs with a host. The host is injected into the program (pl-27), or runs the
//! program (pl-17).
//!
//! ```text
//!   execve(PATH, ARGV, ENV) -> a helper; the call as it is
//!                           -> execve(HOST, [HOST, SETTINGS, FILE, PATH, ARGV ...], ENV)
//! ```

use crate::clock;
use crate::executed::{ExecutedFile, is_executable};
use crate::execution::Execution;
use crate::kernel::WORD;
use crate::say::say;
use crate::settings::Settings;
use crate::tries::Tries;
use crate::user::{text, words};
use dispatch::{Call, read_memory, system, write_memory};
use executable::{DEPTH, Kind, Loading, Rights};
use inject::{Helper, Plan};
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Paths in /proc that refer to the program of this process, besides /proc/PID/exe.
const SELF: [&[u8]; 2] = [b"/proc/self/exe", b"/proc/thread-self/exe"];
const PROC: &[u8; 6] = b"/proc/";

/// How a program is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The call is issued unchanged.
    Plain,
    /// The call is issued unchanged, because the program gets more privileges than this process.
    /// The text names the cause of these privileges.
    Raised(&'static str),
    /// A host maps the program.
    Host,
    /// A host is injected into the program, or maps the program if no injection is possible.
    Helper,
}

/// How hosts are loaded into the programs that this process executes.
#[derive(Debug)]
pub(crate) struct Hosting {
    plan: Plan,
    /// Whether hosts are injected into programs if the kernel permits the injection.
    is_injected: bool,
    pub(crate) tries: Tries,
    /// Whether this process has reported that a program with more privileges has no limit.
    has_said: AtomicBool,
    /// The path of this process's program, if the host maps the program and /proc/self/exe
    /// therefore refers to the host.
    program: Option<CString>,
    /// Whether the programs that this program executes run with a host too.
    goes_on: bool,
}

impl Hosting {
    /// Creates the `Hosting` that `settings` specify; `text` is the text of the settings. If a host
    /// runs this process's program, `path` is the program's file. Returns `None` if the settings
    /// contain no host.
    pub(crate) fn new(settings: &Settings, text: &OsStr, path: Option<&Path>) -> Option<Self> {
        let program = path.map(|path| CString::new(path.as_os_str().as_bytes()));
        let text = CString::new(text.as_bytes()).ok()?;
        Some(Hosting {
            plan: Plan {
                host: settings.host.clone()?,
                settings: text,
                vdso: clock::CODE.load(Relaxed),
            },
            is_injected: settings.is_injected,
            tries: Tries::default(),
            has_said: AtomicBool::new(false),
            program: program.transpose().ok()?,
            goes_on: !settings.is_first_only,
        })
    }

    /// Returns the path of this process's program if the string at `address` is a name such as
    /// /proc/self/exe. The kernel would resolve this name to the host's file.
    pub(crate) fn own_program(&self, address: usize) -> Option<&CString> {
        let program = self.program.as_ref()?;
        let mut start = [0; PROC.len()];
        if !read_memory(address, &mut start) || start != *PROC {
            return None;
        }
        let path = text(address)?;
        let process = system(libc::SYS_getpid, [0; 6]).unwrap_or(0);
        let own = format!("/proc/{process}/exe");
        (SELF.contains(&&*path) || path == own.as_bytes()).then_some(program)
    }

    /// If a call accesses this process's program by a name such as /proc/self/exe, replaces the
    /// name by the path of the program's file. If the call reads the link /proc/self/exe, returns
    /// the call's result.
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

    /// Starts a helper that injects a host into the program that `call` executes, and returns the
    /// helper. If a host can't be injected, changes the call so that a host runs the program.
    pub(crate) fn redirect(
        &self,
        call: &mut Call,
        is_heard: impl Fn() -> bool,
    ) -> Option<Helper<'_>> {
        let is_execve = call.number() as i64 == libc::SYS_execve;
        let own = is_execve.then(|| self.own_program(call.args()[0])).flatten();
        let execution = Execution::of(call, own)?;
        let way = if self.goes_on { way(&execution.path) } else { Way::Plain };
        let is_injected = way == Way::Helper && self.is_injected && self.tries.may_try();
        let helper = is_injected.then(|| Helper::start(&self.plan, is_heard())).flatten();
        let is_hosted = matches!(way, Way::Helper | Way::Host) && helper.is_none();
        if let Way::Raised(reason) = way {
            self.say_raised(&execution.path, reason, is_heard);
        }
        if is_hosted && execution.is_plain {
            self.run_by_host(call, &execution, own);
        } else if let Some(own) = own {
            let [_, a, b, c, d, e] = call.args();
            call.set_args([own.as_ptr().addr(), a, b, c, d, e]);
        }
        helper
    }

    /// Reports, once per process, that the program at `path` runs without a limit, and why.
    fn say_raised(&self, path: &Path, reason: &str, is_heard: impl Fn() -> bool) {
        if is_heard() && !self.has_said.swap(true, Relaxed) {
            say(&format_args!(
                "'{}' runs without a limit: {reason}, and a host can't give it these rights",
                path.to_string_lossy().escape_debug()
            ));
        }
    }

    /// Changes the call so that a host runs the program.
    fn run_by_host(&self, call: &mut Call, execution: &Execution, own: Option<&CString>) {
        let Execution { path_at, list, environment, .. } = *execution;
        let file_at = own.map_or(path_at, |own| own.as_ptr().addr());
        let count = (0..).take_while(|nth| list != 0 && has_word(list + nth * WORD)).count();
        let [host, settings] = [&self.plan.host, &self.plan.settings].map(|it| it.as_ptr().addr());
        let before = [host, settings, file_at, path_at];
        let needed = before.len() + count.max(1) + 1;
        // If the argument list does not fit into the call's own buffer, the list is allocated and
        // never freed. If `execve` fails, or a child of `vfork` makes the call, the list stays in
        // the heap.
        let mut long = Vec::new();
        let room = match call.room() {
            room if room.len() >= needed => room,
            _ => {
                long.resize(needed, 0);
                long.leak()
            }
        };
        let (added, given) = room[..needed].split_at_mut(before.len());
        added.copy_from_slice(&before);
        // If a call passes no arguments, the kernel passes one empty argument to the program.
        given[0] = c"".as_ptr().addr();
        for (place, nth) in given.iter_mut().zip(0..count) {
            let Some([argument]) = words(list + nth * WORD) else { return };
            *place = argument;
        }
        given[count.max(1)] = 0;
        let args = [host, room.as_ptr().addr(), environment, 0, 0, 0];
        call.set_number(libc::SYS_execve as usize);
        call.set_args(args);
    }

    /// Returns whether `call` executes a host instead of the program that the original call named.
    pub(crate) fn is_host(&self, call: &Call) -> bool {
        let is_host = call.args()[0] == self.plan.host.as_ptr().addr();
        call.number() as i64 == libc::SYS_execve && is_host
    }
}

/// Returns whether an array of pointers to strings continues at `address`. A null pointer ends the
/// array.
fn has_word(address: usize) -> bool {
    words(address).is_some_and(|[word]| word != 0)
}

/// Returns how the program in a file is executed.
fn way(path: &Path) -> Way {
    let mut path = PathBuf::from(path);
    for _ in 0..=DEPTH {
        let Some(file) = ExecutedFile::open(&path).filter(|_| is_executable(&path)) else {
            return Way::Plain;
        };
        match Kind::of(file) {
            Ok(Kind::Elf(file)) => {
                let rights = file.rights();
                let is_there = |loader: &Path| ExecutedFile::open(loader).is_some();
                return match (Loading::of(file, is_there), rights) {
                    (Ok(Loading::Program), Rights::Same) => Way::Helper,
                    (Ok(Loading::Program), Rights::Secure) => Way::Host,
                    (Ok(Loading::Program), Rights::Raised(reason)) => Way::Raised(reason),
                    _ => Way::Plain,
                };
            }
            Ok(Kind::Script(script)) => path = script.interpreter,
            _ => return Way::Plain,
        }
    }
    Way::Plain
}
