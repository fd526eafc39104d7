//! Tests a device and a pool under load for hours (`make soak`). The result of every read is
//! compared with the expected data. After all data are freed, the process must have as much memory
//! and as many descriptors and threads as before the load.
#![allow(unsafe_code, clippy::unwrap_used)]

use fastrand::Rng;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};
use testkit::child::in_child;
use testkit::disk::Disk;
use testkit::handles::Handles;
use testkit::load::rounds;
use testkit::{seed, setting};
use zram::{Config, Device};
use zsmalloc::Pool;

const MIB: usize = 1 << 20;
/// The maximum duration of a lap.
const LAP: Duration = Duration::from_secs(60);
/// The number of laps after which the process has allocated all memory that it keeps.
const WARM_UP: usize = 3;
/// The maximum growth of the process's memory, in bytes, in an hour or in a shorter run.
const GROWTH_MAX: usize = MIB;

/// The resources of the process after all data are freed.
#[derive(Clone, Copy, Debug)]
struct Figures {
    resident: usize,
    /// The memory that the device and the pool report, in bytes.
    counted: usize,
    descriptors: usize,
    threads: usize,
}

fn entries(path: &str) -> usize {
    std::fs::read_dir(path).unwrap().count()
}

fn resident() -> usize {
    // SAFETY: `malloc_trim` releases only memory that is not allocated.
    unsafe { libc::malloc_trim(0) };
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
}

struct Soak {
    disk: Disk,
    handles: Handles,
    /// The number of threads of the process before any load.
    threads: usize,
}

impl Soak {
    fn new() -> Self {
        let disk = Disk::new(Device::new(Config::new(32 << 20).unwrap()).unwrap());
        let pool = Pool::new(zsmalloc::Config::default()).unwrap();
        pool.compact_in_background();
        Soak { disk, handles: Handles::new(pool, 20_000), threads: entries("/proc/self/task") }
    }

    /// Runs the load on the device and the pool, with a fork from time to time. Afterwards, frees
    /// all data.
    fn lap(&self, rng: &mut Rng, time: Duration) -> Figures {
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let (mut first, mut second) = (rng.fork(), rng.fork());
            let disk = scope.spawn(move || rounds(&self.disk, &mut first, time));
            let handles = scope.spawn(move || rounds(&self.handles, &mut second, time));
            let forking = scope.spawn(|| {
                while !done.load(Relaxed) {
                    in_child(|| {
                        self.disk.device.check();
                        self.handles.pool.check();
                    });
                    thread::sleep(time / 16);
                }
            });
            let ended = [disk.join(), handles.join()];
            done.store(true, Relaxed);
            assert!(forking.join().is_ok() && ended.iter().all(Result::is_ok), "see above");
        });
        // No load runs now, so a child of a fork finds the parent's contents.
        in_child(|| {
            self.disk.compare();
            self.disk.free_all();
        });
        self.disk.free_all();
        self.disk.device.compact();
        self.handles.free_all();
        self.handles.pool.compact();
        self.figures()
    }

    fn figures(&self) -> Figures {
        while entries("/proc/self/task") > self.threads {
            thread::sleep(Duration::from_millis(100)); // until the compacting threads have exited
        }
        Figures {
            resident: resident(),
            counted: self.disk.device.mem_total() as usize + self.handles.pool.bytes(),
            descriptors: entries("/proc/self/fd"),
            threads: entries("/proc/self/task"),
        }
    }
}

/// Asserts that the resources do not grow. Single laps vary, so the median of the first third of
/// the laps is compared with the median of the last third.
fn expect_flat(laps: &[Figures], time: Duration) {
    let third = laps.len().div_ceil(3);
    let middle = |laps: &[Figures], of: fn(&Figures) -> usize| {
        let mut figures: Vec<_> = laps.iter().map(of).collect();
        figures.sort_unstable();
        figures[figures.len() / 2]
    };
    let grown_by =
        |of| middle(&laps[laps.len() - third..], of).saturating_sub(middle(&laps[..third], of));
    let growth_max = (GROWTH_MAX as f64 * (time.as_secs_f64() / 3600.0).max(1.0)) as usize;
    let (resident, counted) =
        (grown_by(|lap: &Figures| lap.resident), grown_by(|lap: &Figures| lap.counted));
    println!("grown by {resident} bytes resident, {counted} bytes counted; {growth_max} may be");
    assert!(resident <= growth_max && counted <= growth_max, "memory is lost");
    for lap in laps {
        let first = &laps[0];
        assert_eq!((lap.descriptors, lap.threads), (first.descriptors, first.threads));
    }
}

#[test]
#[ignore = "takes an hour: make soak"]
fn soak() {
    let time = Duration::from_secs(setting("SOAK_SECONDS", 3600));
    let lap = LAP.min(time / 12);
    let mut rng = Rng::with_seed(seed(131));
    let soak = Soak::new();
    let begun = Instant::now();
    let mut laps = Vec::new();
    while begun.elapsed() < time || laps.len() < WARM_UP + 3 {
        let figures = soak.lap(&mut rng, lap);
        println!("{:6} s, lap {}: {figures:?}", begun.elapsed().as_secs(), laps.len() + 1);
        laps.push(figures);
    }
    expect_flat(&laps[WARM_UP..], begun.elapsed());
}
