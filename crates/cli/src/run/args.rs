//! The command line of `uzram run`.

use crate::error::Error;
use crate::policy::RUN_LIMIT_PERCENT;
use crate::text::one_of;
use crate::values::{block, level};
use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;
use zcomp::Codec;
use zram::memparse;

/// Run a program whose heap and anonymous memory are compressed
///
/// When the program reaches its limit, the memory that has been unused for the longest time is
/// compressed. When the program touches compressed memory, this memory is decompressed. The program
/// must be for x86-64, and runs unmodified. The program may be in any language, and linked to
/// glibc, to musl or statically. The host (the executable uzram-host, which contains uzram's
/// runtime) is mapped into the program's process. The environment of the program does not change.
/// System calls that read data, write data or only return information take about as long as without
/// uzram. Every other system call takes some microseconds more. The host is also mapped into each
/// program that the program executes, and all of these processes share the limit.
///
/// Compressed data count towards the limit and can't be evicted. If compressed data use the whole
/// limit, the program continues above the limit. One line on standard error then reports how much
/// memory of all processes can't be evicted. A process whose standard error is that of this command
/// writes the line, at the latest when the process ends. Many processes can also exceed the limit,
/// because each process keeps at least 1/64 of the limit resident (1 to 16 MiB, but at most 1/8 of
/// the limit). If compressed data use most of the limit, the processes that each hold at least 1/16
/// of the limit may keep resident up to 1/4 of the limit in all. A process evicts memory when it
/// makes a system call, or when it touches memory that is new, compressed, or shared with a parent
/// or child. A process that sleeps or only computes does not evict memory.
///
/// Each process is charged for its own memory. Compressed data that a parent and its children still
/// share are counted once. Other memory that they share is counted once if it would otherwise use a
/// large part of the limit; if not, it is charged to each process. The minimum of --limit is about
/// 2 MiB with blocks of 4 KiB and lz4, and 10 MiB with blocks of 64 KiB and zstd. With --backend
/// signal-mappings or signal-remap, these minimums are 7 MiB and 15 MiB. If --limit is below the
/// minimum, the program is not run, and the message states the minimum.
///
/// 'uzram stat PID' shows the memory and the activity of the processes while they run. Without
/// --stats the program replaces this command. With --stats, SIGTERM, SIGINT, SIGHUP, SIGQUIT,
/// SIGUSR1, SIGUSR2, SIGTSTP and SIGCONT are forwarded to the program.
#[derive(Debug, Args)]
#[command(after_help = "\
Sizes are bytes, decimal or 0x, with K, M, G or T behind them for KiB to TiB: 4096, 64K, 1GiB.

The host, uzram-host, is looked for beside this command, then in ../lib/uzram from there; the \
variable UZRAM_HOST names another.

Exit codes:
  N      the program's own; 128 + N if signal N ended it
  1      the program can't be run with its memory compressed
  2      wrong use
  126    the program is there, and can't be executed
  127    the program was not found

Examples:
  uzram run -- sort big.txt
  uzram run --limit 2G --algorithm zstd --block 16K -- python3 job.py
  uzram run --limit 50% --stats -- make -j4")]
