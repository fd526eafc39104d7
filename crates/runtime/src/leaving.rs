//! The end of the runtime in a process that continues without it (pl-28). All memory becomes
//! resident. The break and the limits that the runtime has emulated are then set in the kernel.

use crate::executed::contents;
use crate::kernel::PAGE;
use crate::memory_map::MemoryMap;
use crate::program::Program;
use crate::report;
use crate::traced;
use dispatch::{Failed, system};
use std::ops::Range;

/// Prepares this process to continue without the runtime. In a child of `vfork`, the kernel's break
/// and the free addresses of the arena stay unchanged, because the child shares them with its
/// parent.
pub(crate) fn hand_over(program: &Program) -> Result<(), Failed> {
    program.space.lock().leave_executable(&program.arena);
    dispatch::release_all_code();
    traced::make_all_plain(program).inspect_err(|_| traced::manage_again(program))?;
    report::begin_exec(program);
    program.arena.rest();
    if program.arena.is_lent() {
        return Ok(());
    }
    let space = program.space.lock();
    if let Some(brk) = &space.brk {
        MemoryMap::of_process().into_iter().for_each(|map| map.set_break(brk.now));
        unmap(brk.now.next_multiple_of(PAGE)..program.arena.addresses().start);
    }
    let parts = program.arena.windows().flat_map(|window| space.pieces.parts(window));
    parts.filter(|(_, kind)| kind.is_none()).for_each(|(part, _)| unmap(part));
    let (mapped, data) = space.counted(program.arena.windows());
    let [all, all_data] = sizes();
    let others = [all.saturating_sub(mapped as u64), all_data.saturating_sub(data as u64)];
    space.limits.leave(others);
    Ok(())
}

fn unmap(range: Range<usize>) {
    if !range.is_empty() {
        let _unmapped = system(libc::SYS_munmap, [range.start, range.len(), 0, 0, 0, 0]);
    }
}

/// Returns the number of bytes that this process has mapped, and how many of them the kernel counts
/// as data.
fn sizes() -> [u64; 2] {
    let text = String::from_utf8_lossy(&contents("/proc/self/statm")).into_owned();
    let pages: Vec<u64> = text.split_whitespace().map_while(|word| word.parse().ok()).collect();
    [0, 5].map(|nth| pages.get(nth).map_or(0, |pages| pages.saturating_mul(PAGE as u64)))
}
