//! Compares class tables with published values. The values are from the kernel's documentation
//! (`UsedPercent`), the current kernel (`LeastWaste`), the patches of 2014 and 2016, and the
//! multi-page series of 2024.
#![allow(clippy::unwrap_used)]

use testkit::s3::COUNTS;
use zsmalloc::{ChainRule, ClassStat, ClassTable, Config, Geometry, Handle, KernelGeometry, Pool};

fn table(chain: usize, rule: ChainRule) -> ClassTable {
    let kernel = KernelGeometry { chain, rule, ..KernelGeometry::default() };
    Geometry::Kernel(kernel).table().unwrap()
}

#[test]
fn class_counts_and_watermarks() {
    for (chain, used_percent, least_waste, watermark) in COUNTS {
        for (rule, count) in
            [(ChainRule::UsedPercent, used_percent), (ChainRule::LeastWaste, least_waste)]
        {
            let table = table(chain, rule);
            assert_eq!(table.classes().len(), count, "chain {chain}, {rule:?}");
            assert_eq!(table.watermark(0), watermark, "chain {chain}, {rule:?}");
            assert_eq!(table.huge_size(0), watermark - 7);
        }
    }
}

#[test]
fn unmerged_there_are_255_sizes() {
    for chain in [1, 4, 8, 16, 64, 256] {
        let kernel = KernelGeometry { chain, merge: false, ..KernelGeometry::default() };
        let table = Geometry::Kernel(kernel).table().unwrap();
        let classes = table.classes();
        assert_eq!(classes.len(), 255);
        assert!(classes.iter().enumerate().all(|(nth, class)| {
            class.index as usize == nth && class.size == 32 + 16 * nth && class.pages <= chain
        }));
    }
}

/// Returns index, size and pages per zspage of each class from number 202 up.
fn upper_rows(chain: usize, rule: ChainRule) -> Vec<(u32, usize, usize)> {
    let rows = table(chain, rule);
    let upper = rows.classes().iter().filter(|class| class.index >= 202);
    upper.map(|class| (class.index, class.size, class.pages)).collect()
}

#[test]
fn the_documents_listings() {
    let eight = [
        (202, 3264, 4),
        (211, 3408, 5),
        (217, 3504, 6),
        (222, 3584, 7),
        (225, 3632, 8),
        (254, 4096, 1),
    ];
    assert_eq!(upper_rows(8, ChainRule::UsedPercent), eight);
    assert_eq!(upper_rows(8, ChainRule::LeastWaste), eight);
    let mut sixteen = vec![
        (202, 3264, 4),
        (206, 3328, 13),
        (207, 3344, 9),
        (208, 3360, 14),
        (211, 3408, 5),
        (212, 3424, 16),
        (214, 3456, 11),
        (217, 3504, 6),
        (219, 3536, 13),
        (222, 3584, 7),
        (223, 3600, 15),
        (225, 3632, 8),
        (228, 3680, 9),
        (230, 3712, 10),
        (232, 3744, 11),
        (234, 3776, 12),
        (235, 3792, 13),
        (236, 3808, 14),
        (238, 3840, 15),
        (254, 4096, 1),
    ];
    assert_eq!(upper_rows(16, ChainRule::UsedPercent), sixteen);
    // The rule of the current kernel gives another result in one row.
    sixteen[5] = (213, 3440, 16);
    assert_eq!(upper_rows(16, ChainRule::LeastWaste), sixteen);
}

/// The kernel's documentation has an example with the pages, wasted bytes and used percentage for
/// objects of 1568 bytes.
#[test]
fn zspages_of_1568_bytes() {
    let rows = [(1, 960, 76), (2, 352, 95), (3, 1312, 89), (4, 704, 95), (5, 96, 99)];
    for rule in [ChainRule::UsedPercent, ChainRule::LeastWaste] {
        let kernel = KernelGeometry { chain: 5, rule, ..KernelGeometry::default() };
        let candidates = kernel.candidates(1568);
        let candidates = candidates.map(|shape| (shape.pages, shape.waste(), shape.used_percent()));
        assert_eq!(candidates.collect::<Vec<_>>(), rows);
        // With chains of at most 4 pages, sizes 95 to 99 merge into class 100. With 5 pages, the
        // size of 1568 bytes has its own class.
        let class = |chain| {
            let table = table(chain, rule);
            table.classes()[table.position(1568 - 8).unwrap()]
        };
        let (four, five) = (class(4), class(5));
        assert_eq!((four.index, four.size, four.pages, four.objects), (100, 1632, 2, 5));
        assert_eq!((four.size_min - 32) / 16, 95);
        assert_eq!((five.index, five.size, five.pages, five.objects), (96, 1568, 5, 13));
    }
}

/// In the patch of 2014, eight sizes share zspages of 4 pages and 11 objects.
#[test]
fn eight_sizes_share_eleven_objects() {
    for rule in [ChainRule::UsedPercent, ChainRule::LeastWaste] {
        let table = table(4, rule);
        let class = table.classes().iter().find(|class| class.size == 1488).unwrap();
        assert_eq!((class.pages, class.objects, class.size_min), (4, 11, 1376));
        assert_eq!((class.size - class.size_min) / 16 + 1, 8);
    }
}

