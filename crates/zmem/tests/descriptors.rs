//! Descriptors of files in /proc are closed, inherited or refused. Accesses to a region still find
//! the region's data, and no other file or memory is written.
#![allow(unsafe_code, clippy::unwrap_used)]

use fastrand::Rng;
use std::ffi::{CString, c_void};
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use testkit::child::{Child, in_child};
use testkit::load::Stop;
use testkit::{scaled, seed};
use zmem::{BackendKind, Options, Region};

const MIB: usize = 1 << 20;
const PAGE: usize = 4096;
const NOBODY: u32 = 65_534;
const BACKENDS: [BackendKind; 2] = [BackendKind::Signal, BackendKind::SignalMappings];

/// Returns a region whose blocks are all evicted.
fn evicted(backend: BackendKind) -> Region {
    let options = Options { backend, ..Options::default() };
    let mut region = Region::new(4 * MIB, options).unwrap();
    write(&mut region, 1);
    reclaim_all(&region);
    region
}

fn reclaim_all(region: &Region) {
    let before = region.stats().evicted;
    region.reclaim(region.len());
    assert!(region.stats().evicted > before, "nothing has gone");
}

/// Writes the page's number and copies of `whose` to each page.
fn write(region: &mut Region, whose: u8) {
    for (nth, page) in region.chunks_mut(PAGE).enumerate() {
        page[..4].copy_from_slice(&(nth as u32).to_le_bytes());
        page[100..200].fill(whose);
    }
}

fn verify(region: &Region, whose: u8) {
    for (nth, page) in region.chunks(PAGE).enumerate() {
        assert_eq!(page[..4], (nth as u32).to_le_bytes());
        assert!(page[100..200].iter().all(|&byte| byte == whose), "page {nth} of {whose}");
    }
}

/// Fills, changes and evicts all blocks, and then fills them again.
fn use_all(region: &mut Region) {
    verify(region, 1);
    write(region, 9);
    reclaim_all(region);
    verify(region, 9);
    region.check();
}

fn close_all_descriptors() {
    // SAFETY: no code in this process needs these descriptors any more.
    unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) };
}

/// Returns the paths of this process's open files in /proc that concern memory or threads.
fn links() -> Vec<PathBuf> {
    let files = std::fs::read_dir("/proc/self/fd").unwrap();
    let links = files.filter_map(|file| std::fs::read_link(file.unwrap().path()).ok());
    let is_kept = |link: &PathBuf| {
        link.starts_with("/proc") && (link.ends_with("mem") || link.ends_with("task"))
    };
    links.filter(is_kept).collect()
}

/// A child for which no fork handler ran has no fault threads. So the child drops the region
/// without waiting for fault threads.
#[test]
fn children_that_no_handler_is_told_of_end_what_threads_answered() {
    in_child(|| {
        let options = Options { backend: BackendKind::Userfaultfd, ..Options::default() };
        let Ok(mut region) = Region::new(4 * MIB, options) else {
            return eprintln!("left out, as it is not permitted here: a userfaultfd");
        };
        write(&mut region, 1);
        let mut region = Some(region);
        Child::clone_unnoticed(|| drop(region.take())).wait();
        verify(region.as_ref().unwrap(), 1);
    });
}

/// A child for which no fork handler ran does not write to its parent's memory.
#[test]
fn children_that_no_handler_is_told_of_have_copies() {
    in_child(|| {
        for backend in BACKENDS {
            let mut region = evicted(backend);
            let (theirs, mut ours) = std::io::pipe().unwrap();
            let child = Child::clone_unnoticed(|| {
                std::io::Read::read_exact(&mut &theirs, &mut [0]).unwrap();
                verify(&region, 1);
                in_child(|| verify(&region, 1));
                write(&mut region, 3);
                reclaim_all(&region);
                let grandchild = Child::clone_unnoticed(|| {
                    verify(&region, 3);
                    write(&mut region, 4);
                    reclaim_all(&region);
                    verify(&region, 4);
                });
                grandchild.wait();
                verify(&region, 3);
                region.check();
            });
            write(&mut region, 2);
            reclaim_all(&region);
            std::io::Write::write_all(&mut ours, &[1]).unwrap();
            child.wait();
            verify(&region, 2);
            region.check();
        }
    });
}

/// A child has no descriptor of its parent's memory. So a child without privileges can't write to
/// the memory of a privileged parent.
#[test]
fn no_child_has_its_parents_descriptors() {
    in_child(|| {
        let mut region = evicted(BackendKind::Best);
        verify(&region, 1);
        reclaim_all(&region);
        in_child(|| {
            let own = PathBuf::from(format!("/proc/{}", std::process::id()));
            let links = links();
            assert!(!links.is_empty());
            assert!(links.iter().all(|link| link.starts_with(&own)), "{links:?}");
            use_all(&mut region);
        });
        verify(&region, 1);
    });
}

