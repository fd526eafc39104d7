//! `madvise` calls for managed memory. They set guards, choose whether pages are allocated one by
//! one, several at once, or in folios of up to a block, and determine whether parent and child
//! share pages.
//!
//! # Safety
//! See [`memory`](super). Only [`guard`] and [`unguard`] change data.
#![allow(unsafe_code)]

use super::Managed;
use crate::policy::POPULATED_MIN;
use rustix::io::Errno;
use std::fs::{read_dir, read_to_string};
use std::ops::Range;
use std::path::Path;

/// Guards exist since Linux 6.13; `libc` has no constants for them yet.
const MADV_GUARD_INSTALL: i32 = 102;
const MADV_GUARD_REMOVE: i32 = 103;
/// This `madvise` value exists since Linux 5.14. `libc` does not define it on all systems.
const MADV_POPULATE_WRITE: i32 = 23;
const FOLIOS: &str = "/sys/kernel/mm/transparent_hugepage";

/// Releases the pages of a range, and sets guards, so that every access to the range faults.
pub(crate) fn guard(memory: &Managed, range: Range<usize>) -> Result<(), Errno> {
    set_guards(memory, &range, MADV_GUARD_INSTALL)
}

/// Removes the guards of a range, which then reads as zeros.
pub(crate) fn unguard(memory: &Managed, range: Range<usize>) -> Result<(), Errno> {
    set_guards(memory, &range, MADV_GUARD_REMOVE)
}

fn set_guards(memory: &Managed, range: &Range<usize>, advice: i32) -> Result<(), Errno> {
    loop {
        // SAFETY: the caller owns the blocks. Their data are stored elsewhere, or the program does
        // not need them any more.
        match unsafe { memory.advise(range.clone(), advice) } {
            // A fault of another thread interfered while a guard was being set.
            Err(Errno::AGAIN | Errno::INTR) => {}
            set => return set,
        }
    }
}

/// Makes the kernel reclaim the pages of a range before other pages. Returns an error if some pages
/// are locked or huge: callers use this function to find such pages.
pub(crate) fn cool(memory: &Managed, range: Range<usize>) -> Result<(), Errno> {
    // SAFETY: the advice changes no data.
    unsafe { memory.advise(range, libc::MADV_COLD) }
}

/// Makes each page of a range present and private to this process: shared pages are copied.
pub(crate) fn make_own(memory: &Managed, range: Range<usize>) -> Result<(), Errno> {
    // SAFETY: the advice changes no data.
    unsafe { memory.advise(range, MADV_POPULATE_WRITE) }
}

/// Populates pages that are about to be written, if the kernel supports MADV_POPULATE_WRITE (Linux
/// 5.14). Otherwise each write populates one page.
pub(crate) fn populate(memory: &Managed, range: Range<usize>) {
    if range.len() >= POPULATED_MIN * page::page_size() {
        let _refused = make_own(memory, range);
    }
}

/// Sets whether children inherit the first window.
pub(crate) fn set_inherited(memory: &Managed, is_inherited: bool) -> Result<(), Errno> {
    let advice = if is_inherited { libc::MADV_DOFORK } else { libc::MADV_DONTFORK };
    // SAFETY: the advice changes no data in this process. In a child, `keep_place` ensures that no
    // other mapping is created in the range.
    unsafe { memory.advise(0..memory.addresses().len(), advice) }
}

/// Allows folios in the first window if the kernel allocates folios of some size up to `block`
/// bytes, and of no larger size.
pub(crate) fn allow_folios(memory: &Managed, block: usize) {
    if block > page::page_size() && has_folios(Path::new(FOLIOS), block) {
        // SAFETY: the advice changes no data.
        let _refused = unsafe { memory.advise(0..memory.addresses().len(), libc::MADV_HUGEPAGE) };
    }
}

/// Returns whether the kernel allocates folios of some size up to `block` bytes, and of no larger
/// size, for memory that requests huge pages.
fn has_folios(settings: &Path, block: usize) -> bool {
    let set = |path: &Path| {
        let words = read_to_string(path.join("enabled")).unwrap_or_default();
        let chosen = words.split_whitespace().find_map(|word| word.strip_prefix('['));
        chosen.map_or(String::new(), |word| word.trim_end_matches(']').to_string())
    };
    let Ok(entries) = read_dir(settings) else { return false };
    let mut sizes = entries.flatten().filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let bytes = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse::<usize>().ok()?;
        let own = set(&entry.path());
        let chosen = if own == "inherit" { set(settings) } else { own };
        matches!(chosen.as_str(), "always" | "madvise").then_some(bytes << 10)
    });
    sizes.next().is_some_and(|first| first <= block && sizes.all(|size| size <= block))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir, write};

    #[test]
    fn folios_are_those_that_the_system_makes_and_no_larger_ones() {
        let settings = std::env::temp_dir().join(format!("zmem-folios-{}", std::process::id()));
        create_dir(&settings).unwrap();
        let set = |size: &str, words: &str| {
            let dir = settings.join(size);
            let _there = create_dir(&dir);
            write(dir.join("enabled"), words).unwrap();
        };
        let of = |block: usize| has_folios(&settings, block << 10);
        assert!(!of(16));
        set("hugepages-16kB", "always inherit madvise [never]");
        set("hugepages-2048kB", "always [inherit] madvise never");
        set("", "always madvise [never]");
        assert!(!of(16));
        set("hugepages-16kB", "always inherit [madvise] never");
        assert!(of(16) && of(64) && !of(8));
        set("", "[always] madvise never");
        assert!(!of(16) && !of(64), "2 MiB are more than a block");
        set("hugepages-2048kB", "always inherit madvise [never]");
        assert!(of(16));
        std::fs::remove_dir_all(&settings).unwrap();
    }
}
