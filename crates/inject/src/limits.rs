//! Limits of a process, which are lifted for a host: its loader and first allocations would pass
//! those of the program.

use crate::system::{Errno, system};

/// Resources: address space, data.
const RESOURCES: [u32; 2] = [libc::RLIMIT_AS, libc::RLIMIT_DATA];

/// Soft limits of the resources, in bytes.
pub type SoftLimits = [u64; 2];

/// Makes the soft limits of a process its hard ones. Returns the soft limits before, or `None` if a
/// filter of system calls refuses that.
pub(crate) fn lift(process: i32) -> Option<SoftLimits> {
    let [space, data] = RESOURCES.map(|resource| change(process, resource, |hard| hard));
    Some([space.ok()?, data.ok()?])
}

/// Restores the soft limits of a process, if they were lifted.
pub(crate) fn restore(process: i32, soft: Option<SoftLimits>) {
    for (resource, soft) in RESOURCES.into_iter().zip(soft.into_iter().flatten()) {
        let _restored = change(process, resource, |_| soft);
    }
}

/// Changes a soft limit to the one for this hard limit. Returns the soft limit before.
fn change(process: i32, resource: u32, of_hard: impl Fn(u64) -> u64) -> Result<u64, Errno> {
    let (process, resource, mut limit) = (process as usize, resource as usize, [0; 2]);
    let at = limit.as_mut_ptr().addr();
    system(libc::SYS_prlimit64, [process, resource, 0, at, 0, 0])?;
    let [before, hard] = limit;
    limit[0] = of_hard(hard);
    if limit[0] != before {
        // A kernel that refuses it leaves the limit as it was.
        let _changed =
            system(libc::SYS_prlimit64, [process, resource, limit.as_ptr().addr(), 0, 0, 0]);
    }
    Ok(before)
}
