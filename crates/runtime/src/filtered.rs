//! Filters of system calls that refuse calls of the runtime (pl-28).
//!
//! Before the program installs a filter, the runtime evaluates it for the calls by which memory is
//! evicted and brought back. If it allows them, the process is managed as before. If not, a process
//! of one thread leaves the runtime: all memory is there, and the program installs the filter by
//! itself. The same holds for the strict mode, which allows four calls.

use crate::filter::Filter;
use crate::program::Program;
use crate::say::say;
use dispatch::{Call, Step, system};
use libc::{
    MADV_DONTNEED, MAP_ANONYMOUS, MAP_FIXED, MAP_NORESERVE, MAP_PRIVATE, MREMAP_FIXED,
    MREMAP_MAYMOVE, PROT_NONE, PROT_READ, PROT_WRITE, SIG_SETMASK,
};
use std::ffi::c_int;

const PAGE: usize = 4096;
/// Bytes of a mask of signals.
const MASK_BYTES: usize = 8;
/// The first argument of `prctl(PR_SET_SECCOMP)`, and of `seccomp`, for a filter.
const PRCTL_FILTER: usize = libc::SECCOMP_MODE_FILTER as usize;
const SECCOMP_FILTER: usize = libc::SECCOMP_SET_MODE_FILTER as usize;
const PRCTL_STRICT: usize = libc::SECCOMP_MODE_STRICT as usize;
const SECCOMP_STRICT: usize = libc::SECCOMP_SET_MODE_STRICT as usize;

/// A restriction of system calls.
enum Restriction {
    Strict,
    /// The filter that is described at this address.
    Filter(usize),
}

impl Restriction {
    /// Returns the restriction that a call asks for.
    fn of(call: &Call) -> Option<Self> {
        let [first, second, third, ..] = call.args();
        match (call.number() as i64, first) {
            (libc::SYS_seccomp, SECCOMP_STRICT) => Some(Restriction::Strict),
            (libc::SYS_seccomp, SECCOMP_FILTER) => Some(Restriction::Filter(third)),
            (libc::SYS_prctl, option) if option as c_int == libc::PR_SET_SECCOMP => match second {
                PRCTL_STRICT => Some(Restriction::Strict),
                PRCTL_FILTER => Some(Restriction::Filter(third)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns whether the kernel accepts the restriction, and it refuses calls of the runtime.
    fn refuses(&self, block: usize) -> bool {
        match self {
            Restriction::Strict => true,
            Restriction::Filter(address) => {
                let asked = [libc::PR_GET_NO_NEW_PRIVS as usize, 0, 0, 0, 0, 0];
                let is_permitted = system(libc::SYS_prctl, asked) == Ok(1)
                    || system(libc::SYS_geteuid, [0; 6]) == Ok(0);
                let filter = Filter::read(*address).filter(|_| is_permitted);
                let allows = |(number, args)| filter.as_ref()?.allows(number, args);
                let all: Option<Vec<bool>> = calls(block).into_iter().map(allows).collect();
                all.is_some_and(|all| all.contains(&false))
            }
        }
    }
}

/// Returns calls by which the memory of a process of one thread is evicted and brought back, and
/// signals are answered: `block` is an address of memory.
fn calls(block: usize) -> [(i64, [usize; 6]); 9] {
    let mapped = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;
    let map = |prot: c_int| [block, PAGE, prot as usize, mapped as usize, usize::MAX, 0];
    let moved = (MREMAP_MAYMOVE | MREMAP_FIXED) as usize;
    let both = PROT_READ | PROT_WRITE;
    [
        (libc::SYS_mmap, map(both)),
        (libc::SYS_mmap, map(PROT_NONE)),
        (libc::SYS_munmap, [block, PAGE, 0, 0, 0, 0]),
        (libc::SYS_mprotect, [block, PAGE, both as usize, 0, 0, 0]),
        (libc::SYS_mremap, [block, PAGE, PAGE, moved, block + PAGE, 0]),
        (libc::SYS_madvise, [block, PAGE, MADV_DONTNEED as usize, 0, 0, 0]),
        (libc::SYS_futex, [block, libc::FUTEX_WAKE as usize, 1, 0, 0, 0]),
        (libc::SYS_rt_sigprocmask, [SIG_SETMASK as usize, block, 0, MASK_BYTES, 0, 0]),
        (libc::SYS_rt_sigreturn, [0; 6]),
    ]
}

impl Program {
    /// Returns the step of a call that restricts the calls of this process, if the process has to
    /// leave the runtime before.
    pub(crate) fn leave_for_filter(&self, call: &Call) -> Option<Step> {
        let restriction = Restriction::of(call).filter(|_| self.is_alone())?;
        if !restriction.refuses(self.arena.addresses().start) {
            return None;
        }
        self.space.lock().leave_executable(&self.arena);
        dispatch::release_all_code();
        if let Err(failed) = self.make_all_plain() {
            self.manage_again();
            return Some(Step::Answer(failed));
        }
        let is_heard = self.is_heard();
        self.arena.hush(&self.figures());
        self.arena.rest();
        if is_heard {
            let process = system(libc::SYS_getpid, [0; 6]).unwrap_or(0);
            say(&format_args!(
                "process {process} refuses itself the system calls by which memory is compressed \
                 (seccomp): it runs without a limit from now on"
            ));
        }
        Some(Step::LeaveBefore)
    }
}
