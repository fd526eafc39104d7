//! Writes the message that a limit can't be kept. The message names the process with the most
//! memory that can't be evicted, and lists the kinds of that process's memory.

use crate::executed::contents;
use crate::pieces::Pieces;
use crate::policy::LEFT_MAX;
use crate::program::Program;
use crate::say::say;
use crate::space::Space;
use crate::windows;
use procgroup::{Exceeded, Holdings, OverLimit};
use std::fmt::Write;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use zmem::Arena;

/// Private memory that the arena does not manage, in bytes.
#[derive(Debug, Default, PartialEq, Eq)]
struct Unmanaged {
    locked: u64,
    stacks: u64,
}

/// Reports, once per group, that the limit can't be kept, if this process's standard error is that
/// of `uzram run`.
pub(crate) fn warn_if_over_limit(program: &Program) {
    /// The number of times that this process did not report, because the process with the most
    /// unevictable memory should report.
    static LEFT: AtomicU32 = AtomicU32::new(0);
    let may_say = |over_limit: &OverLimit| {
        // A filter can kill the process for calls that the program does not make itself.
        if program.is_confined.load(Relaxed) {
            return false;
        }
        let is_left = over_limit.is_there && !over_limit.is_own;
        (!is_left || LEFT.fetch_add(1, Relaxed) >= LEFT_MAX) && program.is_heard()
    };
    let Some(member) = program.member() else { return };
    let Some(over_limit) = OverLimit::take(member, may_say) else { return };
    let holdings = over_limit.is_own.then(|| Holdings::of(member, &program.arena));
    let most = holdings.map_or(over_limit.most, |holdings| holdings.all());
    let limit = program.arena.stats().limit.unwrap_or(0) >> 10;
    let mut text = format!(
        "the limit of {limit} KiB can't be kept: all processes together hold {} KiB that \
         can't be evicted. ",
        over_limit.stays.max(most) >> 10
    );
    let name = match over_limit.is_there {
        true => contents(&format!("/proc/{}/comm", over_limit.process)),
        false => b"ended".into(),
    };
    let name = String::from_utf8_lossy(&name).trim_end_matches('\n').escape_debug().to_string();
    let _written =
        write!(text, "Process {} ({name}) holds {} KiB of it", over_limit.process, most >> 10);
    if let Some(holdings) = holdings {
        let maps = contents("/proc/self/smaps");
        // The lock is only tried, because this thread already holds it if it faulted while it
        // changed mappings.
        let space = program.space.try_lock();
        let unmanaged = space.map(|space| unmanaged(&maps, &space, &program.arena));
        text += &kinds(&holdings, &unmanaged.unwrap_or_default());
    }
    text += ". The program goes on above the limit; give a larger --limit";
    say(&text);
}

/// When a group's first process ends, reports that the processes temporarily exceeded the limit.
/// Reports nothing after the group's report that the limit can't be kept.
pub(crate) fn warn_if_exceeded(program: &Program) {
    let may_say = || program.may_say();
    let Some(exceeded) = program.member().and_then(|member| Exceeded::take(member, may_say)) else {
        return;
    };
    say(&format!(
        "the limit of {} KiB was exceeded for a time: all processes together held {} KiB at most. \
         Process {} ({}) held {} KiB of it. Processes that start, wait or compute do not evict \
         memory at once; give a larger --limit if they must not exceed it",
        program.arena.stats().limit.unwrap_or(0) >> 10,
        exceeded.held >> 10,
        exceeded.process,
        exceeded.name.escape_debug(),
        exceeded.most >> 10
    ));
}

/// Returns a text with the kinds and amounts of memory that a process holds, the largest first.
/// Kinds below 1 KiB are omitted. The locked memory and the stacks in `unmanaged` are listed
/// separately and subtracted from the kinds that contain them.
fn kinds(holdings: &Holdings, unmanaged: &Unmanaged) -> String {
    let Holdings { mut pinned, unmanaged: mut other, .. } = *holdings;
    let take = |wanted: u64, from: &mut u64| {
        let taken = wanted.min(*from);
        *from -= taken;
        taken
    };
    let stacks = take(unmanaged.stacks, &mut other);
    let beside = take(unmanaged.locked, &mut other);
    let locked = beside + take(unmanaged.locked - beside, &mut pinned);
    let mut kinds = [
        (holdings.compressed, "compressed"),
        (pinned, "pinned by system calls"),
        (holdings.resident, "resident that eviction does not free"),
        (holdings.debugged, "kept resident for a debugger"),
        (holdings.shared, "shared memory"),
        (locked, "locked"),
        (stacks, "stacks of threads"),
        (other, "private memory that can't be managed"),
    ];
    kinds.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
    let mut text = String::new();
    for (bytes, name) in kinds.into_iter().filter(|(bytes, _)| *bytes >= 1 << 10) {
        let sign = if text.is_empty() { ": " } else { ", " };
        let _written = write!(text, "{sign}{} KiB {name}", bytes >> 10);
        let incompressible = holdings.incompressible >> 10;
        if name == "compressed" && incompressible > 0 {
            let _written = write!(text, " ({incompressible} KiB of them incompressible)");
        }
    }
    text
}

