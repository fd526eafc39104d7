//! The beginning, before the program's own: the arena is made, and the first thread armed.
//!
//! # Safety
//! One thread runs.
#![allow(unsafe_code)]

use crate::exec::Hosting;
use crate::own_thread::{OWN_THREAD, OwnThread};
use crate::program::Program;
use crate::report::say;
use crate::settings::{Settings, VARIABLE};
use crate::space::{Break, system};
use crate::tree::TreeFile;
use std::ffi::{CStr, CString, OsStr, c_char, c_int};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;
use zmem::{Arena, SAFEPOINT};

/// The smallest arena that is worth its name.
const ARENA_MIN: usize = 64 << 20;
const ARENA_MAX: usize = 32 << 30;
/// Where larger units would come and go together, as there may not be more mappings, the arena is
/// smaller: mappings of programs are often no larger. It has room for so many times the limit.
const UNIT_MAX: usize = 16 << 10;
const LIMITS: usize = 4;
const ARENA_LEAST: usize = 256 << 20;
const ALIGN: usize = 2 << 20;
const PAGE: usize = 4096;

static PROGRAM: OnceLock<Program> = OnceLock::new();

/// Begins in a program that has this library preloaded, by the settings of its environment. The C
/// library calls it before `main`. If the program has several threads already, a host takes its
/// place; any other failure ends the process.
pub extern "C" fn begin_preloaded(_: c_int, arguments: *const *const c_char) {
    // SAFETY: the environment is not changed before `main`.
    let text = unsafe { libc::getenv(VARIABLE.as_ptr()) };
    if text.is_null() {
        return;
    }
    // SAFETY: the C library's string, which is not changed before `main`.
    let text = OsStr::from_bytes(unsafe { CStr::from_ptr(text) }.to_bytes());
    let begun = Settings::parse(text)
        .map_err(|error| format!("{}: {error}", VARIABLE.to_string_lossy()))
        .and_then(|settings| match is_host(&settings) {
            true => Ok(false),
            false => begin(settings, text, arguments).map(|()| true),
        });
    match begun {
        Ok(false) => {}
        // SAFETY: the wrappers are the library's that calls this, and this thread runs alone.
        Ok(true) => unsafe { dispatch::begin_wrappers() },
        Err(error) => {
            say(&error);
            // SAFETY: it ends the process.
            unsafe { libc::_exit(1) };
        }
    }
}

/// Begins, or has a host take the place of a program whose libraries have made threads.
fn begin(settings: Settings, text: &OsStr, arguments: *const *const c_char) -> Result<(), String> {
    let host = settings.host.clone();
    start(settings, text, None).map_err(|error| {
        if let (Some(dispatch::Error::Threads), Some(host)) = (error.downcast_ref(), host) {
            enter_host(&host, text, arguments);
        }
        error.to_string()
    })
}

/// Executes a host in place of this program, with its arguments. Returns if that can't be.
fn enter_host(host: &CStr, text: &OsStr, arguments: *const *const c_char) {
    let Ok(program) = std::fs::read_link("/proc/self/exe") else { return };
    let texts = [text.as_bytes(), program.as_os_str().as_bytes()].map(CString::new);
    let [Ok(settings), Ok(program)] = texts else { return };
    // SAFETY: the kernel's string, and the C library's list, which ends with null.
    unsafe {
        let executed = libc::getauxval(libc::AT_EXECFN) as *const c_char;
        let mut list = vec![host.as_ptr(), settings.as_ptr(), program.as_ptr(), executed];
        let mut at = arguments;
        while !(*at).is_null() {
            list.push(*at);
            at = at.add(1);
        }
        list.push(std::ptr::null());
        libc::execv(host.as_ptr(), list.as_ptr());
    }
}

/// Returns whether this process is a host, in which the runtime begins by itself.
fn is_host(settings: &Settings) -> bool {
    // SAFETY: the kernel's string, of the path that was executed.
    let executed = unsafe { libc::getauxval(libc::AT_EXECFN) as *const c_char };
    // SAFETY: as above.
    let executed = (!executed.is_null()).then(|| unsafe { CStr::from_ptr(executed) });
    executed.is_some_and(|path| settings.host.as_deref() == Some(path))
}

/// Begins in a process that hosts `program`, by these settings. From now on calls of this thread
/// are the program's.
///
/// # Errors
/// The reason why it can't begin.
///
/// # Safety
/// This thread runs alone, and goes on in the program.
pub unsafe fn begin_hosted(settings: &OsStr, program: &Path) -> Result<(), String> {
    let parsed = Settings::parse(settings)?;
    start(parsed, settings, Some(program)).map_err(|error| error.to_string())
}

