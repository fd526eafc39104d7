//! Warns when the disk is near its memory limit, and again when writes fail, because programs might
//! not notice a full disk in time.

use crate::admin::metrics::is_share;
use crate::log::log;
use crate::policy::{CALM_PERCENT, NEAR_PERCENT};
use crate::text::human;
use zram::Device;

/// The consequence for a file system that lies on the disk.
const CONSEQUENCE: &str = "a file system on the disk then fails (ext4 becomes read-only, XFS shuts \
    down)";

const REMEDY: &str = "delete files and trim ('fstrim'), or raise the limit ('uzram attr mem_limit \
    SIZE', or total_limit if that is set)";

#[derive(Debug, Default)]
pub(super) struct Fullness {
    is_near: bool,
    is_failing: bool,
    failed_writes: u64,
}

/// The memory in use, its limit, and the number of failed writes.
#[derive(Clone, Copy, Debug)]
struct Usage {
    used: u64,
    /// The limit in bytes, or `None` if no limit is set.
    limit: Option<u64>,
    failed_writes: u64,
}

impl Usage {
    /// Returns the memory of pages or all memory, whichever uses the larger share of its limit.
    fn of(device: &Device) -> Self {
        let stat = device.mm_stat();
        let pages = (stat.mem_used_total, (stat.mem_limit > 0).then_some(stat.mem_limit));
        let total = (device.mem_total(), device.total_limit());
        let share = |&(used, limit): &(u64, Option<u64>)| {
            limit.map(|limit| u128::from(used) * 1000 / u128::from(limit.max(1)))
        };
        let (used, limit) = if share(&total) > share(&pages) { total } else { pages };
        Usage { used, limit, failed_writes: device.io_stat().failed_writes }
    }

    fn is_at_least(&self, percent: u64) -> bool {
        self.limit.is_some_and(|limit| is_share(self.used, limit, percent))
    }
}

impl Fullness {
    /// Logs a warning if, since the previous call, the device has reached `NEAR_PERCENT` of its
    /// limit, or writes have begun to fail.
    pub(super) fn look(&mut self, device: &Device) {
        self.warning(&Usage::of(device)).into_iter().for_each(|line| log!("{line}"));
    }

    fn warning(&mut self, usage: &Usage) -> Option<String> {
        let is_failing =
            usage.failed_writes > self.failed_writes && usage.is_at_least(CALM_PERCENT);
        self.failed_writes = usage.failed_writes;
        let has_begun = is_failing && !self.is_failing;
        self.is_failing = is_failing || self.is_failing && usage.is_at_least(NEAR_PERCENT);
        let comes_near = usage.is_at_least(NEAR_PERCENT) && !self.is_near;
        self.is_near = usage.is_at_least(if self.is_near { CALM_PERCENT } else { NEAR_PERCENT });
        let limit = human(usage.limit?);
        let used = human(usage.used);
        if has_begun {
            return Some(format!(
                "writes fail with 'no space left': memory has reached its limit ({used} of \
                 {limit}); {CONSEQUENCE}; {REMEDY}"
            ));
        }
        comes_near.then(|| {
            format!(
                "memory is near its limit ({used} of {limit}), where writes fail with 'no space \
                 left'; {CONSEQUENCE}; {REMEDY}"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_comes_once_until_the_disk_is_emptier() {
        let mut fullness = Fullness::default();
        let mut warns = |used, limit, failed_writes| {
            let warning = fullness.warning(&Usage { used, limit, failed_writes });
            warning.map(|text| text.split(' ').next().unwrap().to_owned())
        };
        let (limit, near, fails) =
            (Some(1000), Some("memory".to_owned()), Some("writes".to_owned()));
        assert_eq!(warns(u64::MAX, None, 0), None, "there is no limit");
        assert_eq!(warns(899, limit, 0), None);
        assert_eq!(warns(900, limit, 0), near);
        assert_eq!(warns(950, limit, 0), None, "it was said");
        assert_eq!(warns(1000, limit, 3), fails);
        assert_eq!(warns(1000, limit, 4), None, "it was said");
        assert_eq!(warns(801, limit, 4), None);
        assert_eq!(warns(999, limit, 4), None, "it was not below 80%");
        assert_eq!(warns(1000, limit, 5), fails, "writes succeeded in between");
        assert_eq!(warns(799, limit, 5), None);
        assert_eq!(warns(900, limit, 5), near);
        assert_eq!(warns(10, limit, 99), None, "they failed for another reason");
    }
}