/// The patch of 2016 gives the first size of the huge class for chains of 4, 5 and 6 pages.
#[test]
fn first_huge_sizes_of_2016() {
    for (chain, first_huge) in [(4, 3280), (5, 3424), (6, 3520)] {
        for rule in [ChainRule::UsedPercent, ChainRule::LeastWaste] {
            assert_eq!(table(chain, rule).watermark(0) + 16, first_huge);
        }
    }
    let class = |chain| {
        let kernel = KernelGeometry { chain, merge: false, ..KernelGeometry::default() };
        let table = Geometry::Kernel(kernel).table().unwrap();
        *table.classes().iter().find(|class| class.size == 3328).unwrap()
    };
    assert_eq!((class(5).pages, class(5).objects, class(4).pages), (5, 6, 1));
}

/// The rows contain order, number of sizes, number of classes, watermark and first huge object.
/// Chains have at most 8 pages, and the rule is least waste.
#[test]
fn multi_page_classes_of_2024() {
    for (order, sizes, classes, watermark, huge) in [
        (1, 129, 22, 7264, 7257),
        (2, 193, 58, 14528, 14521),
        (3, 225, 88, 29056, 29049),
        (4, 241, 104, 58112, 58105),
    ] {
        let kernel = KernelGeometry { order, ..KernelGeometry::default() };
        let table = Geometry::Kernel(kernel).table().unwrap();
        let above = table.classes().iter().filter(|class| class.size > 4096).count();
        assert_eq!(
            (above, table.watermark(order), table.huge_size(order)),
            (classes, watermark, huge)
        );
        assert_eq!((table.watermark(0), table.largest()), (3632, 4096 << order));
        let unmerged = KernelGeometry { merge: false, ..kernel };
        let table = Geometry::Kernel(unmerged).table().unwrap();
        // The published number of sizes above a page includes the page size itself.
        assert_eq!(table.classes().iter().filter(|class| class.size > 4096).count() + 1, sizes);
    }
}

/// The kernel's documentation has sample statistics: size, slots, objects, pages, freeable pages.
#[test]
fn the_documents_statistics() {
    for rule in [ChainRule::UsedPercent, ChainRule::LeastWaste] {
        let table = table(4, rule);
        for (size, obj_allocated, obj_used, pages_used, freeable) in
            [(512, 3464, 3346, 433, 14), (528, 4154, 3793, 536, 44), (544, 4170, 3965, 556, 26)]
        {
            let shape = *table.classes().iter().find(|class| class.size == size).unwrap();
            let row = ClassStat {
                shape,
                groups: [0; 12],
                obj_allocated,
                obj_used,
                committed: pages_used,
                ready: 0,
                gain: freeable,
                whole: true,
            };
            assert_eq!((row.pages_used(), row.freeable()), (pages_used, freeable), "{row:?}");
        }
    }
}

const HEADER: &str = "class size 10% 20% 30% 40% 50% 60% 70% 80% 90% 99% 100% \
    obj_allocated obj_used pages_used pages_per_zspage freeable";

/// Returns the printed table, with single spaces between words.
fn printed(pool: &Pool) -> Vec<String> {
    let text = pool.classes().to_string();
    assert!(text.ends_with('\n'));
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    text.lines().map(words).collect()
}

fn expect(pool: &Pool, header: &str, rows: [&str; 2], total: &str) {
    let printed = printed(pool);
    let [first, between @ .., empty, last] = &printed[..] else { panic!("{printed:?}") };
    assert_eq!([first, empty, last], [header, "", total]);
    assert_eq!(between.len(), pool.table().classes().len());
    for row in rows {
        assert!(between.iter().any(|line| line == row), "{row}\nis not in {between:#?}");
    }
}

/// The table has the columns of the kernel's `classes` file. If pages are committed one by one, a
/// further column follows.
#[test]
fn the_printed_table() {
    let stored = |pool: &Pool, len: usize, count: usize| -> Vec<Handle> {
        (0..count).map(|_| pool.store(&vec![1; len]).unwrap()).collect()
    };
    let geometry = Geometry::Kernel(KernelGeometry::default());
    let pool = Pool::new(Config { geometry, ..Config::default() }).unwrap();
    assert_eq!(printed(&pool).last().unwrap(), &format!("Total{}", " 0".repeat(15)));
    // Three zspages have 8 slots each. Two of the zspages are half full, and 50% belongs to the
    // group "60%".
    for (nth, handle) in stored(&pool, 500, 24).into_iter().enumerate() {
        if matches!(nth, 0..4 | 8..12) {
            pool.free(handle).unwrap();
        }
    }
    let _block = stored(&pool, 4096, 1);
    let rows =
        ["30 512 0 0 0 0 0 2 0 0 0 0 1 24 16 3 1 1", "254 4096 0 0 0 0 0 0 0 0 0 0 1 1 1 1 1 0"];
    expect(&pool, HEADER, rows, "Total 0 0 0 0 0 2 0 0 0 0 2 25 17 4 1");

    // A zspage has 107 slots of 4096 bytes. Five objects of 4096 bytes use five pages. A zspage of
    // 16 pages has 126 slots of 520 bytes.
    let pool = Pool::new(Config::default()).unwrap();
    let _blocks = stored(&pool, 4096, 5);
    let _small = stored(&pool, 520, 257);
    let rows = [
        "508 4096 1 0 0 0 0 0 0 0 0 0 0 107 5 107 107 0 5",
        "61 520 1 0 0 0 0 0 0 0 0 0 2 378 257 48 16 0 33",
    ];
    let header = format!("{HEADER} committed");
    expect(&pool, &header, rows, "Total 2 0 0 0 0 0 0 0 0 0 2 485 262 155 0 38");
}
