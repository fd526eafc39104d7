//! The recommended candidate and the commands that use it.

use super::row::Row;
use crate::commands::policy::{LIMIT_SPARE, TIME_POWER};
use crate::text::human;
use measure::page::PAGE_SIZE;
use serde::Serialize;

/// The recommendation.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Advice {
    /// The size of the uncompressed data minus the memory of the recommended device, in bytes.
    pub(super) saved_bytes: u64,
    /// For a process: the options of `uzram run` that select the recommended candidate.
    pub(super) run: Option<Vec<String>>,
    /// For files: the options of `uzram serve` that select the recommended candidate. Empty for a
    /// process, because swap on a disk that uzram serves can deadlock.
    pub(super) serve: Vec<String>,
    /// A command that must run before the commands of the other fields.
    pub(super) before: Option<String>,
    /// Shell commands that set up the kernel's zram device number N. For a process, the commands
    /// also make the device a swap device.
    pub(super) kernel: Vec<String>,
}

/// Returns the index of the recommended row.
pub(super) fn best<'r>(rows: impl Iterator<Item = (usize, &'r Row)>) -> Option<usize> {
    let cost = |row: &Row| {
        let time = row.store_nanoseconds + row.read_one_nanoseconds;
        row.memory_bytes as f64 * time.max(1.0).powf(TIME_POWER)
    };
    let costs = rows.map(|(place, row)| (place, cost(row)));
    costs.min_by(|one, other| one.1.total_cmp(&other.1)).map(|(place, _)| place)
}

impl Advice {
    /// Returns the advice for `data` bytes of files or of a process.
    pub(super) fn new(data: u64, is_process: bool, best: Option<usize>, rows: &[Row]) -> Self {
        let Some(row) = best.and_then(|best| rows.get(best)) else { return Advice::default() };
        let limit = mib(row.pool_bytes as f64 * LIMIT_SPARE + row.error_bytes as f64);
        let codec = format!("--algorithm {} --level {}", row.algorithm, row.level);
        let block = format!("--block {}K", row.block_bytes >> 10);
        let saved_bytes = data.saturating_sub(row.memory_bytes);
        let kernel = kernel(data, is_process, rows);
        if is_process {
            let run = Some(vec!["--limit SIZE".into(), codec, block]);
            return Advice { saved_bytes, run, kernel, ..Advice::default() };
        }
        let size = format!("--size {}M", mib(data as f64));
        let mut serve = vec![size, codec, block, format!("--mem-limit {limit}M")];
        let before = (row.dictionary_bytes > 0).then(|| {
            serve.push("--set algorithm_params=dict=FILE".to_owned());
            format!(
                "uzram train-dictionary --size {} --block {}K PATH... -o FILE",
                row.dictionary_bytes,
                row.block_bytes >> 10
            )
        });
        Advice { saved_bytes, run: None, serve, before, kernel }
    }

    /// Returns the text that is printed below the table.
    pub(super) fn text(&self) -> String {
        if self.run.is_none() && self.serve.is_empty() {
            return String::new();
        }
        let mut text = match self.saved_bytes {
            0 => "\nCompression does not pay here: it saves nothing. What comes nearest (*):\n"
                .into(),
            bytes => format!("\nRecommended (*), which saves {}:\n", human(bytes)),
        };
        text.extend(self.before.iter().map(|line| format!("  {line}\n")));
        let (command, used) = match &self.run {
            Some(run) => (format!("run {} -- PROGRAM", run.join(" ")), "as swap on"),
            None => (format!("serve {}", self.serve.join(" ")), "with"),
        };
        text += &format!("  uzram {command}\n");
        if !self.kernel.is_empty() {
            text += &format!("or, {used} the kernel's zram, as root:\n");
            text.extend(self.kernel.iter().map(|line| format!("  {line}\n")));
        }
        text
    }
}

