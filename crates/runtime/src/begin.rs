//! Starts the runtime before the program: creates the arena, and enables the dispatch of the first
//! thread's system calls.
//!
//! # Safety
//! The process has only one thread.
#![allow(unsafe_code)]

use crate::clock;
use crate::exec::Hosting;
use crate::group::GroupFile;
use crate::kernel::{PAGE, PIE_BASE};
use crate::limits::Limits;
use crate::own_thread::{OWN_THREAD, OwnThread};
use crate::policy::{
    ARENA_LEAST, ARENA_MAX, ARENA_MIN, CHUNK, LIMITS, LOW_END, ROOM_SHARE, UNIT_MAX,
};
use crate::program::Program;
use crate::report;
use crate::settings::Settings;
use crate::simple;
use crate::space::{Break, Space, reserve};
use dispatch::system;
use procgroup::GroupMember;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use zmem::{Arena, SAFEPOINT};

static PROGRAM: OnceLock<Program> = OnceLock::new();

/// The soft limits of address space and data, in bytes.
type Soft = Option<[u64; 2]>;

/// Starts the runtime in a process whose host maps the program from the file `path`. If `path` is
/// `None`, the host was injected into the program. Later system calls of this thread are handled as
/// calls of the program. `soft` are the program's soft limits, if a helper has raised the limits.
///
/// # Errors
/// Fails with the reason why the runtime can't start.
///
/// # Safety
/// The process has only this thread, which enters the program next.
pub unsafe fn begin(settings: &OsStr, path: Option<&Path>, soft: Soft) -> Result<(), String> {
    let parsed = Settings::parse(settings)?;
    start(parsed, settings, path, soft).map_err(|error| error.to_string())
}

/// Creates the arena, right above the program's break if possible, so that the arena can serve
/// `brk`. Above a break at a low address, the arena would occupy all addresses for MAP_32BIT. If
/// the break is low, the runtime therefore emulates a break above `PIE_BASE`.
fn arena(
    settings: &Settings,
    group: Option<&GroupFile>,
) -> Result<(Arena, Option<Break>), zmem::Error> {
    let brk = match system(libc::SYS_brk, [0; 6]).unwrap_or(0) {
        low @ ..LOW_END => low + PIE_BASE,
        brk => brk,
    };
    let start = brk.next_multiple_of(CHUNK);
    // The addresses from the break up to the arena are reserved first, because the C library's
    // allocator can still move the break.
    let is_reserved = reserve(&(brk.next_multiple_of(PAGE)..start));
    let wanted = settings.arena.unwrap_or(ARENA_MAX);
    let mut bytes = wanted.next_multiple_of(CHUNK).max(ARENA_MIN);
    let limit = settings.options.limit.map_or(ARENA_MAX, |limit| limit as usize);
    let least = settings.arena.unwrap_or(limit.saturating_mul(LIMITS).max(ARENA_LEAST));
    loop {
        let (half, room) = (bytes / 2 / CHUNK * CHUNK, bytes / ROOM_SHARE / CHUNK * CHUNK);
        let shared = || group.map(|file| Arc::<GroupMember>::clone(&file.member) as Arc<_>);
        let made_at =
            |start| Arena::with_room(start, bytes - room, room, &settings.options, shared());
        let above = made_at(start);
        let above =
            above.map(|arena| (arena, is_reserved.then_some(Break { first: brk, now: brk })));
        let made = above.or_else(|_| Ok((made_at(0)?, None)));
        match made {
            // The kernel may have refused to map the arena because of the limit on address space.
            Err(zmem::Error::System { .. }) if bytes > ARENA_MIN => {
                bytes = half.max(ARENA_MIN);
            }
            Ok((arena, _)) if arena.block() > UNIT_MAX && half >= least => bytes = half,
            made => return made,
        }
    }
}

/// Creates the arena, and enables the dispatch of this thread's calls.
fn start(
    settings: Settings,
    text: &OsStr,
    path: Option<&Path>,
    soft: Soft,
) -> Result<(), Box<dyn std::error::Error>> {
    clock::begin();
    page::fork::take_over();
    let hosting = Hosting::new(&settings, text, path);
    let group = settings.group.and_then(GroupFile::open);
    // The limits are raised before the arena is mapped, because the kernel counts the arena towards
    // the limits.
    let limits = Limits::take_over(soft);
    let (arena, brk) = arena(&settings, group.as_ref())?;
    let end = arena.addresses().end;
    // A reserved page separates the arena from mappings that the kernel places above the arena.
    reserve(&(end..end + PAGE));
    arena.weigh_process();
    let mut space = Space::new(brk, limits);
    let get_mdwe = [libc::PR_GET_MDWE as usize, 0, 0, 0, 0, 0];
    space.is_exec_refused = system(libc::SYS_prctl, get_mdwe).is_ok_and(|mdwe| mdwe != 0);
    let program = Program::new(arena, space, settings, (group, hosting));
    let program = PROGRAM.get_or_init(|| program);
    if OwnThread::is_useful() {
        program.arena.defer_stores(&OWN_THREAD);
    }
    SAFEPOINT.enable();
    simple::begin_simple(program);
    // SAFETY: the hook uses only its own heap, and waits for no lock of the program.
    unsafe { dispatch::arm(program)? };
    program.member().into_iter().for_each(GroupMember::hear);
    measure_calls(program);
    report::show(program);
    Ok(())
}

/// Measures the cost of a dispatched call.
fn measure_calls(program: &Program) {
    // SAFETY: the call only returns a number.
    let dispatched = || unsafe { _ = libc::getpgrp() };
    program.cost.measure(dispatched, || _ = system(libc::SYS_getpgrp, [0; 6]));
}
