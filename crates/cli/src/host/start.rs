//! The start of a program, from the host's arguments to the program's first instruction.
//!
//! # Safety
//! The C library calls `main` with the strings that the kernel passed.
#![allow(unsafe_code)]

use crate::areas;
use crate::image::Image;
use crate::injected;
use crate::stack::{self, Stack};
use executable::{DEPTH, Kind};
use inject::Entry;
use runtime::MemoryMap;
use std::ffi::{CStr, OsStr, OsString, c_char, c_int};
use std::fs::File;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The ELF note by which the crate `executable` recognizes a host. Its fields are the name's size,
/// the description's size, the type, and the name "uzram".
#[used]
// SAFETY: no other code defines or uses this section.
#[unsafe(link_section = ".note.uzram")]
static NOTE: ([u32; 3], [u8; 8]) = ([6, 0, 0], *b"uzram\0\0\0");

/// The exit codes of a shell for a program that can't be executed, for a program that does not
/// exist, and for a wrong command line.
const NOT_EXECUTABLE: c_int = 126;
const NOT_FOUND: c_int = 127;
const WRONG_USE: c_int = 2;

/// The message and the exit code if no program can be started.
struct Failure(String, c_int);

impl Failure {
    fn of(path: &Path) -> impl Fn(std::io::Error) -> Self {
        |error| {
            let code = match error.kind() {
                std::io::ErrorKind::NotFound => NOT_FOUND,
                _ => NOT_EXECUTABLE,
            };
            Failure(format!("'{}' can't be run: {error}", path.display()), code)
        }
    }
}

/// Replaces Rust's start code, which would change signal actions that the program inherits.
// SAFETY: the C library calls this function, and this program has no other symbol `main`.
#[unsafe(no_mangle)]
extern "C" fn main(count: c_int, arguments: *const *const c_char) -> c_int {
    // The kernel places the environment after the arguments.
    let environment = arguments.wrapping_add(count as usize + 1);
    // SAFETY: the C library passes `count` strings, which stay valid.
    let arguments: Vec<OsString> = unsafe { std::slice::from_raw_parts(arguments, count as usize) }
        .iter()
        // SAFETY: as above. Each string ends with a zero.
        .map(|text| OsStr::from_bytes(unsafe { CStr::from_ptr(*text) }.to_bytes()).to_owned())
        .collect();
    let entry = arguments.get(2..).and_then(Entry::of);
    let checked = arguments.get(1).map_or(Ok(()), |settings| runtime::check_version(settings));
    let Failure(message, code) = match (checked, &arguments[..], entry) {
        (Err(message), ..) => Failure(message, 1),
        (_, [_, settings, ..], Some(entry)) => Failure(injected::begin(settings, &entry), 1),
        (_, [_, settings, file, path, list @ ..], None) if !list.is_empty() => {
            match prepare(settings, Path::new(file), Path::new(path), list, environment) {
                Ok((stack, entry)) => stack.enter(entry),
                Err(failure) => failure,
            }
        }
        _ => Failure(
            "usage: uzram-host SETTINGS FILE PATH ARGV0 [ARGUMENTS]; use 'uzram run'".to_owned(),
            WRONG_USE,
        ),
    };
    let line = format!("uzram: {message}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
    code
}

/// Prepares to run the program in `file`, which was executed as `path` with the arguments `list`.
/// `environment` is the environment as the kernel passed it, followed by the auxiliary vector.
/// Returns the program's stack, and the address of its first instruction.
fn prepare(
    settings: &OsStr,
    file: &Path,
    path: &Path,
    list: &[OsString],
    environment: *const *const c_char,
) -> Result<(Stack, usize), Failure> {
    let (file, program, arguments) = resolve(file, path, list)?;
    let absolute = std::fs::canonicalize(&program).unwrap_or_else(|_| program.clone());
    stack::name_process(path);
    areas::unregister();
    let memory = MemoryMap::of_process();
    // SAFETY: the process has only one thread, which later runs the program. From now on, the
    // runtime handles the thread's system calls as calls of the program.
    unsafe { runtime::begin(settings, Some(&absolute), None) }
        .map_err(|message| Failure(message, 1))?;
    // The runtime now runs, so it manages the memory that these calls map for the program.
    let image = Image::map(&file).map_err(Failure::of(&program))?;
    let loader = match &image.loader {
        Some(loader) => {
            let file = File::open(loader).map_err(Failure::of(loader))?;
            Some(Image::map(&file).map_err(Failure::of(loader))?)
        }
        None => None,
    };
    let stack = Stack::new(path, &arguments, environment, &image, loader.as_ref());
    if image.is_stack_executable {
        stack.make_executable();
    }
    stack.describe(memory);
    Ok((stack, loader.map_or(image.entry, |loader| loader.entry)))
}

/// Returns the program to map and its arguments. For a script, returns its interpreter and the
/// arguments that the kernel would pass to the interpreter.
fn resolve(
    file: &Path,
    path: &Path,
    list: &[OsString],
) -> Result<(File, PathBuf, Vec<OsString>), Failure> {
    let (mut arguments, mut program) = (list.to_owned(), file.to_owned());
    for _ in 0..=DEPTH {
        let kind = File::open(&program).and_then(Kind::of);
        match kind.map_err(Failure::of(&program))? {
            Kind::Elf(file) => return Ok((file, program, arguments)),
            Kind::Script(script) => {
                let script_path = if program == file { path.to_owned() } else { program };
                arguments[0] = script_path.into_os_string();
                arguments.splice(0..0, script.argument);
                arguments.insert(0, script.interpreter.clone().into_os_string());
                program = script.interpreter;
            }
            Kind::Text => break,
        }
    }
    let message = format!("'{}' can't be run: it is no program", path.display());
    Err(Failure(message, NOT_EXECUTABLE))
}
