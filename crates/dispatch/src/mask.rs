//! Signal masks. The kernel never blocks the owned signals ([`OWNED`]), but the program sees the
//! mask that it has set.

pub(crate) const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// Signals that no thread blocks, because dispatched calls and faults cause them.
pub(crate) const OWNED: u64 = bit(libc::SIGSYS) | bit(libc::SIGSEGV) | bit(libc::SIGBUS);
/// Signals that the kernel never blocks.
const NEVER: u64 = bit(libc::SIGKILL) | bit(libc::SIGSTOP);
/// The signals that are blocked while this crate's code runs.
pub(crate) static BLOCK: u64 = !OWNED;
pub(crate) const BYTES: usize = size_of::<u64>();
/// The highest signal number. A mask has a bit for each signal.
pub(crate) const LAST: i32 = u64::BITS as i32;

pub(crate) fn is_owned(signal: i32) -> bool {
    OWNED & bit(signal) != 0
}

/// Returns the mask that the program sees after it has set `mask`.
pub(crate) fn allowed(mask: u64) -> u64 {
    mask & !NEVER
}

/// Returns the mask that is set in the kernel if the program sets `mask`.
pub(crate) fn of_system(mask: u64) -> u64 {
    mask & !OWNED & !NEVER
}

/// Returns `mask` after a change by `sigprocmask`, or `None` if `how` is invalid.
pub(crate) fn changed(mask: u64, how: usize, set: u64) -> Option<u64> {
    match how as i32 {
        libc::SIG_BLOCK => Some(mask | allowed(set)),
        libc::SIG_UNBLOCK => Some(mask & !set),
        libc::SIG_SETMASK => Some(allowed(set)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_sees_what_it_set_and_the_system_never_blocks_ours() {
        let set = bit(libc::SIGSEGV) | bit(libc::SIGTERM) | bit(libc::SIGKILL);
        let mask = changed(bit(libc::SIGUSR1), libc::SIG_BLOCK as usize, set).unwrap();
        assert_eq!(mask, bit(libc::SIGUSR1) | bit(libc::SIGSEGV) | bit(libc::SIGTERM));
        assert_eq!(of_system(mask), bit(libc::SIGUSR1) | bit(libc::SIGTERM));
        let mask = changed(mask, libc::SIG_UNBLOCK as usize, bit(libc::SIGSEGV)).unwrap();
        assert_eq!(mask, bit(libc::SIGUSR1) | bit(libc::SIGTERM));
        assert_eq!(changed(mask, libc::SIG_SETMASK as usize, u64::MAX).unwrap(), !NEVER);
        assert_eq!(changed(mask, 7, 0), None);
    }
}