/// Returns the sizes of the private memory that the arena does not manage. `maps` is the text of
/// /proc/self/smaps.
fn unmanaged(maps: &[u8], space: &Space, arena: &Arena) -> Unmanaged {
    let is_managed = |at| windows::has(arena, at) && !space.pieces.is_empty(at..at + 1);
    unmanaged_of(&String::from_utf8_lossy(maps), &space.stacks, is_managed)
}

fn unmanaged_of(maps: &str, stacks: &Pieces<()>, is_managed: impl Fn(usize) -> bool) -> Unmanaged {
    let mut found = Unmanaged::default();
    let (mut start, mut is_stack, mut anonymous) = (0, false, 0);
    for line in maps.lines() {
        let mut words = line.split_ascii_whitespace();
        let first = words.next().unwrap_or_default();
        let (from, _) = first.split_once('-').unwrap_or_default();
        match (usize::from_str_radix(from, 16), first) {
            (Ok(at), _) => {
                (start, is_stack) = (at, line.ends_with("[stack]") || !stacks.is_empty(at..at + 1));
            }
            (_, "Anonymous:") => {
                anonymous = words.next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) << 10;
            }
            (_, "VmFlags:") => match () {
                () if words.any(|flag| flag == "lo") => found.locked += anonymous,
                () if is_stack && !is_managed(start) => found.stacks += anonymous,
                () => {}
            },
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_named_by_its_kinds_and_the_largest_comes_first() {
        let holdings = Holdings {
            compressed: 5 << 20,
            incompressible: 1 << 20,
            pinned: 100,
            resident: 0,
            debugged: 3 << 20,
            shared: 7 << 20,
            unmanaged: 4 << 20,
        };
        let text = kinds(&holdings, &Unmanaged { locked: 1 << 20, stacks: 2 << 20 });
        let expected = ": 7168 KiB shared memory, 5120 KiB compressed (1024 KiB of them \
            incompressible), 3072 KiB kept resident for a debugger, 2048 KiB stacks of threads, \
            1024 KiB locked, 1024 KiB private memory that can't be managed";
        assert_eq!(text, expected);
        assert_eq!(kinds(&Holdings::default(), &Unmanaged::default()), "");
        // Locked blocks in the arena count as pinned. Amounts in `unmanaged` that exceed `holdings`
        // are ignored.
        let holdings = Holdings { pinned: 3 << 20, resident: 1 << 20, ..Holdings::default() };
        let text = kinds(&holdings, &Unmanaged { locked: 2 << 20, stacks: 5 << 20 });
        let expected = ": 2048 KiB locked, 1024 KiB pinned by system calls, 1024 KiB resident that \
            eviction does not free";
        assert_eq!(text, expected);
    }

    #[test]
    fn locked_memory_and_stacks_are_found_in_the_list_of_mappings() {
        let maps = "1000-3000 rw-p 00000000 00:00 0\n\
            Anonymous:            8 kB\n\
            VmFlags: rd wr mr mw me ac lo\n\
            5000-6000 rw-p 00000000 00:00 0\n\
            Anonymous:            4 kB\n\
            VmFlags: rd wr mr mw me ac\n\
            7000-9000 rw-p 00000000 00:00 0    [stack]\n\
            Anonymous:           12 kB\n\
            VmFlags: rd wr mr mw me gd ac\n\
            a000-b000 rw-p 00000000 00:00 0\n\
            Anonymous:           16 kB\n\
            VmFlags: rd wr mr mw me ac\n";
        let mut stacks = Pieces::new();
        stacks.set(0x5000..0x6000, Some(()));
        let found = |managed: usize| unmanaged_of(maps, &stacks, |at| at == managed);
        assert_eq!(found(0), Unmanaged { locked: 8 << 10, stacks: 16 << 10 });
        assert_eq!(found(0x5000), Unmanaged { locked: 8 << 10, stacks: 12 << 10 });
    }
}
