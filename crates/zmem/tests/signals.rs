//! Handlers, stacks and masks of the program, and faults outside of regions. Each test creates its
//! regions in a child, because a process installs the pager's handlers only once.
#![allow(unsafe_code, clippy::unwrap_used)]

#[path = "backends/kinds.rs"]
mod kinds;

use kinds::{MIB, PAGE, end_of, for_each_backend};
use std::ffi::c_void;
use std::mem::zeroed;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};
use testkit::child::in_child;
use zmem::{BackendKind, Options, Region};

static ADDRESS: AtomicUsize = AtomicUsize::new(0);
static STACK: AtomicUsize = AtomicUsize::new(0);
static IS_BLOCKED: AtomicUsize = AtomicUsize::new(0);
static CALLS: AtomicUsize = AtomicUsize::new(0);
static TOUCHED: AtomicUsize = AtomicUsize::new(0);

/// A handler that records its stack and the fault's address, accesses absent memory, and makes the
/// faulting page readable.
extern "C" fn note(_: i32, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel has written the structure for a fault. Only this test uses the page.
    unsafe {
        let address = (*info).si_addr().addr();
        let here = 0u8;
        STACK.store((&raw const here).addr(), Relaxed);
        ADDRESS.store(address, Relaxed);
        let mut mask = zeroed();
        libc::pthread_sigmask(libc::SIG_BLOCK, null_mut(), &mut mask);
        let is_blocked = |signal| libc::sigismember(&mask, signal) as usize;
        IS_BLOCKED.store(is_blocked(libc::SIGUSR1) | is_blocked(libc::SIGUSR2) << 1, Relaxed);
        CALLS.fetch_add(1, Relaxed);
        let touched = TOUCHED.load(Relaxed) as *const u8;
        if !touched.is_null() {
            assert_eq!(touched.read_volatile(), 5);
        }
        libc::mprotect((address & !(PAGE - 1)) as *mut c_void, PAGE, libc::PROT_READ);
    }
}

fn action(flags: i32) -> libc::sigaction {
    // SAFETY: zeros are a valid action, and the set is local.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        action.sa_sigaction = note as *const () as usize;
        action.sa_flags = flags | libc::SA_SIGINFO;
        libc::sigaddset(&mut action.sa_mask, libc::SIGUSR1);
        action
    }
}

fn install(signal: i32, action: &libc::sigaction) {
    // SAFETY: `note` can safely be called on any thread, at any instruction.
    unsafe { assert_eq!(libc::sigaction(signal, action, null_mut()), 0) };
}

/// Returns the address of a PROT_NONE page.
fn closed_page() -> *mut u8 {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: the kernel chooses the address.
    let page = unsafe { libc::mmap(null_mut(), PAGE, libc::PROT_NONE, flags, -1, 0) };
    assert_ne!(page, libc::MAP_FAILED);
    page.cast()
}

fn read(address: *const u8) -> u8 {
    // SAFETY: if the page is not readable, the handler makes it readable.
    unsafe { address.read_volatile() }
}

/// Returns a region whose blocks are all evicted.
fn evicted(backend: BackendKind, bytes: usize) -> Region {
    let options = Options { backend, ..Options::default() };
    let mut region = Region::new(bytes, options).unwrap();
    region.fill(5);
    region.reclaim(bytes);
    region
}

/// Sets an alternate stack of `bytes` bytes for this thread, and returns the stack's addresses.
fn set_alternate_stack(bytes: usize) -> std::ops::Range<usize> {
    let stack = vec![0u8; bytes].leak();
    let given = libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: bytes };
    // SAFETY: the stack is never freed, and no other code uses it.
    unsafe { assert_eq!(libc::sigaltstack(&given, null_mut()), 0) };
    let start = stack.as_ptr().addr();
    start..start + bytes
}

/// Returns the address of a mapped page that lies past the end of its file. An access to this page
/// raises SIGBUS.
fn page_without_file() -> *mut u8 {
    // SAFETY: only this test uses the file, and the kernel chooses the address of the mapping.
    let page = unsafe {
        let file = libc::memfd_create(c"none".as_ptr(), 0);
        libc::mmap(null_mut(), PAGE, libc::PROT_READ, libc::MAP_SHARED, file, 0)
    };
    assert_ne!(page, libc::MAP_FAILED);
    page.cast()
}

