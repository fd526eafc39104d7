//! Compares the density of a pool with the prediction of docs/design.md.
#![allow(clippy::unwrap_used)]

use fastrand::Rng;
use page::page_size;
use testkit::seed;
use zsmalloc::{ClassStat, Config, Geometry, Handle, Pool};

/// The smallest object size, in bytes, for which the densities below are measured. The largest size
/// is the block size.
const SMALLEST: usize = 64;

/// The maximum allowed ratio of the measured waste to the predicted waste.
const MARGIN: f64 = 1.1;

/// The size of a handle slot in bytes if few slots of its leaf are in use.
const CELL: usize = 20;
/// The maximum number of bytes in partly filled pages of caches and maps.
const METADATA_SLACK: usize = 128 << 10;

/// Returns the overhead in bytes that docs/design.md predicts for `count` objects of evenly spread
/// sizes. If class sizes are `d` bytes apart, each object wastes `d / 2` bytes, and each class
/// wastes half a page. The best `d` is at least 8.
fn expected_waste(count: usize, bytes: usize, largest: usize) -> f64 {
    let page = page_size() as f64;
    let (count, width) = (count as f64, (largest - SMALLEST) as f64);
    let class = page / 2.0 + 256.0;
    let apart = (2.0 * class * width / count).sqrt().max(8.0);
    count * apart / 2.0 + width / apart * page / 2.0 + bytes as f64 / 3500.0
}

/// Returns the overhead of the pool's pages above the bytes of `live`, divided by the predicted
/// overhead.
fn waste(pool: &Pool, live: &[(Handle, usize)]) -> f64 {
    let bytes: usize = live.iter().map(|(_, len)| len).sum();
    let waste = pool.pages().used() * page_size() - bytes;
    let expected = expected_waste(live.len(), bytes, pool.largest());
    let percent = |waste: f64| 100.0 * waste / bytes as f64;
    println!(
        "{} objects: {:.2}% beside their bytes, {:.2}% expected",
        live.len(),
        percent(waste as f64),
        percent(expected)
    );
    waste as f64 / expected
}

fn metadata(pool: &Pool) -> usize {
    pool.bytes() - pool.pages().used() * page_size()
}

/// Returns the total size in bytes of the headers of all zspages, if each header had only the bytes
/// that it needs.
fn bodies(pool: &Pool) -> usize {
    let bytes = |objects: usize| 80 + objects.div_ceil(64) * 8 + objects * 4;
    let zspages = |stat: &ClassStat| stat.obj_allocated as usize / stat.shape.objects;
    pool.classes().iter().map(|stat| zspages(stat) * bytes(stat.shape.objects)).sum()
}

/// After the pool has grown to each number of objects in `counts`, compaction moves objects that
/// were stored under coarser plans to finer classes. After the pool has shrunk to each of these
/// numbers, compaction moves all objects out of closed classes, and packs the headers.
fn pools_are_dense(order: u32, counts: [usize; 4]) {
    let mut rng = Rng::with_seed(seed(113));
    let geometry = Geometry::Native { order };
    let pool = Pool::new(Config { geometry, ..Config::default() }).unwrap();
    let mut live = Vec::new();
    for count in counts {
        while live.len() < count {
            let len = rng.usize(SMALLEST..=pool.largest());
            live.push((pool.store(&vec![1; len]).unwrap(), len));
        }
        pool.compact();
        assert!(waste(&pool, &live) < MARGIN);
    }
    let mut managing = Vec::new();
    for &count in counts[..3].iter().rev() {
        rng.shuffle(&mut live);
        live.drain(count..).for_each(|(handle, _)| pool.free(handle).unwrap());
        pool.compact();
        assert!(waste(&pool, &live) < MARGIN);
        managing.push((metadata(&pool), bodies(&pool) + count * CELL));
    }
    live.into_iter().for_each(|(handle, _)| pool.free(handle).unwrap());
    pool.compact();
    for (bytes, bodies) in managing {
        let beyond = bytes - metadata(&pool);
        println!("{beyond} bytes manage zspages whose bodies, with the cells, have {bodies}");
        assert!(beyond < bodies + bodies / 4 + METADATA_SLACK);
    }
}

#[test]
fn pools_of_every_size_are_as_dense_as_the_arithmetic_has_it() {
    pools_are_dense(0, [300, 3000, 30_000, 300_000]);
}

#[test]
fn pools_of_blocks_are_as_dense_as_the_arithmetic_has_it() {
    pools_are_dense(2, [40, 400, 4000, 40_000]);
    pools_are_dense(4, [10, 100, 1000, 10_000]);
}
