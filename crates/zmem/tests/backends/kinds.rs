//! The backends with which tests run. Functions of this file find out which backends this system
//! permits, without creating a region.

use std::mem::zeroed;
use std::sync::{Mutex, MutexGuard, PoisonError};
use testkit::child::Child;
use zmem::BackendKind;

pub(crate) const MIB: usize = 1 << 20;
pub(crate) const PAGE: usize = 4096;

const BACKENDS: [BackendKind; 7] = [
    BackendKind::Signal,
    BackendKind::SignalMappings,
    BackendKind::SignalRemap,
    BackendKind::Userfaultfd,
    BackendKind::UserfaultfdSigbus,
    BackendKind::UserfaultfdSigbusProtected,
    BackendKind::UserfaultfdProtected,
];
/// The number of backends that short runs test. The first six backends together run all code of the
/// backends. Long runs also test the last backend.
const EACH_PART: usize = 6;

/// Returns a guard that only one test at a time holds. Regions of other tests would change the
/// number of mappings, which some tests check.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns whether a userfaultfd is permitted. If `for_system_calls` is true, the userfaultfd must
/// report faults of system calls.
fn is_permitted(for_system_calls: bool) -> bool {
    const USER_MODE_ONLY: i32 = 1;
    let flags = libc::O_CLOEXEC | if for_system_calls { 0 } else { USER_MODE_ONLY };
    // SAFETY: the calls access no memory of this process except the path. The opened descriptor is
    // closed here.
    unsafe {
        let mut file = libc::syscall(libc::SYS_userfaultfd, flags) as i32;
        if file < 0 {
            file = libc::open(c"/dev/userfaultfd".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        }
        file >= 0 && libc::close(file) == 0
    }
}

/// Returns the backends that this system permits.
pub(crate) fn backends() -> Vec<BackendKind> {
    let may_be = |backend: &BackendKind| {
        let is_there = match backend {
            BackendKind::Userfaultfd | BackendKind::UserfaultfdProtected => is_permitted(true),
            BackendKind::UserfaultfdSigbus | BackendKind::UserfaultfdSigbusProtected => {
                is_permitted(false)
            }
            _ => true,
        };
        if !is_there {
            eprintln!("left out, as it is not permitted here: {backend:?}");
        }
        is_there
    };
    let count = if testkit::is_long() { BACKENDS.len() } else { EACH_PART };
    BACKENDS.into_iter().take(count).filter(may_be).collect()
}

/// Calls `work` once for each backend.
pub(crate) fn for_each_backend(mut work: impl FnMut(BackendKind)) {
    let _turn = turn();
    for backend in backends() {
        println!("{backend:?}");
        work(backend);
    }
}

/// Returns the signal that kills a child during `work`.
pub(crate) fn end_of(work: impl FnOnce()) -> i32 {
    let child = Child::fork(|| {
        // SAFETY: the actions and the limit are local.
        unsafe {
            let default = libc::SIG_DFL;
            zmem::set_next_handler(&libc::sigaction { sa_sigaction: default, ..zeroed() });
            zmem::set_next_bus_handler(&libc::sigaction { sa_sigaction: default, ..zeroed() });
            let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            libc::setrlimit(libc::RLIMIT_CORE, &none);
        }
        work();
    });
    let status = child.status();
    assert!(libc::WIFSIGNALED(status), "status {status:#x}");
    libc::WTERMSIG(status)
}