#[test]
fn a_handler_from_before_is_called_as_it_asked() {
    for_each_backend(|backend| {
        in_child(|| {
            for (nth, flags) in [0, libc::SA_ONSTACK].into_iter().enumerate() {
                if nth == 0 {
                    install(libc::SIGSEGV, &action(flags));
                }
                let alternate = set_alternate_stack(64 << 10);
                let region = evicted(backend, MIB);
                if nth > 0 {
                    // SAFETY: `note` can safely be called on any thread, at any instruction.
                    unsafe { zmem::set_next_handler(&action(flags)) };
                }
                TOUCHED.store(region.as_ptr().addr() + 7 * PAGE, Relaxed);
                let page = closed_page();
                assert_eq!(read(page.wrapping_add(77)), 0);
                assert_eq!(ADDRESS.load(Relaxed), page.addr() + 77);
                assert_eq!(CALLS.load(Relaxed), nth + 1);
                assert_eq!(alternate.contains(&STACK.load(Relaxed)), flags != 0, "stack");
                assert_eq!(IS_BLOCKED.load(Relaxed), 1, "the mask it asked for");
                assert!(region.iter().all(|&byte| byte == 5));
                assert_eq!(CALLS.load(Relaxed), nth + 1);
            }
        });
    });
}

/// A handler that maps the page of the fault, and accesses absent memory.
extern "C" fn map(_: i32, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel has written the structure for a fault. Only this test uses the page.
    unsafe {
        let start = (*info).si_addr().addr() & !(PAGE - 1);
        assert_eq!((TOUCHED.load(Relaxed) as *const u8).read_volatile(), 5);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        libc::mmap(start as *mut c_void, PAGE, libc::PROT_READ, flags, -1, 0);
        CALLS.fetch_add(1, Relaxed);
    }
}

#[test]
fn a_handler_of_bus_errors_is_called_for_what_is_no_regions() {
    for_each_backend(|backend| {
        in_child(|| {
            let mapping = libc::sigaction { sa_sigaction: map as *const () as usize, ..action(0) };
            install(libc::SIGBUS, &mapping);
            for nth in 1..3 {
                let region = evicted(backend, MIB);
                TOUCHED.store(region.as_ptr().addr() + 7 * PAGE, Relaxed);
                assert_eq!(read(page_without_file()), 0);
                assert_eq!(CALLS.load(Relaxed), nth);
                assert!(region.iter().all(|&byte| byte == 5));
                assert_eq!(CALLS.load(Relaxed), nth);
                // SAFETY: `map` can safely be called on any thread, at any instruction.
                unsafe { zmem::set_next_bus_handler(&mapping) };
            }
        });
    });
}

#[test]
fn a_program_may_protect_what_is_resident_itself() {
    for_each_backend(|backend| {
        in_child(|| {
            install(libc::SIGSEGV, &action(0));
            let options = Options { backend, ..Options::default() };
            let mut region = Region::new(MIB, options).unwrap();
            region[0] = 3;
            // SAFETY: no block is evicted until `note` has made the page readable again.
            unsafe { libc::mprotect(region.as_ptr().cast(), PAGE, libc::PROT_NONE) };
            assert_eq!(region[0], 3);
            let address = region.as_ptr().addr();
            assert_eq!((CALLS.load(Relaxed), ADDRESS.load(Relaxed)), (1, address));
        });
    });
}

/// Faults on pages that the program has protected are passed to the program's handler, even while
/// the pager closes other blocks.
#[test]
fn what_a_program_protected_is_its_own_while_other_blocks_go() {
    in_child(|| {
        // SAFETY: `note` can safely be called on any thread, at any instruction.
        unsafe { zmem::set_next_handler(&action(0)) };
        let mut region = Region::new(MIB, Options::default()).unwrap();
        region[0] = 3;
        let locked = region.lock(0..PAGE).unwrap();
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let _stop = testkit::load::Stop(&done);
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    read(region[MIB / 2..].as_ptr());
                    region.advise(MIB / 2..MIB / 2 + PAGE, zmem::Advice::Cold).unwrap();
                }
            });
            for calls in 1..100 {
                // SAFETY: the page is locked, so the pager does not access it.
                unsafe { libc::mprotect(region.as_ptr().cast(), PAGE, libc::PROT_NONE) };
                assert_eq!((read(region.as_ptr()), CALLS.load(Relaxed)), (3, calls));
            }
        });
        drop(locked);
    });
}

/// The C library changes the group ID of each thread by a signal to that thread. No thread is
/// allowed to block this signal for long.
#[test]
fn a_program_may_change_its_group_while_a_thread_evicts() {
    for_each_backend(|backend| {
        in_child(|| {
            let options = Options { limit: Some(8 * MIB as u64), backend, ..Options::default() };
            let mut region = Region::new(MIB, options).unwrap();
            region.fill(5);
            // SAFETY: the call sets the group that the process already has.
            unsafe { assert_eq!(libc::setgid(libc::getgid()), 0) };
            assert!(region.iter().all(|&byte| byte == 5));
        });
    });
}

