//! The results of `uzram fill`, and their JSON.

use super::args::COMPACTION;
use super::cold_options::ColdReport;
use crate::commands::geometry::GeometryNames;
use crate::values::name_of;
use serde::{Serialize, Serializer};
use zram::Compaction;

/// All results of a run. Sizes are in bytes. Unknown values are null.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) algorithm: &'static str,
    pub(crate) level: i32,
    pub(crate) threads: usize,
    pub(crate) block_size: usize,
    #[serde(flatten)]
    pub(crate) geometry: GeometryNames,
    #[serde(serialize_with = "compaction")]
    pub(crate) compaction: Compaction,
    /// The number of regular files within the input limit.
    pub(crate) files: u64,
    /// The number of stored pages.
    pub(crate) pages: u64,
    /// The number of pages in the plan.
    pub(crate) pages_planned: u64,
    /// The number of pages that were read back and compared.
    pub(crate) pages_compared: u64,
    pub(crate) orig_data_size: u64,
    pub(crate) compr_data_size: u64,
    /// C: the sum of min(size, length from the raw codec) over the stored blocks that are not
    /// same-filled.
    pub(crate) codec_size: u64,
    /// The bytes of the pool's pages, as in the kernel's mm_stat.
    pub(crate) mem_used_total: u64,
    /// All memory of the device, in bytes.
    pub(crate) mem_total: u64,
    /// The memory limit; 0 means none.
    pub(crate) mem_limit: u64,
    /// The resident size of this process after everything is stored.
    pub(crate) rss_bytes: Option<u64>,
    /// The growth of this process's resident and swapped memory since the device was created.
    pub(crate) rss_growth_bytes: Option<i64>,
    pub(crate) page_table_bytes: Option<u64>,
    /// orig_data_size / mem_used_total
    pub(crate) ratio: Option<f64>,
    /// (mem_used_total - C) / C
    pub(crate) overhead: Option<f64>,
    /// (mem_total - C) / C
    pub(crate) overhead_all: Option<f64>,
    pub(crate) same_pages: u64,
    pub(crate) huge_pages: u64,
    #[serde(flatten)]
    pub(crate) rates: Rates,
    /// The number of pages that the device did not return as stored.
    pub(crate) mismatches: u64,
    /// The number of files and directories that could not be read.
    pub(crate) skipped_files: u64,
    /// The number of files that were left out because they changed during the run.
    pub(crate) changed_files: u64,
    #[serde(flatten)]
    pub(crate) cold: ColdReport,
    /// The nine columns of the kernel's mm_stat.
    pub(crate) mm_stat: String,
    /// The kernel's table of size classes, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) classes: Option<String>,
    /// The values of the attributes that `--show` requests, by name.
    #[serde(
        rename = "attributes",
        skip_serializing_if = "Vec::is_empty",
        serialize_with = "by_name"
    )]
    pub(crate) shown: Vec<(&'static str, String)>,
}

/// The throughput of all threads together, in 10^6 bytes per second.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Rates {
    pub(crate) write_mb_s: f64,
    pub(crate) read_mb_s: f64,
    pub(crate) codec_compress_mb_s: f64,
    pub(crate) codec_decompress_mb_s: f64,
    /// The device's rate divided by the raw codec's rate, for requests without same-filled pages.
    pub(crate) write_over_codec: Option<f64>,
    pub(crate) read_over_codec: Option<f64>,
}

fn by_name<S: Serializer>(shown: &[(&str, String)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(shown.iter().map(|(name, text)| (name, text)))
}

fn compaction<S: Serializer>(mode: &Compaction, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(name_of(COMPACTION, *mode))
}

#[cfg(test)]
impl Report {
    pub(crate) fn example() -> Self {
        Report {
            algorithm: "lz4",
            level: 1,
            threads: 2,
            block_size: 4096,
            geometry: zsmalloc::Geometry::default().into(),
            compaction: Compaction::Auto,
            files: 3,
            pages: 5,
            pages_planned: 5,
            pages_compared: 5,
            orig_data_size: 20480,
            compr_data_size: 9000,
            codec_size: 8000,
            mem_used_total: 12288,
            mem_total: 16384,
            mem_limit: 0,
            rss_bytes: Some(4 << 20),
            rss_growth_bytes: Some(-4096),
            page_table_bytes: None,
            ratio: Some(20480.0 / 12288.0),
            overhead: Some(0.536),
            overhead_all: Some(1.048),
            same_pages: 1,
            huge_pages: 2,
            rates: Rates { write_mb_s: 1234.56, write_over_codec: Some(0.91), ..Rates::default() },
            mismatches: 0,
            skipped_files: 0,
            changed_files: 1,
            cold: ColdReport::default(),
            mm_stat: "20480 9000 12288 0 12288 1 0 2 2".to_owned(),
            classes: None,
            shown: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::json;
    use serde_json::Value;

    /// The JSON keys on which other programs rely.
    const KEYS: [&str; 14] = [
        "orig_data_size",
        "compr_data_size",
        "codec_size",
        "mem_used_total",
        "mem_total",
        "rss_bytes",
        "same_pages",
        "huge_pages",
        "write_mb_s",
        "read_mb_s",
        "codec_compress_mb_s",
        "codec_decompress_mb_s",
        "mismatches",
        "skipped_files",
    ];

    #[test]
    fn the_promised_keys_are_numbers() {
        let value: Value = serde_json::from_str(&json(&Report::example())).unwrap();
        for key in KEYS {
            assert!(value[key].is_number(), "{key}: {value}");
        }
        assert!(value["page_table_bytes"].is_null());
        assert_eq!((&value["geometry"], &value["compaction"]), (&"native".into(), &"auto".into()));
        assert!(value.get("classes").is_none());
        let report = Report { classes: Some("table\n".to_owned()), ..Report::example() };
        assert!(json(&report).contains("\"classes\": \"table\\n\""));
    }
}
