//! The command line of `uzram run`.

use crate::error::Error;
use clap::Args;
use measure::arguments::{block, level};
use measure::text::one_of;
use std::ffi::OsString;
use std::path::PathBuf;
use zcomp::Codec;
use zram::memparse;

/// Of a cgroup's limit, what the program's memory may take if nothing else is asked for: what is
/// not counted, such as files and page tables, needs the rest.
const DEFAULT_PERCENT: u8 = 85;

/// Run a program whose heap and anonymous memory compress themselves
///
/// At the limit the memory that was not used for longest is compressed; it comes back when it is
/// touched. The program needs no change, and has to be for x86-64. A host, uzram-host, is mapped
/// into its process, whether it is linked to glibc, to musl or statically, in any language.
/// Its environment does not change. Reads, writes and calls that only ask take about as long as
/// natively; each other system call takes some microseconds more. Each program that it executes
/// gets a host too, and all of these processes together keep the limit.
///
/// What is compressed counts too, and can't go: where it takes the whole limit, the program goes on
/// above it, and a line on standard error says so, once, with what all processes have that can't
/// go: on that of this command, by a process that has it too, at its end at the latest. So it does
/// where there are many: each keeps a 64th of the limit resident (1 to 16 MiB, an eighth at most),
/// and large ones a quarter together where what is compressed takes too much. A process gives
/// memory up when it touches memory that is new, compressed, or shared with a parent or child, or
/// makes a system call. One that sleeps, or only computes, keeps what it has.
///
/// Of a parent and its children each counts what it has; what is compressed and they still share
/// counts once, and so does other memory where two of it would be much. The least limit is some 2
/// MiB with blocks of 4 KiB and lz4, and 10 MiB with 64 KiB and zstd (14 and 20 MiB with
/// signal-mappings and signal-remap): where it is less, the program is not run, and the message
/// says what it takes.
///
/// 'uzram stat PID' shows what the processes hold and have done while they run. Without --stats the
/// program takes the place of this command. With it, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1,
/// SIGUSR2, SIGTSTP and SIGCONT are passed on to the program.
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
    /// Most anonymous memory that all processes of the program take together, with what is
    /// compressed: bytes, or a percentage of the limit of the memory cgroup [default: 85%; without
    /// such a limit, this has to be given]
    #[arg(long, value_name = "SIZE|PERCENT%", value_parser = Limit::parse)]
    pub(crate) limit: Option<Limit>,
    /// Bytes compressed as one block: 4K, 8K, 16K, 32K or 64K; 16K takes less time and memory where
    /// what lies together is used together, as an interpreter's objects
    #[arg(long, value_name = "SIZE", default_value = "4K", value_parser = block)]
    pub(crate) block: usize,
    #[arg(long, value_name = "NAME", default_value = "lz4", value_parser = zcomp::by_name)]
    #[arg(help = format!("Algorithm: {}", one_of(zcomp::names())))]
    pub(crate) algorithm: &'static dyn Codec,
    /// Level of the algorithm [default: the algorithm's own]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = level)]
    pub(crate) level: Option<i32>,
    /// What tells a touch of compressed memory: best, signal (marks of page tables, from Linux
    /// 6.13), signal-mappings (marks of mappings), or signal-remap (the same, without use of
    /// /proc/self/mem); best is the first of these that the system has and permits. There may be no
    /// more marks of mappings than the system allows (vm.max_map_count): blocks go together then,
    /// 32 KiB at a limit of 64 MiB, 512 KiB at 1 GiB
    #[arg(long, value_name = "NAME", default_value = "best")]
    #[arg(value_parser = ["best", "signal", "signal-mappings", "signal-remap"])]
    #[arg(hide_possible_values = true)]
    pub(crate) backend: String,
    /// Leave programs that PROGRAM executes as they are: their memory does not compress itself, and
    /// does not count. Where PROGRAM is a script that 'env' starts, 'env' is the first
    #[arg(long)]
    pub(crate) first_only: bool,
    /// Let the host map each program into its own process, as it does where the system refuses
    /// ptrace; /proc/PID/exe and debuggers show the host then
    #[arg(long)]
    pub(crate) no_inject: bool,
    /// When the program has ended, print a table of its ended processes and of their sum to
    /// standard error: the most memory, evictions, page faults and their time, dispatched system
    /// calls and the time of dispatching them. Figures of a process that a signal killed are those
    /// of its last milliseconds before
    #[arg(long)]
    pub(crate) stats: bool,
    /// Have each process append a line of JSON with what it did to FILE when it ends
    #[arg(long, value_name = "FILE")]
    pub(crate) stats_file: Option<PathBuf>,
    /// Print one JSON object instead of the table of --stats
    #[arg(long, requires = "stats")]
    pub(crate) json: bool,
    /// The program, which is looked for in PATH if there is no slash in it, and its arguments
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true)]
    pub(crate) command: Vec<OsString>,
}

/// What is asked for with `--limit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    /// So many bytes.
    Bytes(u64),
    /// Of the cgroup's limit.
    Percent(u8),
}

impl Default for Limit {
    fn default() -> Self {
        Limit::Percent(DEFAULT_PERCENT)
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

    /// Returns the bytes, where the cgroup's limit is `room`.
    pub(crate) fn bytes(self, room: Option<u64>) -> Result<u64, Error> {
        match (self, room) {
            (Limit::Bytes(bytes), _) => Ok(bytes),
            (Limit::Percent(percent), Some(room)) => Ok((room / 100 * u64::from(percent)).max(1)),
            (Limit::Percent(percent), None) => Err(Error::Usage(format!(
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
        assert_eq!(Limit::Bytes(5).bytes(None).unwrap(), 5);
        assert_eq!(Limit::Percent(50).bytes(Some(1000)).unwrap(), 500);
        assert_eq!(Limit::default().bytes(Some(1 << 40)).unwrap(), (1_u64 << 40) / 100 * 85);
        let error = Limit::default().bytes(None).unwrap_err();
        assert!(matches!(&error, Error::Usage(text) if text.contains("85%")), "{error}");
    }
}