#[test]
fn what_is_no_regions_still_kills() {
    for_each_backend(|backend| {
        let with_region = |work: &dyn Fn(&Region)| {
            end_of(|| {
                let region = evicted(backend, MIB);
                assert_eq!(region[5], 5);
                work(&region);
            })
        };
        let null =
            with_region(&|_| _ = read(std::hint::black_box(std::ptr::without_provenance(16))));
        assert_eq!(null, libc::SIGSEGV);
        // This address is outside of all mappings.
        let behind = with_region(&|region| _ = read(region.as_ptr().wrapping_add(64 * MIB)));
        assert_eq!(behind, libc::SIGSEGV);
        assert_eq!(with_region(&|_| _ = read(page_without_file())), libc::SIGBUS);
        for signal in [libc::SIGSEGV, libc::SIGBUS] {
            // SAFETY: the call ends this process.
            assert_eq!(with_region(&|_| _ = unsafe { libc::raise(signal) }), signal);
        }
    });
}

/// A debugger sees the address of the access that ends the process.
#[test]
fn the_address_of_a_real_fault_is_what_was_touched() {
    for_each_backend(the_address_is_what_was_touched);
}

fn the_address_is_what_was_touched(backend: BackendKind) {
    // SAFETY: only this thread traces the child, and ends it.
    unsafe {
        let child = libc::fork();
        assert!(child >= 0);
        if child == 0 {
            libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
            let region = evicted(backend, MIB);
            assert_eq!(region[5], 5);
            read(std::ptr::without_provenance(0x1234));
            libc::_exit(0);
        }
        let (mut status, mut last) = (0, 0);
        while libc::waitpid(child, &mut status, 0) == child && libc::WIFSTOPPED(status) {
            let signal = libc::WSTOPSIG(status);
            let mut info: libc::siginfo_t = zeroed();
            libc::ptrace(libc::PTRACE_GETSIGINFO, child, 0, &raw mut info);
            last = info.si_addr().addr();
            libc::ptrace(libc::PTRACE_CONT, child, 0, signal);
        }
        assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGSEGV);
        assert_eq!(last, 0x1234);
    }
}

#[test]
fn a_small_alternate_stack_is_enough() {
    for_each_backend(|backend| {
        in_child(|| {
            let region = evicted(backend, 4 * MIB);
            thread::scope(|scope| {
                scope.spawn(|| {
                    // SAFETY: the call only returns a number.
                    let least = unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) } as usize;
                    set_alternate_stack(least + 1024);
                    assert!(region.iter().all(|&byte| byte == 5));
                });
            });
        });
    });
}

static TICKS: AtomicU64 = AtomicU64::new(0);

/// A handler that accesses memory of the region, most of which is absent.
extern "C" fn tick(_: i32) {
    let count = TICKS.fetch_add(1, Relaxed) as usize;
    let at = TOUCHED.load(Relaxed) + count.wrapping_mul(0x9E37_79B9) % (4 * MIB);
    assert_eq!(read(std::ptr::with_exposed_provenance(at)), 5);
}

/// A handler is allowed to access absent memory, even if it interrupts the allocator or functions
/// of the region.
#[test]
fn a_handler_may_touch_what_is_absent() {
    for_each_backend(|backend| in_child(|| touch_in_handlers(backend)));
}

fn touch_in_handlers(backend: BackendKind) {
    let region = evicted(backend, 4 * MIB);
    TOUCHED.store(region.as_ptr().expose_provenance(), Relaxed);
    // SAFETY: `tick` accesses only the region, so it can safely be called at any instruction.
    unsafe {
        libc::signal(libc::SIGALRM, tick as *const () as usize);
        let every = libc::timeval { tv_sec: 0, tv_usec: 200 };
        let timer = libc::itimerval { it_interval: every, it_value: every };
        libc::setitimer(libc::ITIMER_REAL, &timer, null_mut());
    }
    let time = Duration::from_millis(if testkit::is_long() { 20_000 } else { 500 });
    let until = Instant::now() + time;
    let is_done = AtomicBool::new(false);
    let mut kept = Vec::new();
    thread::scope(|scope| {
        let reclaiming = scope.spawn(|| {
            while !is_done.load(Relaxed) {
                region.reclaim(4 * MIB);
            }
        });
        while Instant::now() < until || TICKS.load(Relaxed) < 500 {
            region.reclaim(MIB);
            let _locked = region.lock(0..MIB).unwrap();
            kept.push(vec![5u8; kept.len() * 97 % 5000]);
            if kept.len() > 500 {
                kept.clear();
            }
        }
        is_done.store(true, Relaxed);
        // Without this join, a thread could still exist after the end of the scope, and receive a
        // signal during the check.
        reclaiming.join().unwrap();
    });
    // SAFETY: the call only stops the timer.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &zeroed(), null_mut()) };
    region.check();
}
