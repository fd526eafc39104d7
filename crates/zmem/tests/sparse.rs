//! A region of which few pages are touched. The region uses no more memory, including page tables,
//! than it reports. Untouched memory costs no processor time.
#![allow(clippy::unwrap_used)]

use std::fs::read_to_string;
use std::time::{Duration, Instant};
use testkit::child::in_child;
use zmem::{BackendKind, BlockOrder, Options, Region};

const MIB: usize = 1 << 20;
const GIB: usize = 1 << 30;
const STEP: usize = 4 * MIB;
const LIMIT: Option<u64> = Some(20 << 20);

/// Returns the sizes of this process's anonymous pages and of its page tables, in bytes.
fn taken() -> [u64; 2] {
    let text = read_to_string("/proc/self/status").unwrap();
    ["RssAnon:", "VmPTE:"].map(|name| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    })
}

/// Returns a region whose limit was removed after its creation. The first limit bounds the number
/// of buffers, which count as held even if they are unused.
fn region(bytes: usize, backend: BackendKind, block: BlockOrder) -> Option<Region> {
    let options = Options { backend, block, limit: LIMIT, ..Options::default() };
    let region = Region::new(bytes, options).ok()?;
    region.set_limit(None).unwrap();
    Some(region)
}

fn touch(region: &mut Region) {
    (0..region.len()).step_by(STEP).for_each(|at| region[at] = (at / STEP) as u8 | 1);
}

fn is_whole(region: &Region) -> bool {
    (0..region.len()).step_by(STEP).all(|at| region[at] == (at / STEP) as u8 | 1)
}

/// Evicts all blocks of `region`. Returns whether the kernel has then freed page tables.
fn frees_tables(region: &Region) -> bool {
    let before = region.stats().held - region.stats().resident;
    region.reclaim(usize::MAX);
    region.stats().held + 4 * MIB as u64 <= before
}

#[test]
fn what_is_held_has_page_tables_with_it() {
    use BackendKind::{Signal, SignalRemap, UserfaultfdSigbus};
    [Signal, SignalRemap, UserfaultfdSigbus].into_iter().for_each(hold_page_tables);
}

fn hold_page_tables(backend: BackendKind) {
    in_child(|| {
        let before = taken();
        let Some(mut region) = region(8 * GIB, backend, Options::default().block) else {
            return println!("left out, as it is not permitted here: {backend:?}");
        };
        touch(&mut region);
        let (now, held) = (taken(), region.stats().held);
        let all = now[0] - before[0] + now[1] - before[1];
        println!("{backend:?}: {all} taken, {held} held");
        assert!(all <= held + held / 50, "{all} taken, {held} held");
        // With other backends, blocks may have page tables in a second range of addresses too.
        assert!(backend != BackendKind::Signal || held <= all + all / 10, "{all}, {held} held");
        let has_freed = frees_tables(&region);
        let (now, held) = (taken(), region.stats().held);
        let all = now[0] - before[0] + now[1] - before[1];
        println!("freed: {has_freed}; {all} taken, {held} held");
        assert!(all <= held + held / 20, "{all} taken, {held} held");
        region.check();
        assert!(is_whole(&region));
        let range = 0..region.len();
        region.dont_need(range).unwrap();
        assert!(!has_freed || taken()[1] - before[1] < 2 * MIB as u64, "page tables stay");
        region.check();
    });
}

/// A region of which few pages are touched keeps its data. If the kernel frees page tables, the
/// region also stays within its limit.
#[test]
fn what_is_touched_here_and_there_keeps_the_limit() {
    for block in [BlockOrder::Fixed(0), BlockOrder::Fixed(3)] {
        for backend in [BackendKind::Signal, BackendKind::UserfaultfdSigbus] {
            let limit = LIMIT.unwrap();
            in_child(|| {
                let Some(mut region) = region(16 * GIB, backend, block) else { return };
                touch(&mut region);
                if !frees_tables(&region) {
                    return println!("page tables stay here");
                }
                region.set_limit(Some(limit)).unwrap();
                let before = taken();
                for _ in 0..2 {
                    assert!(is_whole(&region));
                    let held = region.stats().held;
                    println!("{backend:?}, {block:?}: {held} of {limit}");
                    assert!(held <= limit, "{held}");
                    let more = taken()[1].saturating_sub(before[1]);
                    assert!(more <= limit / 2, "{more} of page tables");
                }
                region.check();
            });
        }
    }
}

#[test]
fn reclaim_passes_over_what_was_never_touched() {
    in_child(|| {
        let mut region = Region::new(256 * GIB, Options::default()).unwrap();
        for nth in 0..64 {
            region[nth * 4 * GIB] = 1;
        }
        let began = Instant::now();
        assert_eq!(region.reclaim(usize::MAX), 64 * region.stats().block);
        let took = began.elapsed();
        assert!(took < Duration::from_millis(1500), "{took:?}");
        assert!((0..64).all(|nth| region[nth * 4 * GIB] == 1));
        region.check();
    });
}