/// Returns the shell commands that set up the kernel's zram with the best candidate that the kernel
/// supports.
fn kernel(data: u64, is_process: bool, rows: &[Row]) -> Vec<String> {
    let is_the_kernels =
        |(_, row): &(usize, &Row)| row.block_bytes == PAGE_SIZE as u64 && row.dictionary_bytes == 0;
    let theirs = rows.iter().enumerate().filter(is_the_kernels);
    let Some(row) = best(theirs).map(|best| &rows[best]) else {
        return Vec::new();
    };
    let (algorithm, level) = (row.algorithm, row.level);
    let limit = mib(row.pool_bytes as f64 * LIMIT_SPARE + row.error_bytes as f64);
    let swap = "mkswap /dev/zram$N && swapon --priority 100 /dev/zram$N".to_owned();
    let lines = [
        "modprobe zram; N=$(cat /sys/class/zram-control/hot_add)".to_owned(),
        format!("echo {algorithm} > /sys/block/zram$N/comp_algorithm"),
        format!("echo level={level} > /sys/block/zram$N/algorithm_params"),
        format!("echo {}M > /sys/block/zram$N/disksize", mib(data as f64)),
        format!("echo {limit}M > /sys/block/zram$N/mem_limit"),
    ];
    lines.into_iter().chain(is_process.then_some(swap)).collect()
}

/// Returns `bytes` in MiB, rounded up.
fn mib(bytes: f64) -> u64 {
    (bytes / f64::from(1 << 20)).ceil().max(1.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(memory_bytes: u64, time: f64, block_bytes: u64, dictionary_bytes: u64) -> Row {
        Row {
            algorithm: "zstd",
            level: 3,
            block_bytes,
            dictionary_bytes,
            memory_bytes,
            pool_bytes: memory_bytes,
            error_bytes: 0,
            ratio: 1.0,
            store_nanoseconds: time,
            read_nanoseconds: 0.0,
            read_one_nanoseconds: 0.0,
            is_recommended: false,
        }
    }

    #[test]
    fn twice_the_time_has_to_save_a_tenth() {
        let rows = |memory| [row(1000, 100.0, 4096, 0), row(memory, 200.0, 4096, 0)];
        let of = |memory| best(rows(memory).iter().enumerate());
        assert_eq!((of(890), of(910)), (Some(1), Some(0)));
        assert_eq!(best(rows(890).iter().enumerate().take(1)), Some(0));
        assert_eq!(best([].iter().enumerate()), None);
    }

    #[test]
    fn the_kernel_gets_what_it_has() {
        let of = |mib: u64, block, dictionary| row(mib << 20, 10.0, block, dictionary);
        let rows = [of(100, 16384, 0), of(90, 4096, 9), of(200, 4096, 0)];
        let advice = Advice::new(1 << 30, false, Some(1), &rows);
        assert!(advice.run.is_none() && !advice.text().contains("uzram run"), "{advice:?}");
        let serve = advice.serve.join(" ");
        let options = "--size 1024M --algorithm zstd --level 3 --block 4K --mem-limit 113M";
        assert!(serve.starts_with(options) && serve.ends_with("dict=FILE"), "{serve}");
        assert!(advice.before.as_ref().unwrap().contains("--size 9 --block 4K"), "{advice:?}");
        assert!(advice.kernel.contains(&"echo 250M > /sys/block/zram$N/mem_limit".to_owned()));
        assert!(!advice.text().contains("swap"), "{}", advice.text());
        let none = Advice::new(1, false, Some(0), &rows[..1]);
        assert!(none.kernel.is_empty(), "none of pages was tried");
    }

    #[test]
    fn a_process_is_run_with_it_and_what_saves_nothing_does_not_pay() {
        let rows = [row(30 << 20, 10.0, 16384, 0), row(40 << 20, 10.0, 4096, 0)];
        let advice = Advice::new(100 << 20, true, Some(0), &rows);
        let run = "  uzram run --limit SIZE --algorithm zstd --level 3 --block 16K -- PROGRAM\n";
        assert!(advice.text().contains(run), "{}", advice.text());
        assert!(advice.text().contains("which saves 70.0 MiB"), "{}", advice.text());
        // Swap on a disk that uzram serves can deadlock, so the advice names only the kernel's
        // zram.
        assert!(advice.serve.is_empty() && !advice.text().contains("serve"), "{}", advice.text());
        assert!(advice.text().contains("or, as swap on the kernel's zram, as root:\n"));
        assert!(advice.kernel.iter().any(|line| line.contains("swapon")), "{:?}", advice.kernel);
        let advice = Advice::new(100 << 20, false, Some(0), &[row(102 << 20, 10.0, 4096, 0)]);
        assert!(advice.text().contains("does not pay"), "{}", advice.text());
        assert!(!advice.text().contains("Recommended"), "{}", advice.text());
    }
}
