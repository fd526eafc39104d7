//! Raises the resource limits of a process for its host. The host's loader and first allocations
//! can exceed the program's limits.

use crate::system::{Errno, system};

/// The resources whose limits are raised: address space, data.
const RESOURCES: [u32; 2] = [libc::RLIMIT_AS, libc::RLIMIT_DATA];

/// The soft limits of address space and data, in bytes.
pub type SoftLimits = [u64; 2];

/// Raises the soft limits of a process to its hard limits. Returns the previous soft limits, or
/// `None` if a filter of system calls refuses to change them.
pub(crate) fn lift(process: i32) -> Option<SoftLimits> {
    let [space, data] = RESOURCES.map(|resource| change(process, resource, |hard| hard));
    Some([space.ok()?, data.ok()?])
}

/// Restores the soft limits of a process if `soft` holds their previous values.
pub(crate) fn restore(process: i32, soft: Option<SoftLimits>) {
    for (resource, soft) in RESOURCES.into_iter().zip(soft.into_iter().flatten()) {
        let _restored = change(process, resource, |_| soft);
    }
}

/// Sets the soft limit of a resource to `of_hard(hard limit)`. Returns the previous soft limit.
fn change(process: i32, resource: u32, of_hard: impl Fn(u64) -> u64) -> Result<u64, Errno> {
    let (process, resource, mut limit) = (process as usize, resource as usize, [0; 2]);
    let at = limit.as_mut_ptr().addr();
    system(libc::SYS_prlimit64, [process, resource, 0, at, 0, 0])?;
    let [before, hard] = limit;
    limit[0] = of_hard(hard);
    if limit[0] != before {
        // If the kernel refuses the new limit, the previous limit stays in effect.
        let _changed =
            system(libc::SYS_prlimit64, [process, resource, limit.as_ptr().addr(), 0, 0, 0]);
    }
    Ok(before)
}
