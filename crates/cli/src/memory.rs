//! The memory that this process is allowed to use, and the limit of pool pages.

mod cgroup;

use crate::error::Error;
use crate::policy::{LIMIT_MIN, LIMIT_PERCENT, PROGRAM_BYTES};
use crate::text::human;
use measure::memory::Fields;
use zram::memparse;

/// Returns the machine's memory in bytes, or the limit of this process's cgroup if the limit is
/// lower.
pub(crate) fn room() -> Option<u64> {
    let total = Fields::read("/proc/meminfo").bytes("MemTotal");
    [total, cgroup::memory_limit()].into_iter().flatten().min()
}

/// Returns the limit of this process's cgroup in bytes, if it is below the machine's memory.
pub(crate) fn cgroup_limit() -> Option<u64> {
    let total = Fields::read("/proc/meminfo").bytes("MemTotal");
    cgroup::memory_limit().filter(|limit| total.is_none_or(|total| *limit < total))
}

/// Returns the default limit of pool pages. This process is allowed to use `room` bytes, and needs
/// `beside` of them for other memory.
///
/// # Errors
/// Fails if less than [`LIMIT_MIN`] is left.
fn default_limit(room: u64, beside: u64) -> Result<u64, Error> {
    let beside = beside.saturating_add(PROGRAM_BYTES);
    let limit = room.saturating_sub(beside).min((room / 100).saturating_mul(LIMIT_PERCENT));
    if limit >= LIMIT_MIN {
        return Ok(limit);
    }
    let least = beside.saturating_add(LIMIT_MIN).max(LIMIT_MIN * 100 / LIMIT_PERCENT + 100);
    Err(Error::Failed(format!(
        "this process may use {} of memory (the machine's, or the memory cgroup's limit), which is \
         too little: it needs at least {} ({} beside compressed pages, and {} for these); raise \
         the cgroup's limit, or give --mem-limit SIZE",
        human(room),
        human(least),
        human(beside),
        human(LIMIT_MIN)
    )))
}

/// The requested limit of pool pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum MemLimit {
    /// The default, which depends on the memory that this process is allowed to use.
    #[default]
    Default,
    Bytes(u64),
    None,
}

impl MemLimit {
    /// Parses a number of bytes; 0 means no limit.
    ///
    /// # Errors
    /// Fails if the text is not a size, or if the limit is below [`LIMIT_MIN`].
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match memparse::parse(text)? {
            0 => Ok(MemLimit::None),
            bytes @ 1..LIMIT_MIN => Err(format!(
                "a limit of {bytes} bytes holds nothing of use; give 0 for no limit, or at least \
                 {LIMIT_MIN} ({})",
                human(LIMIT_MIN)
            )),
            bytes => Ok(MemLimit::Bytes(bytes)),
        }
    }

    /// Returns the limit in bytes, or `None` for no limit. For the default, `beside` gets the
    /// number of bytes that this process is allowed to use, and returns the number that memory
    /// other than pool pages needs.
    ///
    /// # Errors
    /// Fails if the default leaves less than [`LIMIT_MIN`] for pages.
    pub(crate) fn bytes(self, beside: impl FnOnce(u64) -> u64) -> Result<Option<u64>, Error> {
        match self {
            MemLimit::Default => room().map(|room| default_limit(room, beside(room))).transpose(),
            MemLimit::Bytes(bytes) => Ok(Some(bytes)),
            MemLimit::None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_some() {
        assert!(room().unwrap() > 1 << 20);
    }

    #[test]
    fn the_limit_leaves_room_for_the_rest() {
        let limit = |room, beside| default_limit(room, beside).ok();
        assert_eq!(limit(1000 << 20, 0), Some((1000 << 20) / 100 * 85));
        assert_eq!(limit(1000 << 20, 200 << 20), Some(794 << 20));
        let least = PROGRAM_BYTES + (2 << 20) + LIMIT_MIN;
        assert_eq!(limit(least, 2 << 20), Some(LIMIT_MIN));
        assert_eq!(limit(least - 1, 2 << 20), None);
        assert_eq!(limit(u64::MAX, u64::MAX), None);
        let refused = default_limit(4 << 20, 2 << 20).unwrap_err().to_string();
        assert!(refused.contains("at least 8.1 MiB"), "{refused}");
    }

    #[test]
    fn a_limit_that_holds_nothing_is_refused() {
        for (text, limit) in
            [("0", Some(MemLimit::None)), ("64K", Some(MemLimit::Bytes(LIMIT_MIN))), ("1", None)]
        {
            assert_eq!(MemLimit::parse(text).ok(), limit, "{text}");
        }
        let refused = MemLimit::parse("65535").unwrap_err();
        assert!(refused.contains("at least 65536 (64.0 KiB)"), "{refused}");
    }
}