fn give_up_user() {
    // SAFETY: the calls change only this process.
    unsafe {
        if libc::getuid() == 0 {
            assert_eq!(libc::setgid(NOBODY), 0);
            assert_eq!(libc::setuid(NOBODY), 0);
        }
        libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
    }
    assert!(std::fs::File::open("/proc/self/mem").is_err());
}

/// Changes the root directory to an empty directory, so that /proc is hidden. Returns whether the
/// system permits this.
fn leave_proc(empty: &Path) -> bool {
    let path = CString::new(empty.to_str().unwrap()).unwrap();
    // SAFETY: the call changes only this process.
    let may = unsafe { libc::chroot(path.as_ptr()) == 0 && libc::chdir(c"/".as_ptr()) == 0 };
    assert!(!may || std::fs::File::open("/proc/self/mem").is_err());
    may
}

/// Returns a path at which no file exists.
fn tempfile() -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let nth = COUNT.fetch_add(1, Relaxed);
    std::env::temp_dir().join(format!("zmem-{}-{nth}", std::process::id()))
}

#[test]
fn a_child_that_may_not_be_looked_at_reads_its_memory() {
    for backend in BACKENDS {
        in_child(|| {
            let mut region = evicted(backend);
            in_child(|| {
                give_up_user();
                use_all(&mut region);
            });
            // Each child uses the region after all descriptors were closed, by the child itself or
            // before the fork.
            give_up_user();
            in_child(|| {
                close_all_descriptors();
                use_all(&mut region);
            });
            close_all_descriptors();
            in_child(|| use_all(&mut region));
            Child::clone_unnoticed(|| use_all(&mut region)).wait();
            use_all(&mut region);
        });
    }
}

#[test]
fn a_process_that_sees_no_proc_reads_its_memory() {
    for backend in BACKENDS {
        in_child(|| {
            let mut region = evicted(backend);
            let empty = tempfile();
            std::fs::create_dir(&empty).unwrap();
            in_child(|| {
                if leave_proc(&empty) {
                    use_all(&mut region);
                    close_all_descriptors();
                    write(&mut region, 1);
                    reclaim_all(&region);
                    use_all(&mut region);
                }
            });
            std::fs::remove_dir(&empty).unwrap();
            use_all(&mut region);
        });
    }
}

/// Closes the descriptors by which this process reads protected memory, and prevents the process
/// from opening such descriptors again.
fn refuse_memory() {
    let is_memory = |name: &String| {
        std::fs::read_link(format!("/proc/self/fd/{name}")).is_ok_and(|link| link.ends_with("mem"))
    };
    let files = std::fs::read_dir("/proc/self/fd").unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let kept: Vec<_> = names.filter(is_memory).map(|name| name.parse().unwrap()).collect();
    give_up_user();
    // SAFETY: the pager checks a descriptor before each use, and finds that these are closed.
    kept.into_iter().for_each(|file| unsafe { assert_eq!(libc::close(file), 0) });
}

/// If the process can't read protected memory, blocks are readable during their eviction. Other
/// threads still read the blocks' data.
#[test]
fn touches_find_data_where_memory_is_read_by_its_protection() {
    let backends = [BACKENDS[0], BACKENDS[1], BackendKind::UserfaultfdProtected];
    for backend in backends {
        in_child(|| {
            let options = Options { backend, ..Options::default() };
            let Ok(mut region) = Region::new(4 * MIB, options) else {
                return eprintln!("left out, as it is not permitted here: {backend:?}");
            };
            write(&mut region, 1);
            reclaim_all(&region);
            refuse_memory();
            touch_while_reclaimed(&region, scaled(150, 10_000));
            verify(&region, 1);
            region.check();
        });
    }
}

/// Two threads read all pages while all blocks are evicted. Each thread also increments counters in
/// pages that only this thread writes.
fn touch_while_reclaimed(region: &Region, rounds: usize) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stop = Stop(&stop);
        for own in 0..2 {
            let stop = &stop;
            scope.spawn(move || {
                let mut rng = Rng::with_seed(seed(own as u64));
                let mut counts = vec![0; region.len() / PAGE];
                while !stop.load(Relaxed) {
                    let nth = rng.usize(..counts.len());
                    let page = &region[nth * PAGE..(nth + 1) * PAGE];
                    assert_eq!(page[..4], (nth as u32).to_le_bytes());
                    assert!(page[100..200].iter().all(|&byte| byte == 1));
                    if nth % 2 == own {
                        // SAFETY: only this thread reads and writes these bytes.
                        let count = unsafe { page.as_ptr().add(8).cast_mut().cast::<u32>() };
                        // SAFETY: only this thread reads and writes these bytes.
                        assert_eq!(unsafe { count.read_volatile() }, counts[nth]);
                        counts[nth] += 1;
                        // SAFETY: only this thread reads and writes these bytes.
                        unsafe { count.write_volatile(counts[nth]) };
                    }
                }
            });
        }
        for _ in 0..rounds {
            region.reclaim(MIB);
        }
    });
}

