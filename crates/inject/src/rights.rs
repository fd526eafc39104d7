//! The privileges of a process that executes a program.

use crate::system::system;

/// The version of `capget` whose structures hold each capability set in two words.
const VERSION: u32 = 0x2008_0522;
/// The capability to trace any process (CAP_SYS_PTRACE).
const TRACES: u64 = 1 << 19;

/// Returns whether the real user and group IDs of the process equal its effective IDs. If these IDs
/// differ, the kernel starts the next program in secure mode (AT_SECURE).
pub(crate) fn has_own_ids() -> bool {
    let id = |number| system(number, [0; 6]);
    id(libc::SYS_getuid) == id(libc::SYS_geteuid) && id(libc::SYS_getgid) == id(libc::SYS_getegid)
}

/// Returns the capability sets of this thread: effective, permitted, inheritable.
fn capabilities() -> Option<[u64; 3]> {
    let (head, mut sets) = ([VERSION, 0], [0_u32; 6]);
    let args = [head.as_ptr().addr(), sets.as_mut_ptr().addr(), 0, 0, 0, 0];
    system(libc::SYS_capget, args).ok()?;
    // The lower words of all sets precede the upper words.
    Some([0, 1, 2].map(|nth| u64::from(sets[nth]) | u64::from(sets[nth + 3]) << 32))
}

/// Returns whether this thread has a capability.
pub fn has_capability(bit: u32) -> bool {
    capabilities().is_some_and(|[effective, ..]| effective >> bit & 1 != 0)
}

/// Returns whether tracing would reduce the capabilities of the next program. If a process of root
/// has dropped capabilities, `execve` restores them. In a traced process, `execve` restores them
/// only if the tracer has CAP_SYS_PTRACE.
pub(crate) fn are_regained() -> bool {
    let is_root = |number| system(number, [0; 6]) == Ok(0);
    if !is_root(libc::SYS_geteuid) && !is_root(libc::SYS_getuid) {
        return false;
    }
    let Some([effective, permitted, inheritable]) = capabilities() else { return true };
    let bounding = (0..64).filter(|bit| {
        let args = [libc::PR_CAPBSET_READ as usize, *bit, 0, 0, 0, 0];
        system(libc::SYS_prctl, args) == Ok(1)
    });
    effective & TRACES == 0
        && bounding.fold(inheritable, |all, bit| all | 1 << bit) & !permitted != 0
}
