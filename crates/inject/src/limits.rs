//! Limits of a process, which are lifted for a host: its loader and first allocations would pass
//! those of the program.

use crate::system::{Errno, system};

/// Resources: address space, data.
pub(crate) const RESOURCES: [u32; 2] = [libc::RLIMIT_AS, libc::RLIMIT_DATA];

/// Soft limits of the resources, in bytes.
pub type SoftLimits = [u64; 2];

/// Makes the soft limits of a process its hard ones. Returns the soft limits before.
///
/// # Errors
/// The system's.
pub(crate) fn lift(process: i32) -> Result<SoftLimits, Errno> {
    let mut all = [[0; 2]; RESOURCES.len()];
    for (resource, limit) in RESOURCES.iter().zip(&mut all) {
        let args = [process as usize, *resource as usize, 0, limit.as_mut_ptr().addr(), 0, 0];
        system(libc::SYS_prlimit64, args)?;
    }
    set(process, all.map(|[_, hard]| hard));
    Ok(all.map(|[soft, _]| soft))
}

/// Sets the soft limits of a process, or of this one if `process` is 0.
pub(crate) fn set(process: i32, soft: SoftLimits) {
    for (resource, soft) in RESOURCES.into_iter().zip(soft) {
        let (resource, mut limit) = (resource as usize, [0; 2]);
        let at = limit.as_mut_ptr().addr();
        let found = system(libc::SYS_prlimit64, [process as usize, resource, 0, at, 0, 0]);
        if found.is_ok() && limit[0] != soft {
            limit[0] = soft;
            let at = limit.as_ptr().addr();
            let _set = system(libc::SYS_prlimit64, [process as usize, resource, at, 0, 0, 0]);
        }
    }
}
