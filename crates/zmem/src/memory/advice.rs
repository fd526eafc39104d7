//! Advice to the kernel about managed memory: whether pages are allocated one by one, several at
//! once, or in folios of up to a block; and whether parent and child share pages.
//!
//! # Safety
//! See [`memory`](super). No function in this module changes data.
#![allow(unsafe_code)]

use super::Managed;
use crate::policy::POPULATED_MIN;
use rustix::io::Errno;
use rustix::mm::{Advice, madvise};
use std::fs::{read_dir, read_to_string};
use std::ops::Range;
use std::path::Path;

/// The advice exists since Linux 5.14. `libc` does not define it on all systems.
const MADV_POPULATE_WRITE: i32 = 23;
const FOLIOS: &str = "/sys/kernel/mm/transparent_hugepage";

impl Managed {
    /// Populates pages that are about to be written, if the kernel supports MADV_POPULATE_WRITE
    /// (Linux 5.14). Otherwise each write populates one page.
    pub(crate) fn populate(&self, range: Range<usize>) {
        let (start, bytes) = self.place(&range);
        if bytes >= POPULATED_MIN * page::page_size() {
            // SAFETY: the range is within this memory. Existing pages are not changed.
            let _refused = unsafe { libc::madvise(start, bytes, MADV_POPULATE_WRITE) };
        }
    }

    /// Excludes the memory from huge pages, which would be split when single blocks are evicted.
    pub(super) fn keep_pages_small(&self) {
        self.keep_pages_small_in(0..self.own);
    }

    /// Excludes a range of the memory from huge pages.
    pub(crate) fn keep_pages_small_in(&self, range: Range<usize>) {
        self.advise_folios(range, Advice::LinuxNoHugepage);
    }

    /// Allows folios if the kernel allocates folios of some size up to `block` bytes, and of no
    /// larger size.
    pub(crate) fn allow_folios(&self, block: usize) {
        if block > page::page_size() && has_folios(Path::new(FOLIOS), block) {
            self.advise_folios(0..self.own, Advice::LinuxHugepage);
        }
    }

    fn advise_folios(&self, range: Range<usize>, advice: Advice) {
        let (start, bytes) = self.place(&range);
        // SAFETY: the call is a hint that changes no data. A kernel without huge pages refuses the
        // hint.
        let _refused = unsafe { madvise(start, bytes, advice) };
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

impl Managed {
    /// Makes each page of a range present and private to this process: shared pages are copied.
    pub(crate) fn make_own(&self, range: Range<usize>) -> Result<(), Errno> {
        let (start, bytes) = self.place(&range);
        // SAFETY: the call changes no data.
        unsafe { madvise(start, bytes, Advice::LinuxPopulateWrite) }
    }

    /// Sets whether children inherit this memory.
    pub(crate) fn set_inherited(&self, is_inherited: bool) -> Result<(), Errno> {
        let advice = if is_inherited { Advice::LinuxDoFork } else { Advice::LinuxDontFork };
        let (start, bytes) = self.place(&(0..self.own));
        // SAFETY: the call changes no data in this process. In a child, `keep_place` ensures that
        // no other mapping is created in the range.
        unsafe { madvise(start, bytes, advice) }
    }

    /// In a child that lacks this memory, maps the range of the memory as PROT_NONE, so that no
    /// other mapping is created in this range.
    pub(crate) fn keep_place(&self) -> Result<(), Errno> {
        Managed::map_at(self.addresses().start, self.own).map(std::mem::forget)
    }
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
