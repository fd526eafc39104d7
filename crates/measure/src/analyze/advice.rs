//! Which candidate is recommended, and how it is asked for.

use super::row::Row;
use crate::page::PAGE_SIZE;
use crate::text::human;
use serde::Serialize;

/// Twice the time has to save a tenth of the memory: memory times time to this power is the same
/// then.
const TIME_POWER: f64 = 0.152;

/// Of the memory that is forecast, what a limit has beside it: data change.
const SPARE: f64 = 1.25;

/// What the advice comes to.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Advice {
    /// The memory that is saved, of the data's.
    pub(super) saved_bytes: u64,
    /// `uzram serve` with these options makes such a disk.
    pub(super) serve: Vec<String>,
    /// What has to be done before.
    pub(super) before: Option<String>,
    /// Lines of shell for the kernel's zram, whose blocks are pages; N is the device's number.
    pub(super) kernel: Vec<String>,
}

/// Returns the place of the row that is recommended.
pub(super) fn best<'r>(rows: impl Iterator<Item = &'r Row>) -> Option<usize> {
    let cost = |row: &Row| {
        let time = row.store_nanoseconds + row.read_one_nanoseconds;
        row.memory_bytes as f64 * time.max(1.0).powf(TIME_POWER)
    };
    let costs = rows.map(cost).enumerate();
    costs.min_by(|one, other| one.1.total_cmp(&other.1)).map(|(place, _)| place)
}

impl Advice {
    /// For data of so many bytes.
    pub(super) fn new(data: u64, best: Option<usize>, rows: &[Row]) -> Self {
        let Some(row) = best.and_then(|best| rows.get(best)) else { return Advice::default() };
        let limit = mib(row.pool_bytes as f64 * SPARE + row.error_bytes as f64);
        let has_dictionary = row.dictionary_bytes > 0;
        let level = if has_dictionary { String::new() } else { format!(" --level {}", row.level) };
        let mut serve = vec![
            format!("--size {}M", mib(data as f64)),
            format!("--algorithm {}{level}", row.algorithm),
            format!("--block {}K", row.block_bytes >> 10),
            format!("--mem-limit {limit}M"),
        ];
        let before = has_dictionary.then(|| {
            // It sets all parameters.
            serve.push(format!("--set 'algorithm_params=level={} dict=FILE'", row.level));
            format!(
                "uzram train-dictionary --size {} --block {}K PATH... -o FILE",
                row.dictionary_bytes,
                row.block_bytes >> 10
            )
        });
        let saved_bytes = data.saturating_sub(row.memory_bytes);
        Advice { saved_bytes, serve, before, kernel: kernel(data, rows) }
    }

    /// Returns what is printed below the table.
    pub(super) fn text(&self) -> String {
        if self.serve.is_empty() {
            return String::new();
        }
        if self.saved_bytes == 0 {
            return "\nCompression does not pay: no candidate takes less than the data\n"
                .to_owned();
        }
        let before = self.before.iter().map(|line| format!("  {line}\n"));
        let serve = format!("  uzram serve {}\n", self.serve.join(" "));
        let mut text = format!("\nRecommended (*), which saves {}:\n", human(self.saved_bytes));
        text.extend(before.chain([serve]));
        if !self.kernel.is_empty() {
            text += "or, with the kernel's zram, as root:\n";
            text.extend(self.kernel.iter().map(|line| format!("  {line}\n")));
        }
        text
    }
}

/// Returns how the kernel's device is set up with the best candidate that it has too.
fn kernel(data: u64, rows: &[Row]) -> Vec<String> {
    let is_the_kernels =
        |row: &&Row| row.block_bytes == PAGE_SIZE as u64 && row.dictionary_bytes == 0;
    let theirs: Vec<&Row> = rows.iter().filter(is_the_kernels).collect();
    let Some(row) = best(theirs.iter().copied()).map(|best| theirs[best]) else {
        return Vec::new();
    };
    let (algorithm, level) = (row.algorithm, row.level);
    let limit = mib(row.pool_bytes as f64 * SPARE + row.error_bytes as f64);
    vec![
        "modprobe zram; N=$(cat /sys/class/zram-control/hot_add)".to_owned(),
        format!("echo {algorithm} > /sys/block/zram$N/comp_algorithm"),
        format!("echo level={level} > /sys/block/zram$N/algorithm_params"),
        format!("echo {}M > /sys/block/zram$N/disksize", mib(data as f64)),
        format!("echo {limit}M > /sys/block/zram$N/mem_limit"),
    ]
}

/// Returns the bytes in MiB, rounded up.
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
        let of = |memory| best([row(1000, 100.0, 4096, 0), row(memory, 200.0, 4096, 0)].iter());
        assert_eq!((of(890), of(910)), (Some(1), Some(0)));
        assert_eq!(best([].iter()), None);
    }

    #[test]
    fn the_kernel_gets_what_it_has() {
        let of = |mib: u64, block, dictionary| row(mib << 20, 10.0, block, dictionary);
        let rows = [of(100, 16384, 0), of(90, 4096, 9), of(200, 4096, 0)];
        let advice = Advice::new(1 << 30, Some(1), &rows);
        let serve = advice.serve.join(" ");
        let options = "--size 1024M --algorithm zstd --block 4K --mem-limit 113M";
        assert_eq!(serve, format!("{options} --set 'algorithm_params=level=3 dict=FILE'"));
        let plain = Advice::new(1 << 30, Some(0), &rows).serve.join(" ");
        assert!(plain.contains("--algorithm zstd --level 3 --block 16K"), "{plain}");
        let none = Advice::new(90 << 20, Some(1), &rows);
        assert!(none.text().contains("does not pay") && none.text().lines().count() == 2);
        assert!(advice.before.as_ref().unwrap().contains("--size 9 --block 4K"), "{advice:?}");
        assert!(advice.kernel.contains(&"echo 250M > /sys/block/zram$N/mem_limit".to_owned()));
        assert!(Advice::new(1, Some(0), &rows[..1]).kernel.is_empty(), "none of pages was tried");
    }
}
