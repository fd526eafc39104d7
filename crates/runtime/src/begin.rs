//! The beginning, before the program's own: the arena is made, and the first thread armed.
//!
//! # Safety
//! One thread runs.
#![allow(unsafe_code)]

use crate::clock;
use crate::exec::Hosting;
use crate::limits::Limits;
use crate::own_thread::{OWN_THREAD, OwnThread};
use crate::program::Program;
use crate::settings::Settings;
use crate::space::{Break, Space};
use crate::tree::TreeFile;
use dispatch::system;
use std::ffi::OsStr;
use std::ops::Range;
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
/// The share of its addresses that are room for windows (pl-24).
const ROOM_SHARE: usize = 4;
/// Breaks of programs that are not position-independent lie below.
const LOW_END: usize = 1 << 32;
/// Two thirds of all addresses, where the kernel has programs that are position-independent.
const HIGH: usize = 0x5555_5555_4000;
const PAGE: usize = 4096;

static PROGRAM: OnceLock<Program> = OnceLock::new();

/// Soft limits of address space and data, in bytes.
type Soft = Option<[u64; 2]>;

/// Begins in a process that hosts the program of the file `path`, or into whose program a host was
/// injected, by these settings. From now on system calls of this thread are the program's. `soft`
/// are the program's soft limits of address space and data, if those of the process were lifted.
///
/// # Errors
/// The reason why it can't begin.
///
/// # Safety
/// This thread runs alone, and goes on in the program.
pub unsafe fn begin(settings: &OsStr, path: Option<&Path>, soft: Soft) -> Result<(), String> {
    let parsed = Settings::parse(settings)?;
    start(parsed, settings, path, soft).map_err(|error| error.to_string())
}

/// Makes the arena, right above the program's break if there is room, so that it can serve that. A
/// break at low addresses is answered as if it were where those of other programs are, because the
/// arena would take all that MAP_32BIT can have.
fn arena(settings: &Settings) -> Result<(Arena, Option<Break>), zmem::Error> {
    let brk = match system(libc::SYS_brk, [0; 6]).unwrap_or(0) {
        low @ ..LOW_END => low + HIGH,
        brk => brk,
    };
    let start = brk.next_multiple_of(ALIGN);
    // Before anything else: the C library's allocator, which may be called yet, moves the break.
    let is_reserved = reserve(&(brk.next_multiple_of(PAGE)..start));
    let wanted = settings.arena.unwrap_or(ARENA_MAX);
    let mut bytes = wanted.next_multiple_of(ALIGN).max(ARENA_MIN);
    let limit = settings.options.limit.map_or(ARENA_MAX, |limit| limit as usize);
    let least = settings.arena.unwrap_or(limit.saturating_mul(LIMITS).max(ARENA_LEAST));
    loop {
        let room = bytes / ROOM_SHARE / ALIGN * ALIGN;
        let made_at = |start| Arena::with_room(start, bytes - room, room, &settings.options);
        let above = made_at(start);
        let above =
            above.map(|arena| (arena, is_reserved.then_some(Break { first: brk, now: brk })));
        let made = above.or_else(|_| Ok((made_at(0)?, None)));
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

/// Makes the arena, and arms this thread.
fn start(
    mut settings: Settings,
    text: &OsStr,
    path: Option<&Path>,
    soft: Soft,
) -> Result<(), Box<dyn std::error::Error>> {
    clock::begin();
    page::fork::take_over();
    let hosting = Hosting::new(&settings, text, path);
    let tree = settings.tree.and_then(TreeFile::open);
    settings.options.tree = tree.as_ref().map(|file| file.tree);
    // First, as the kernel would count the arena.
    let limits = Limits::take_over(soft);
    let (arena, brk) = arena(&settings)?;
    let end = arena.addresses().end;
    // Else what ends there, and is the system's, could grow out of the arena.
    reserve(&(end..end + PAGE));
    arena.weigh_process();
    let mut space = Space::new(brk, limits);
    let get_mdwe = [libc::PR_GET_MDWE as usize, 0, 0, 0, 0, 0];
    space.is_exec_refused = system(libc::SYS_prctl, get_mdwe).is_ok_and(|mdwe| mdwe != 0);
    let program = Program::new(arena, space, settings, (tree, hosting));
    let program = PROGRAM.get_or_init(|| program);
    if OwnThread::is_useful() {
        program.arena.store_aside(&OWN_THREAD);
    }
    SAFEPOINT.begin();
    program.begin_simple();
    // SAFETY: the program's hook uses no heap but its own, and waits for no lock of the program's.
    unsafe { dispatch::arm(program)? };
    program.arena.hear();
    measure_calls(program);
    program.show();
    Ok(())
}

/// Measures the cost of a dispatched call.
fn measure_calls(program: &Program) {
    // SAFETY: the call returns a number.
    let dispatched = || unsafe { _ = libc::getpgrp() };
    program.cost.measure(dispatched, || _ = system(libc::SYS_getpgrp, [0; 6]));
}
