//! The number of mappings that a region is allowed to use (zm-M1), and tests of memory operations
//! that the kernel may refuse.

use crate::Error;
use crate::descriptor::File;
use crate::gate::inside;
use crate::memory::pages::{self, cool, guard};
use crate::memory::{Managed, table_reach};
use crate::options::BlockSizes;
use crate::policy::{
    CHUNK_BYTES, MAP_COUNT, PROBATION_MAX, PROBATION_MIN, PROBATION_SHARE, TABLES,
};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, read};
use std::ops::Range;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering::Relaxed};

/// The number of mappings that all regions have reserved.
static RESERVED: AtomicUsize = AtomicUsize::new(0);

/// A number of mappings that are reserved for a region until this value is dropped.
#[derive(Debug)]
pub(crate) struct Mappings {
    count: usize,
    pub(crate) chunk_bytes: usize,
    /// The maximum number of blocks in probation.
    pub(crate) probation_max: usize,
}

impl Mappings {
    /// Reserves mappings for the chunks and the blocks in probation of a region of `bytes` bytes,
    /// and `others` further mappings. `reserved` counts the reserved mappings of all regions, at
    /// most `max`.
    fn reserve(
        reserved: &AtomicUsize,
        max: usize,
        bytes: usize,
        blocks: usize,
        others: usize,
    ) -> Result<Self, Error> {
        let mut share = None;
        let reserve = |before: usize| {
            // A region reserves at most half of the mappings that are not reserved yet.
            let next = Self::within(max.saturating_sub(before) / 2, bytes, blocks, others);
            std::mem::forget(std::mem::replace(&mut share, next));
            Some(before + share.as_ref()?.count)
        };
        let _reserved = reserved.fetch_update(Relaxed, Relaxed, reserve);
        let what = "as many mappings (take larger blocks, or raise vm.max_map_count)";
        share.ok_or_else(|| Error::system(what)(Errno::NOMEM))
    }

    fn within(room: usize, bytes: usize, blocks: usize, others: usize) -> Option<Self> {
        let mut chunk_bytes = CHUNK_BYTES;
        while bytes.div_ceil(chunk_bytes) > room / 2 {
            chunk_bytes = chunk_bytes.checked_mul(2)?;
        }
        let others = bytes.div_ceil(chunk_bytes) + others + 2;
        let most = (blocks / PROBATION_SHARE).max(PROBATION_MIN).min(blocks).min(PROBATION_MAX);
        let probation_max = (room.checked_sub(others)? / 2).min(most);
        // `then` creates no `Mappings` if the condition is false. Otherwise `Mappings::drop` would
        // subtract `count` from `RESERVED`.
        (probation_max >= PROBATION_MIN.min(blocks)).then(|| Mappings {
            count: others + 2 * probation_max,
            chunk_bytes,
            probation_max,
        })
    }
}

impl Drop for Mappings {
    fn drop(&mut self) {
        RESERVED.fetch_sub(self.count, Relaxed);
    }
}

/// Checks that all memory at `addresses` is private, anonymous, readable and writable.
///
/// # Errors
/// [`Error::Memory`] with the first address that belongs to other memory.
pub(crate) fn check_plain(addresses: &Range<usize>) -> Result<(), Error> {
    // If /proc/self/maps can't be read, the memory is accepted without a check.
    let maps = std::fs::read_to_string("/proc/self/maps");
    maps.map_or(Ok(()), |maps| check_plain_of(&maps, addresses))
}

fn check_plain_of(maps: &str, addresses: &Range<usize>) -> Result<(), Error> {
    let mut next = addresses.start;
    for line in maps.lines() {
        let words: Vec<_> = line.split_ascii_whitespace().collect();
        let [range, protection, _, _, inode, name @ ..] = &words[..] else { continue };
        let [start, end] = [0, 1].map(|nth| {
            let text = range.split('-').nth(nth).unwrap_or_default();
            usize::from_str_radix(text, 16).unwrap_or(usize::MAX)
        });
        if end <= next || start >= addresses.end {
            continue;
        }
        let what = match (*protection, *inode, name) {
            _ if start > next => "not mapped",
            (text, _, _) if text.ends_with('s') => "shared",
            (_, inode, _) if inode != "0" => "a file's",
            (_, _, ["[stack]"]) => "a stack",
            ("rw-p", _, _) => {
                next = end;
                continue;
            }
            _ => "not readable and writable, and no more",
        };
        return Err(Error::Memory { at: next, what });
    }
    let not_mapped = Error::Memory { at: next, what: "not mapped" };
    if next >= addresses.end { Ok(()) } else { Err(not_mapped) }
}

