//! Probes, which find out which operations on memory the kernel permits to this process.

use crate::descriptor::File;
use crate::gate::GATE;
use crate::memory::advice::{cool, guard};
use crate::memory::{Managed, contents, table_reach};
use crate::policy::TABLES;
use crate::signals::without_signals;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, read};
use std::ops::Range;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

/// Maps a page on which operations can be tried.
fn page_of_own() -> Result<Managed, Errno> {
    Managed::map(page::page_size(), page::page_size())
}

pub(crate) fn has_guards() -> bool {
    page_of_own().is_ok_and(|probe| guard(&probe, 0..probe.bytes()).is_ok())
}

/// Returns an error if /proc/self/mem can't be opened, or does not ignore the protection of memory.
/// The kernel can be configured so that this file respects the protection.
pub(crate) fn writes_below_protection() -> Result<(), Errno> {
    let probe = page_of_own()?;
    // The calls run inside the gate, so that a child knows the descriptor that they open and keep.
    without_signals(|| {
        let _inside = GATE.enter();
        contents::write(&probe, 0, &[1])?;
        contents::read(&probe, 0, &mut [0])
    })
}

/// Returns whether the kernel frees page tables of this memory together with the pages that they
/// map (Linux 6.14, on some architectures). The kernel has no interface to query this, so the first
/// call tests it with memory mapped for the test. Most processes never call this function. The
/// first call may occur within a fault.
pub(crate) fn frees_tables(memory: &Managed) -> bool {
    /// The result: 0 if the kernel does not free page tables, 1 if it does, negative if this was
    /// not tried yet.
    static FREES: AtomicI32 = AtomicI32::new(-1);
    if FREES.load(Relaxed) < 0 {
        // Concurrent callers all try, because they must not wait for a thread that a child of fork
        // may lack.
        FREES.store(i32::from(try_to_free_tables() == Some(true)), Relaxed);
    }
    FREES.load(Relaxed) == 1 && memory.addresses().start.is_multiple_of(table_reach())
}

fn try_to_free_tables() -> Option<bool> {
    let (page, reach) = (page::page_size(), table_reach());
    let taken = || {
        let file = open(c"/proc/self/status", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        let mut text = [0; 4096];
        let bytes = read(File::from(file.ok()?), &mut text).ok()?;
        let text = std::str::from_utf8(&text[..bytes]).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmPTE:"))?;
        line.trim().strip_suffix(" kB")?.parse::<usize>().ok()
    };
    let probe = Managed::map(TABLES * reach, reach).ok()?;
    probe.open(0..probe.bytes()).ok()?;
    (0..TABLES).for_each(|nth| contents::clear(&probe, nth * reach..nth * reach + page));
    let before = taken()?;
    for nth in 0..TABLES {
        probe.drop_pages(nth * reach..(nth + 1) * reach).ok()?;
    }
    Some(before.saturating_sub(taken()?) << 10 > TABLES * page / 2)
}

/// Returns an error if the kernel does not permit a closed region to be opened entirely, because
/// open memory counts as data. With this check, the refusal occurs when the region is created, not
/// when it is accessed.
pub(crate) fn may_be_data(memory: &Managed) -> Result<(), Errno> {
    let all = 0..memory.addresses().len();
    memory.open(all.clone())?;
    memory.close(all)
}

/// Returns the address of the first page that can't be evicted, because the page is locked, or is a
/// huge page that can't be split.
pub(crate) fn first_that_stays(memory: &Managed) -> Option<usize> {
    let stays = |range: &Range<usize>| cool(memory, range.clone()).is_err();
    let (page, mut range) = (page::page_size(), 0..memory.bytes());
    // Linux before 5.4 lacks this advice, so the result is unknown.
    if !stays(&range) || page_of_own().is_ok_and(|probe| cool(&probe, 0..page).is_err()) {
        return None;
    }
    while range.len() > page {
        let middle = range.start + range.len() / 2 / page * page;
        let first = range.start..middle;
        range = if stays(&first) { first } else { middle..range.end };
    }
    Some(memory.addresses().start + range.start)
}