/// The child first closes an inherited descriptor, so that one descriptor number is free.
#[test]
fn a_child_without_free_descriptors_reads_its_memory() {
    for backend in BACKENDS {
        in_child(|| {
            let few = libc::rlimit { rlim_cur: 64, rlim_max: 64 };
            // SAFETY: the call changes only this process.
            assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &few) }, 0);
            let mut region = evicted(backend);
            let _files: Vec<_> =
                std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect();
            in_child(|| use_all(&mut region));
            Child::clone_unnoticed(|| use_all(&mut region)).wait();
            use_all(&mut region);
        });
    }
}

/// After the first thread has ended, /proc/self/mem gives no access to memory, but other threads of
/// the process still use the region.
#[test]
fn a_process_whose_first_thread_has_ended_reads_its_memory() {
    in_child(|| {
        let mut region = evicted(BackendKind::Best);
        thread::spawn(move || {
            testkit::wait::until("the first thread has ended", || {
                std::fs::read_to_string("/proc/self/stat").unwrap().contains(") Z ")
            });
            close_all_descriptors();
            let used = std::panic::AssertUnwindSafe(|| use_all(&mut region));
            let is_right = std::panic::catch_unwind(used).is_ok();
            // SAFETY: the call ends this process.
            unsafe { libc::_exit(i32::from(!is_right)) }
        });
        // SAFETY: the other thread has no reference to this thread's stack.
        unsafe { libc::syscall(libc::SYS_exit, 1) };
    });
}

/// A program can close the pager's descriptors at any moment, and open other files with the same
/// numbers.
#[test]
fn descriptors_that_others_close_at_any_moment_do_no_harm() {
    for backend in BACKENDS {
        in_child(|| {
            let region = evicted(backend);
            let path = tempfile();
            std::fs::write(&path, [b'X'; PAGE]).unwrap();
            let name = CString::new(path.to_str().unwrap()).unwrap();
            let stop = AtomicBool::new(false);
            thread::scope(|scope| {
                let _stop = Stop(&stop);
                let (region, stop, name) = (&region, &stop, &name);
                scope.spawn(move || {
                    while !stop.load(Relaxed) {
                        close_all_descriptors();
                        for _ in 0..3 {
                            // SAFETY: the name lives until the call returns. The next round closes
                            // the file.
                            unsafe { libc::open(name.as_ptr(), libc::O_RDWR) };
                        }
                    }
                });
                for nth in 0..2 {
                    scope.spawn(move || {
                        let mut rng = Rng::with_seed(seed(nth));
                        while !stop.load(Relaxed) {
                            let nth = rng.usize(..region.len() / PAGE);
                            let page = &region[nth * PAGE..(nth + 1) * PAGE];
                            assert_eq!(page[..4], (nth as u32).to_le_bytes());
                            assert!(page[100..200].iter().all(|&byte| byte == 1));
                        }
                    });
                }
                for _ in 0..scaled(300, 10_000) {
                    region.reclaim(MIB);
                }
            });
            verify(&region, 1);
            assert!(std::fs::read(&path).unwrap() == [b'X'; PAGE], "the file was written to");
            std::fs::remove_file(&path).unwrap();
            region.check();
        });
    }
}

/// Reads all pages in a process that shares this process's memory.
extern "C" fn look_as_child(region: *mut c_void) -> i32 {
    close_all_descriptors();
    // SAFETY: the caller waits until the child has ended, so the pointer is valid.
    verify(unsafe { &*region.cast::<Region>() }, 1);
    0
}

/// A child that shares memory but no descriptors leaves no descriptor open. Threads that open a
/// file at the same time leave no descriptor open, either.
#[test]
fn no_descriptors_are_left_behind() {
    in_child(|| {
        let region = evicted(BackendKind::Best);
        for _ in 0..10 {
            let mut stack = vec![0u128; 16 << 10];
            let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
            let top = stack.as_mut_ptr_range().end.cast();
            // SAFETY: the child has its own stack, and ends before this function returns.
            let child = unsafe {
                libc::clone(look_as_child, top, flags, (&raw const region).cast_mut().cast())
            };
            let mut status = 0;
            // SAFETY: the kernel writes only to the local status.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            assert_eq!(status, 0, "the child failed");
            reclaim_all(&region);
            verify(&region, 1);
            assert!(links().len() <= 2, "{:?}", links());
        }
        for _ in 0..scaled(30, 1000) {
            reclaim_all(&region);
            close_all_descriptors();
            let at_once = Barrier::new(4);
            thread::scope(|scope| {
                for own in 0..4 {
                    let (at_once, region) = (&at_once, &region);
                    scope.spawn(move || {
                        at_once.wait();
                        assert_eq!(region[own * MIB + 100], 1);
                    });
                }
            });
            assert!(links().len() <= 2, "{:?}", links());
        }
        verify(&region, 1);
    });
}