/// Returns the block sizes of a region of `bytes` bytes, and the number of mappings that the region
/// is allowed to use. `marked(n)` is the maximum number of mappings that the marks of `n` blocks
/// need. If the kernel permits fewer mappings, blocks become larger than blocks of the device
/// (zm-M2).
pub(crate) fn fit(
    mut sizes: BlockSizes,
    bytes: usize,
    contexts: usize,
    marked: impl Fn(usize) -> usize,
) -> Result<(BlockSizes, Mappings), Error> {
    let text = std::fs::read_to_string("/proc/sys/vm/max_map_count");
    let count_max = text.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(MAP_COUNT) / 2;
    loop {
        let blocks = bytes / sizes.block;
        let (marked, larger) = (marked(blocks), 2 * sizes.block);
        let may_grow = marked > 0 && larger <= CHUNK_BYTES && bytes.is_multiple_of(larger);
        let others = 2 * contexts + marked;
        match Mappings::reserve(&RESERVED, count_max, bytes, blocks, others) {
            Err(_) if may_grow => sizes.block = larger,
            reserved => return Ok((sizes, reserved?)),
        }
    }
}

/// Maps a page for tests of memory operations.
fn page_of_own() -> Result<Managed, Errno> {
    Managed::map(page::page_size(), page::page_size())
}

pub(crate) fn has_guards() -> bool {
    page_of_own().is_ok_and(|probe| guard(&probe, 0..probe.bytes()).is_ok())
}

/// Returns an error if this process can't use /proc/self/mem to read and write protected memory.
pub(crate) fn writes_below_protection() -> Result<(), Errno> {
    let probe = page_of_own()?;
    // These calls may open and keep a descriptor. They run inside the gate, so that no other thread
    // forks during a call.
    inside(|| {
        pages::write(&probe, 0, &[1])?;
        pages::read(&probe, 0, &mut [0])
    })
}

/// Returns whether the kernel frees page tables of this memory together with their pages (Linux
/// 6.14, on some architectures). The first call tests this on new memory, because the kernel does
/// not report this property. The first call may happen during a fault.
pub(crate) fn frees_tables(memory: &Managed) -> bool {
    /// 1 if the kernel frees page tables, 0 if not, and negative before the test.
    static FREES: AtomicI32 = AtomicI32::new(-1);
    if FREES.load(Relaxed) < 0 {
        // Concurrent callers each run the test. If they waited for one thread, a child that lacks
        // this thread would wait forever.
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
    (0..TABLES).for_each(|nth| pages::clear(&probe, nth * reach..nth * reach + page));
    let before = taken()?;
    for nth in 0..TABLES {
        probe.drop_pages(nth * reach..(nth + 1) * reach).ok()?;
    }
    Some(before.saturating_sub(taken()?) << 10 > TABLES * page / 2)
}

/// Opens and closes all blocks of a region. The kernel counts open memory as data, and may refuse
/// to open the region. Without this check, an access would fail later.
pub(crate) fn may_be_data(memory: &Managed) -> Result<(), Errno> {
    let all = 0..memory.addresses().len();
    memory.open(all.clone())?;
    memory.close(all)
}

/// Returns the address of the first page that can't be evicted: a locked page, or a huge page that
/// can't be split.
pub(crate) fn first_that_stays(memory: &Managed) -> Option<usize> {
    let stays = |range: &Range<usize>| cool(memory, range.clone()).is_err();
    let (page, mut range) = (page::page_size(), 0..memory.bytes());
    // Linux before 5.4 does not support MADV_COLD, so such pages are not found.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_can_not_be_managed_is_told_from_what_can() {
        let maps = "1000-3000 rw-p 00000000 00:00 0\n\
            3000-4000 rw-p 00000000 00:00 0    [heap]\n\
            4000-5000 r--p 00000000 00:00 0\n\
            5000-6000 rw-s 00000000 00:01 77   /dev/zero (deleted)\n\
            6000-7000 rw-p 00000000 00:01 77   /a file\n\
            8000-9000 rw-p 00000000 00:00 0    [stack]\n";
        let of = |range| match check_plain_of(maps, &range) {
            Err(Error::Memory { at, what }) => (at, what),
            other => (usize::from(other.is_err()), ""),
        };
        assert_eq!(of(0x1000..0x4000), (0, ""));
        assert_eq!(of(0x2000..0x2800), (0, ""));
        assert_eq!(of(0..0x2000), (0, "not mapped"));
        assert_eq!(of(0x3000..0x5000), (0x4000, "not readable and writable, and no more"));
        assert_eq!(of(0x5000..0x6000), (0x5000, "shared"));
        assert_eq!(of(0x6000..0x7000), (0x6000, "a file's"));
        assert_eq!(of(0x7000..0x9000), (0x7000, "not mapped"));
        assert_eq!(of(0x8000..0x9000), (0x8000, "a stack"));
        assert_eq!(of(0x9000..0xa000), (0x9000, "not mapped"));
    }

    #[test]
    fn shares_are_never_more_than_there_are() {
        for max in [200, 1000, 32_765] {
            for bytes in [1 << 20, 1 << 30, 1 << 36, 1 << 45] {
                let reserved = AtomicUsize::new(0);
                let mut count = 0;
                while let Ok(share) = Mappings::reserve(&reserved, max, bytes, bytes >> 12, 8) {
                    let chunks = bytes.div_ceil(share.chunk_bytes);
                    assert!(share.count >= chunks + 2 * share.probation_max + 8);
                    count += share.count;
                    assert!(count <= max);
                    std::mem::forget(share);
                }
                assert!(count > 0 || max == 200, "{max} {bytes}");
            }
        }
    }
}
