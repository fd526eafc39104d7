//! The program's limits for address space and data (`RLIMIT_AS`, `RLIMIT_DATA`). The runtime
//! enforces these limits instead of the kernel (pl-19), because the kernel would count the arena
//! and refuse the runtime's own mappings. The runtime does not count mappings outside of the arena
//! (files, stacks, shared memory).
//!
//! ```text
//!   begin:      the soft limit of the kernel, or of the helper that injected the host -> here;
//!               the kernel's soft limit is raised to its hard limit
//!   setrlimit:  -> here                      mmap, brk, mremap: ENOMEM above it
//!   execve:     -> the kernel, so that the next host finds it; raised again if the call fails
//! ```

use crate::kernel::{CAP_SYS_RESOURCE, EFAULT, EINVAL, EPERM};
use crate::user::words;
use dispatch::{system, write_memory};
use inject::has_capability;

const INFINITE: u64 = u64::MAX;

/// A soft limit and a hard limit, in bytes.
type Limit = [u64; 2];

#[derive(Debug)]
pub(crate) struct Limits {
    space: Limit,
    data: Limit,
}

/// If `new` is given, sets a limit of this process in the kernel to `new`. If `old` is given,
/// writes the previous limit to `old`. Returns whether the kernel accepted the call.
fn kernel(resource: u32, new: Option<&Limit>, old: Option<&mut Limit>) -> bool {
    let new = new.map_or(0, |new| new.as_ptr().addr());
    let old = old.map_or(0, |old| old.as_mut_ptr().addr());
    system(libc::SYS_prlimit64, [0, resource as usize, new, old, 0, 0]).is_ok()
}

impl Limits {
    /// Reads the limits from the kernel, and raises the kernel's soft limits. If the kernel's soft
    /// limits were already raised, `soft` are the program's soft limits.
    pub(crate) fn take_over(soft: Option<[u64; 2]>) -> Self {
        let [mut space, mut data] = [libc::RLIMIT_AS, libc::RLIMIT_DATA].map(|resource| {
            let mut found = [INFINITE; 2];
            kernel(resource, None, Some(&mut found));
            found
        });
        let found = [space[0], data[0]];
        [space[0], data[0]] = soft.unwrap_or(found);
        let limits = Limits { space, data };
        limits.lift();
        limits
    }

    /// Raises the kernel's soft limits to its hard limits. Does not change a limit that a child of
    /// `vfork` has set in the kernel.
    pub(crate) fn lift(&self) {
        self.set(|soft, [now, hard]| if now == soft { hard } else { now });
    }

    /// Sets the kernel's soft limits to the program's soft limits, before a program is executed.
    /// Does not change a limit that a child of `vfork` has set in the kernel.
    pub(crate) fn apply(&self) {
        self.set(|soft, [now, hard]| if now == hard { soft.min(hard) } else { now });
    }

    /// Sets the kernel's limits to the program's, for a process that continues without the runtime.
    /// `others` are the numbers of bytes of address space and of data that only the kernel counts.
    /// These numbers are added to the limits.
    pub(crate) fn leave(&self, others: [u64; 2]) {
        let limits = [(libc::RLIMIT_AS, self.space), (libc::RLIMIT_DATA, self.data)];
        for ((resource, limit), others) in limits.into_iter().zip(others) {
            let mut now = [INFINITE; 2];
            if kernel(resource, None, Some(&mut now)) {
                let new = limit.map(|it| it.saturating_add(others).min(now[1]));
                kernel(resource, Some(&new), None);
            }
        }
    }

    /// Sets each soft limit in the kernel to `of(program's soft limit, kernel's limit)`. If the
    /// program's soft limit is infinite, the kernel's limit stays unchanged.
    fn set(&self, of: fn(u64, Limit) -> u64) {
        let limits = [(libc::RLIMIT_AS, self.space[0]), (libc::RLIMIT_DATA, self.data[0])];
        for (resource, soft) in limits.into_iter().filter(|(_, soft)| *soft != INFINITE) {
            let mut now = [INFINITE; 2];
            if kernel(resource, None, Some(&mut now)) {
                kernel(resource, Some(&[of(soft, now), now[1]]), None);
            }
        }
    }

    pub(crate) fn is_infinite(&self) -> bool {
        (self.space[0], self.data[0]) == (INFINITE, INFINITE)
    }

    /// Returns whether `mapped` bytes of address space or `data` bytes of data exceed the program's
    /// soft limits.
    pub(crate) fn refuses(&self, mapped: u64, data: u64) -> bool {
        mapped > self.space[0] || data > self.data[0]
    }

    /// Returns whether a call reads or sets resource limits.
    pub(crate) fn are_about(number: usize) -> bool {
        matches!(number as i64, libc::SYS_getrlimit | libc::SYS_setrlimit | libc::SYS_prlimit64)
    }

    fn of(&mut self, resource: usize) -> Option<&mut Limit> {
        match resource as u32 {
            libc::RLIMIT_AS => Some(&mut self.space),
            libc::RLIMIT_DATA => Some(&mut self.data),
            _ => None,
        }
    }

    /// Handles `getrlimit`, `setrlimit` and `prlimit64` for this process. Returns `None` if the
    /// kernel must handle the call.
    pub(crate) fn answer(&mut self, number: usize, args: &[usize; 6]) -> Option<isize> {
        let (resource, new, old) = match number as i64 {
            // If the address of the limit is null, the kernel handles the call.
            libc::SYS_getrlimit if args[1] != 0 => (args[0], 0, args[1]),
            libc::SYS_setrlimit if args[1] != 0 => (args[0], args[1], 0),
            libc::SYS_prlimit64
                if args[0] == 0 || system(libc::SYS_getpid, [0; 6]) == Ok(args[0]) =>
            {
                (args[1], args[2], args[3])
            }
            _ => return None,
        };
        let limit = self.of(resource)?;
        let before = *limit;
        if new != 0 {
            let Some(wanted) = words(new) else { return Some(EFAULT) };
            let wanted = wanted.map(|word| word as u64);
            if wanted[0] > wanted[1] {
                return Some(EINVAL);
            }
            if wanted[1] > before[1] && !has_capability(CAP_SYS_RESOURCE) {
                return Some(EPERM);
            }
            *limit = wanted;
        }
        let bytes: Vec<u8> = before.iter().flat_map(|word| word.to_ne_bytes()).collect();
        Some(if old != 0 && !write_memory(old, &bytes) { EFAULT } else { 0 })
    }
}