pub(crate) struct RunArgs {
    /// Maximum anonymous memory of all processes of the program together, including compressed
    /// data. The limit is a number of bytes, or a percentage of the memory cgroup's limit [default:
    /// 85%; required if the cgroup has no limit]
    #[arg(long, value_name = "SIZE|PERCENT%", value_parser = Limit::parse)]
    pub(crate) limit: Option<Limit>,
    /// Number of bytes that are compressed as one block: 4K, 8K, 16K, 32K or 64K. If the program
    /// uses neighbouring data together, as an interpreter does with its objects, 16K needs less
    /// time and memory than 4K
    #[arg(long, value_name = "SIZE", default_value = "4K", value_parser = block)]
    pub(crate) block: usize,
    #[arg(long, value_name = "NAME", default_value = "lz4", value_parser = zcomp::by_name)]
    #[arg(help = format!("Algorithm: {}", one_of(zcomp::names())))]
    pub(crate) algorithm: &'static dyn Codec,
    /// Level of the algorithm [default: the algorithm's default level]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = level)]
    pub(crate) level: Option<i32>,
    /// How accesses to compressed memory are detected: signal (guard markers in page tables, from
    /// Linux 6.13), signal-mappings (protected mappings), signal-remap (protected mappings, without
    /// the use of /proc/self/mem), or best. The value best selects the first of signal,
    /// signal-mappings and signal-remap that the system supports and permits. The system limits the
    /// number of mappings (vm.max_map_count), so signal-mappings and signal-remap evict several
    /// blocks together. They evict 32 KiB at a time if --limit is 64 MiB, and 512 KiB if --limit is
    /// 1 GiB
    #[arg(long, value_name = "NAME", default_value = "best")]
    #[arg(value_parser = ["best", "signal", "signal-mappings", "signal-remap"])]
    #[arg(hide_possible_values = true)]
    pub(crate) backend: String,
    /// Do not compress or count the memory of programs that PROGRAM executes. If PROGRAM is a
    /// script that 'env' starts, only the memory of 'env' is compressed and counted
    #[arg(long)]
    pub(crate) first_only: bool,
    /// Do not inject the host. Instead, the process executes the host, which maps the program.
    /// /proc/PID/exe and debuggers then show the host. If the system refuses ptrace, the host is
    /// never injected
    #[arg(long)]
    pub(crate) no_inject: bool,
    /// When the program has ended, print a table of its processes and their sum to standard error.
    /// The table contains the maximum memory, evictions, page faults, the number of system calls
    /// that uzram handled, and the time of the faults and calls. If a signal killed a process, its
    /// row shows the values some milliseconds before the signal
    #[arg(long)]
    pub(crate) stats: bool,
    /// Make each process append a line of JSON with its statistics to FILE when the process ends
    #[arg(long, value_name = "FILE")]
    pub(crate) stats_file: Option<PathBuf>,
    /// Print one JSON object instead of the table of --stats
    #[arg(long, requires = "stats")]
    pub(crate) json: bool,
    /// The program and its arguments. If the name of the program contains no slash, the directories
    /// in PATH are searched for the program
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true)]
    pub(crate) command: Vec<OsString>,
}

/// The value of `--limit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    Bytes(u64),
    /// A percentage of the cgroup's limit.
    Percent(u8),
}

impl Default for Limit {
    fn default() -> Self {
        Limit::Percent(RUN_LIMIT_PERCENT)
    }
}

impl Limit {
    fn parse(text: &str) -> Result<Self, String> {
        match text.strip_suffix('%') {
            Some(number) => match number.parse() {
                Ok(percent @ 1..=100) => Ok(Limit::Percent(percent)),
                _ => Err("expected a whole percentage, 1% to 100%".to_owned()),
            },
            None => match memparse::parse(text)? {
                0 => Err("a program can't do without memory; give more than 0".to_owned()),
                bytes => Ok(Limit::Bytes(bytes)),
            },
        }
    }

    /// Returns the limit in bytes. `room` returns the cgroup's limit in bytes. Only a percentage
    /// needs `room`, which reads several files.
    pub(crate) fn bytes(self, room: impl FnOnce() -> Option<u64>) -> Result<u64, Error> {
        let percent = match self {
            Limit::Bytes(bytes) => return Ok(bytes),
            Limit::Percent(percent) => percent,
        };
        match room() {
            Some(room) => Ok((room / 100 * u64::from(percent)).max(1)),
            None => Err(Error::Usage(format!(
                "--limit: there is no limit of a memory cgroup to take {percent}% of; give bytes, \
                 such as --limit 1G"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_bytes_or_a_percentage() {
        for (text, limit) in [
            ("1", Limit::Bytes(1)),
            ("64M", Limit::Bytes(64 << 20)),
            ("1%", Limit::Percent(1)),
            ("100%", Limit::Percent(100)),
        ] {
            assert_eq!(Limit::parse(text), Ok(limit), "{text}");
        }
        for text in ["", "0", "0%", "101%", "300%", "%", "-1%", "1.5%", "5 %", "5%%", "5X", "5M%"] {
            assert!(Limit::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_percentage_needs_a_limit_to_be_taken_of() {
        assert_eq!(Limit::Bytes(5).bytes(|| unreachable!()).unwrap(), 5);
        assert_eq!(Limit::Percent(50).bytes(|| Some(1000)).unwrap(), 500);
        assert_eq!(Limit::default().bytes(|| Some(1 << 40)).unwrap(), (1_u64 << 40) / 100 * 85);
        let error = Limit::default().bytes(|| None).unwrap_err();
        assert!(matches!(&error, Error::Usage(text) if text.contains("85%")), "{error}");
    }
}
