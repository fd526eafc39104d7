//! Tests background compaction: it starts when it is worthwhile, does not change contents, and all
//! its threads end.
#![allow(clippy::unwrap_used)]

use fastrand::Rng;
use testkit::seed;
use testkit::wait::until;
use zsmalloc::{Config, Geometry, KernelGeometry, Pool};

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

// The file has a single test, so that no other test's threads are counted.
#[test]
fn a_pool_gives_back_by_itself() {
    let kernel = Geometry::Kernel(KernelGeometry::default());
    for (geometry, overhead_max) in [(Geometry::default(), 1.15), (kernel, 1.6)] {
        let before = threads();
        let pool = Pool::new(Config { geometry, ..Config::default() }).unwrap();
        pool.compact_in_background();
        let mut rng = Rng::with_seed(seed(1));
        let mut live: Vec<_> = (0..40_000u32)
            .map(|nth| {
                assert!(nth != 20 || threads() == before, "a thread before it is needed");
                let data = [nth as u8].repeat(rng.usize(200..=1800));
                (pool.store(&data).unwrap(), data)
            })
            .collect();
        rng.shuffle(&mut live);
        for (handle, _) in live.drain(4000..) {
            pool.free(handle).unwrap();
        }
        let bytes: usize = live.iter().map(|(_, data)| data.len()).sum();
        let overhead = || (pool.pages().used() * page::page_size()) as f64 / bytes as f64;
        until("a tenth of the objects took much more than a tenth of the pages", || {
            overhead() < overhead_max
        });
        assert!(pool.pages_compacted() > 0);
        for (handle, data) in &live {
            assert_eq!(&*pool.read(handle).unwrap(), data);
        }
        // An idle thread ends, and the next request starts another thread.
        until("the idle thread did not end", || threads() == before);
        pool.check();
        // The thread compacts until no page can be freed, and then ends.
        let ready: u64 = pool.classes().iter().map(|stat| stat.ready).sum();
        assert_eq!((pool.freeable(), ready), (0, 0), "left to be gained in {geometry:?}");
        for (handle, _) in live.drain(400..) {
            pool.free(handle).unwrap();
        }
        for (handle, data) in live {
            assert_eq!(&*pool.read(&handle).unwrap(), data);
            pool.free(handle).unwrap();
        }
        drop(pool);
        // The kernel can list a thread for a short time after the join.
        until("a thread after the pool was dropped", || threads() == before);
    }
}