/// Makes the arena, right above the program's break if there is room, so that it can serve that.
fn arena(settings: &Settings) -> Result<(Arena, Option<Break>), zmem::Error> {
    let brk = system(libc::SYS_brk, [0; 6]).unwrap_or(0);
    let start = brk.next_multiple_of(ALIGN);
    // Before anything else: the C library's allocator, which may be called yet, moves the break.
    let is_reserved = reserve(&(brk.next_multiple_of(PAGE)..start));
    let wanted = settings.arena.unwrap_or(ARENA_MAX);
    let mut bytes = wanted.next_multiple_of(ALIGN).max(ARENA_MIN);
    let limit = settings.options.limit.map_or(ARENA_MAX, |limit| limit as usize);
    let least = settings.arena.unwrap_or(limit.saturating_mul(LIMITS).max(ARENA_LEAST));
    loop {
        let above = Arena::new(start, bytes, &settings.options);
        let above =
            above.map(|arena| (arena, is_reserved.then_some(Break { first: brk, now: brk })));
        let made = above.or_else(|_| Ok((Arena::new(0, bytes, &settings.options)?, None)));
        match made {
            // A limit on address space, say.
            Err(zmem::Error::System { .. }) if bytes > ARENA_MIN => {
                bytes = (bytes / 2).max(ARENA_MIN)
            }
            Ok((arena, _)) if arena.block() > UNIT_MAX && bytes / 2 >= least => bytes /= 2,
            made => return made,
        }
    }
}

/// Maps what nobody is to have, PROT_NONE; whether nothing was there.
fn reserve(range: &Range<usize>) -> bool {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    let args = [range.start, range.len(), 0, (flags | libc::MAP_NORESERVE) as usize, usize::MAX, 0];
    range.is_empty() || system(libc::SYS_mmap, args) == Ok(range.start)
}

/// Takes this library out of the environment: programs that this one executes do not load it. It is
/// the last of what is preloaded.
fn leave_environment() {
    let preloads = c"LD_PRELOAD".as_ptr();
    // SAFETY: the names are strings, and so are values; the environment is this thread's alone
    // before `main`, and `setenv` copies.
    unsafe {
        libc::unsetenv(VARIABLE.as_ptr());
        let value = libc::getenv(preloads);
        if value.is_null() {
            return;
        }
        let value = CStr::from_ptr(value).to_bytes();
        let end = value.iter().rposition(|byte| b": ".contains(byte));
        match end.and_then(|end| CString::new(&value[..end]).ok()) {
            Some(others) => libc::setenv(preloads, others.as_ptr(), 1),
            None => libc::unsetenv(preloads),
        };
    }
}

/// Returns how programs are executed, if some get a host.
fn hosting(settings: &Settings, text: &OsStr, program: Option<&Path>) -> Option<Hosting> {
    let own = program.and_then(|path| CString::new(path.as_os_str().as_bytes()).ok());
    let host = settings.host.clone()?;
    Some(Hosting::new(host, CString::new(text.as_bytes()).ok()?, own, !settings.is_first_only))
}

/// Makes the arena, and arms this thread; `program` is the path of a program that has a host.
fn start(
    mut settings: Settings,
    text: &OsStr,
    program: Option<&Path>,
) -> Result<(), Box<dyn std::error::Error>> {
    page::fork::take_over();
    if settings.is_first_only && program.is_none() {
        leave_environment();
    }
    let hosting = hosting(&settings, text, program);
    let tree = settings.tree.and_then(TreeFile::open);
    settings.options.tree = tree.as_ref().map(|file| file.tree);
    let (arena, brk) = arena(&settings)?;
    let end = arena.addresses().end;
    // Else what ends there, and is the system's, could grow out of the arena.
    reserve(&(end..end + PAGE));
    arena.weigh_process();
    let program = Program::new(arena, brk, settings, (tree, hosting));
    let program = PROGRAM.get_or_init(|| program);
    if OwnThread::is_useful() {
        program.arena.store_aside(&OWN_THREAD);
    }
    SAFEPOINT.begin();
    program.begin_simple();
    // SAFETY: the program's hook uses no heap but its own, and waits for no lock of the program's.
    unsafe { dispatch::arm(program)? };
    measure_calls(program);
    program.show();
    Ok(())
}

/// Measures the cost of a dispatched call.
fn measure_calls(program: &Program) {
    // SAFETY: the call returns a number.
    let dispatched = || unsafe { _ = dispatch::wrappers::call(libc::SYS_getpgrp, [0; 6]) };
    program.cost.measure(dispatched, || _ = system(libc::SYS_getpgrp, [0; 6]));
}
