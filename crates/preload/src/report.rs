//! What a process tells: what it has done, as a line of JSON at its end, and what is wrong.

use crate::heap;
use crate::space::system;
use std::fmt::{Display, Write};
use zmem::Stats;

/// Writes a line to the program's standard error.
pub(crate) fn say(what: &dyn Display) {
    let line = format!("uzram run: {what}\n");
    let _gone = system(libc::SYS_write, [2, line.as_ptr().addr(), line.len(), 0, 0, 0]);
}

/// Appends the process's line to a file. `calls` were dispatched; of all processes together
/// `tree_held_max` was the most that was held.
pub(crate) fn write(path: &[u8], stats: &Stats, tree_held_max: u64, calls: u64) {
    let line = line(stats, tree_held_max, calls);
    let path: Vec<u8> = path.iter().copied().chain([0]).collect();
    let flags = libc::O_WRONLY | libc::O_APPEND | libc::O_CLOEXEC;
    let opened = [libc::AT_FDCWD as usize, path.as_ptr().addr(), flags as usize, 0, 0, 0];
    // A file that is gone is wanted by nobody.
    if let Ok(file) = system(libc::SYS_openat, opened) {
        let args = [file, line.as_ptr().addr(), line.len(), 0, 0, 0];
        let _short = system(libc::SYS_write, args);
        let _closed = system(libc::SYS_close, [file, 0, 0, 0, 0, 0]);
    }
}

fn line(stats: &Stats, tree_held_max: u64, calls: u64) -> String {
    let process = system(libc::SYS_getpid, [0; 6]).unwrap_or(0);
    let micros = |share| stats.faults.per_mille(share).as_micros() as u64;
    let mut line = String::new();
    let numbers = [
        ("process", process as u64),
        ("limit", stats.limit.unwrap_or(0)),
        ("block", stats.block as u64),
        ("held", stats.held),
        ("held_max", stats.held_max),
        ("in_tree", stats.is_in_tree.into()),
        ("tree_held_max", tree_held_max),
        ("resident", stats.resident),
        ("stored", stats.stored),
        ("compressed", stats.compressed),
        ("pool", stats.pool),
        ("heap", heap::mapped() as u64),
        ("faults", stats.faults.count()),
        ("fault_us_median", micros(500)),
        ("fault_us_99", micros(990)),
        ("first_touches", stats.first_touches),
        ("kept", stats.kept),
        ("filled", stats.filled),
        ("evicted", stats.evicted),
        ("refused", stats.refused),
        ("calls", calls),
    ];
    for (nth, (name, value)) in numbers.into_iter().enumerate() {
        let before = if nth == 0 { "{" } else { "," };
        let _infallible = write!(line, "{before}\"{name}\":{value}");
    }
    let _infallible = writeln!(line, ",\"backend\":\"{}\"}}", stats.backend);
    line
}
