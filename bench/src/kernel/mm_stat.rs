//! The nine columns of a zram device's `mm_stat`.

use crate::Error;

/// The memory statistics of a kernel device, in bytes and in numbers of pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MmStat {
    /// The bytes stored in the device, before compression.
    pub orig_data_size: u64,
    /// The bytes after compression. A page that is stored uncompressed counts with its full size.
    pub compr_data_size: u64,
    /// The bytes of the pool's pages.
    pub mem_used_total: u64,
    /// The maximum number of bytes that the pool can use; 0 means no limit.
    pub mem_limit: u64,
    /// The maximum number of bytes that the pool has used so far.
    pub mem_used_max: u64,
    /// The number of same-filled pages, which use no pool memory.
    pub same_pages: u64,
    /// The number of pages that compaction has freed.
    pub pages_compacted: u64,
    /// The number of pages that are stored uncompressed.
    pub huge_pages: u64,
    /// The number of pages that have ever been stored uncompressed.
    pub huge_pages_since: u64,
}

impl MmStat {
    /// Parses the file's text. Kernels can add columns after the nine.
    pub fn parse(text: &str) -> Result<MmStat, Error> {
        let columns: Option<Vec<u64>> =
            text.split_whitespace().map(|column| column.parse().ok()).collect();
        match columns.as_deref() {
            Some(&[orig, compr, used, limit, used_max, same, compacted, huge, huge_since, ..]) => {
                Ok(MmStat {
                    orig_data_size: orig,
                    compr_data_size: compr,
                    mem_used_total: used,
                    mem_limit: limit,
                    mem_used_max: used_max,
                    same_pages: same,
                    pages_compacted: compacted,
                    huge_pages: huge,
                    huge_pages_since: huge_since,
                })
            }
            _ => Err(Error::Malformed {
                thing: "mm_stat".into(),
                text: text.trim().into(),
                expected: "at least nine numbers (Linux 5.15 or later)",
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nine_columns() {
        let stat = MmStat::parse("  4096 80 12288 0 16384 1 2 3 4\n").unwrap();
        assert_eq!(
            (stat.orig_data_size, stat.compr_data_size, stat.mem_used_total),
            (4096, 80, 12288)
        );
        assert_eq!((stat.mem_limit, stat.mem_used_max, stat.same_pages), (0, 16384, 1));
        assert_eq!((stat.pages_compacted, stat.huge_pages, stat.huge_pages_since), (2, 3, 4));
        assert!(MmStat::parse("1 2 3").is_err());
        assert!(MmStat::parse("a b c d e f g h i").is_err());
    }
}
