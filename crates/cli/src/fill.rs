//! `uzram fill`: plan, store, measure, read back.

use crate::args::{ClassTable, FillArgs, MemLimit};
use crate::crew::Crew;
use crate::error::{Error, Stored, escaped};
use crate::input;
use crate::interrupt::Interrupt;
use crate::job::{Job, Order};
use crate::memory::{self, ProcessMemory};
use crate::notices::{Notice, Notices};
use crate::plan::{PAGE, Plan};
use crate::progress::Progress;
use crate::report::{Rates, Report};
use crate::sums::SUM_BYTES;
use crate::tally::{Tally, mb_s, quotient};
use crate::units::human;
use crate::worker::{WORKER_BYTES, Worker};
use std::thread;
use zcomp::Prepared;
use zram::{Config, Device, MmStat};

/// More threads than this only for who asks.
const THREADS_DEFAULT_MAX: usize = 16;

/// So much memory there has to be for each thread's buffers, unless asked otherwise.
const ROOM_PER_THREAD: u64 = 24 * WORKER_BYTES as u64;

/// What a thread touches of its stack and heap, and what the kernel holds for it.
const STACK_BYTES: usize = 128 << 10;

/// What the device holds per page of its size.
const SLOT_BYTES: usize = 12;

/// What came of it.
pub(crate) struct Outcome {
    pub(crate) report: Report,
    /// What was left out, a line each.
    pub(crate) warnings: Vec<String>,
    /// Why not all is well.
    pub(crate) failure: Option<Error>,
}

/// The state of things when all is stored.
struct Filled {
    before: ProcessMemory,
    after: ProcessMemory,
    stat: MmStat,
    mem_total: u64,
    classes: Option<String>,
    /// The error that ended storing early.
    full: Option<zsmalloc::Error>,
    tallies: Vec<Tally>,
}

/// Does the whole job.
///
/// # Errors
/// Nothing could be measured: wrong use, Ctrl-C, or a failure that is not a full device.
pub(crate) fn run(args: &FillArgs, interrupt: &Interrupt) -> Result<Outcome, Error> {
    args.algorithm.check(&args.params).map_err(Error::Level)?;
    let codec = args.algorithm.prepare(&args.params, PAGE)?;
    let notices = Notices::default();
    let plan = input::plan(&args.paths, args.input_pages, &notices, interrupt)?;
    let job = Job::new(&plan, &notices, interrupt);
    let room = memory::room();
    let threads = args.threads.unwrap_or_else(|| default_threads(room, job.batches()));
    let config = config(args, &*codec, &plan, threads, room)?;
    let filled = thread::scope(|scope| {
        let workers = (0..threads).map(|_| Worker::new(&*codec)).collect::<Result<_, _>>()?;
        fill(Crew::start(scope, workers, &job)?, &job, &config, args.class_table)
    })?;
    Ok(outcome(args, &plan, &notices, threads, filled))
}

fn default_threads(room: Option<u64>, batches: usize) -> usize {
    let processors = thread::available_parallelism().map_or(1, |count| count.get());
    let fitting = room.map_or(usize::MAX, |bytes| (bytes / ROOM_PER_THREAD) as usize);
    processors.min(THREADS_DEFAULT_MAX).min(fitting).min(batches).max(1)
}

fn config(
    args: &FillArgs,
    codec: &dyn Prepared,
    plan: &Plan,
    threads: usize,
    room: Option<u64>,
) -> Result<Config, Error> {
    let pages = u64::from(plan.pages()).max(1);
    let mut config = Config::new(pages * PAGE as u64)?;
    config.algorithm = args.algorithm;
    config.params = args.params.clone();
    config.streams = Some(threads);
    config.geometry = args.geometry;
    config.compaction = args.compaction.into();
    config.mem_limit = match args.mem_limit {
        MemLimit::Bytes(bytes) => Some(bytes),
        MemLimit::None => None,
        MemLimit::Default => room.map(|room| memory::limit_of(room, beside(codec, plan, threads))),
    };
    Ok(config)
}

/// Bytes that are needed beside the pool's pages, roughly: buffers, streams, slots and checksums.
fn beside(codec: &dyn Prepared, plan: &Plan, threads: usize) -> u64 {
    let per_thread = WORKER_BYTES + 2 * codec.stream_bytes() + STACK_BYTES;
    let per_page = SLOT_BYTES + SUM_BYTES;
    (threads * per_thread) as u64 + u64::from(plan.pages()) * per_page as u64
}

/// Stores everything, measures, and reads it back.
fn fill(
    crew: Crew<'_>,
    job: &Job<'_>,
    config: &Config,
    class_table: ClassTable,
) -> Result<Filled, Error> {
    let bytes = u64::from(job.source.plan.pages()) * PAGE as u64;
    warm_up(config)?;
    let before = ProcessMemory::now();
    let device = Device::new(config.clone())?;
    let device = job.device.get_or_init(|| device);

    run_phase(&crew, job, Order::Store, Progress::new("storing", bytes))?;
    let after = ProcessMemory::now();
    let full = match job.next_phase() {
        Some(Error::Device(zram::Error::OutOfMemory { source, .. })) => Some(source),
        Some(error) => return Err(error),
        None => None,
    };
    let (stat, mem_total) = (device.mm_stat(), device.mem_total());
    let classes = (class_table == ClassTable::Shown).then(|| device.classes().to_string());

    run_phase(&crew, job, Order::Compare, Progress::new("comparing", bytes))?;
    job.next_phase().map_or(Ok(()), Err)?;
    let tallies = crew.finish()?;
    Ok(Filled { before, after, stat, mem_total, classes, full, tallies })
}

fn run_phase(
    crew: &Crew<'_>,
    job: &Job<'_>,
    order: fn(Progress) -> Order,
    progress: Progress,
) -> Result<(), Error> {
    let done = crew.run(&order(progress.clone()));
    progress.finish();
    job.interrupt.check()?;
    done
}

/// Has the code that is measured read from disk before memory is, with a small device.
fn warm_up(config: &Config) -> Result<(), Error> {
    let small = Config { disksize: 16 * PAGE as u64, streams: Some(1), ..config.clone() };
    let device = Device::new(small)?;
    let mut page = [0; PAGE];
    page[..12].copy_from_slice(b"some content");
    // A limit may refuse it; that is for the real device to say.
    if device.write(0, &page).is_ok() {
        device.read(0, &mut page)?;
    }
    Ok(())
}

/// What the figures mean.
fn outcome(
    args: &FillArgs,
    plan: &Plan,
    notices: &Notices,
    threads: usize,
    filled: Filled,
) -> Outcome {
    let Filled { before, after, stat, mem_total, classes, full, tallies } = filled;
    let sum = |of: fn(&Tally) -> u64| tallies.iter().map(of).sum::<u64>();
    let codec_size = sum(|tally| tally.codec_bytes);
    let mismatches = sum(|tally| tally.mismatches);
    let over_codec = |used: u64| quotient(used as f64, codec_size as f64).map(|part| part - 1.0);
    let report = Report {
        algorithm: args.algorithm.name(),
        level: args.params.level.unwrap_or_else(|| args.algorithm.default_level()),
        threads,
        geometry: args.geometry.into(),
        compaction: args.compaction,
        files: plan.files(),
        pages: sum(|tally| tally.pages_stored),
        pages_planned: plan.pages().into(),
        pages_compared: sum(|tally| tally.pages_compared),
        orig_data_size: stat.orig_data_size,
        compr_data_size: stat.compr_data_size,
        codec_size,
        mem_used_total: stat.mem_used_total,
        mem_total,
        mem_limit: stat.mem_limit,
        rss_bytes: after.resident,
        rss_growth_bytes: after.growth_since(&before),
        page_table_bytes: after.page_tables,
        ratio: quotient(stat.orig_data_size as f64, stat.mem_used_total as f64),
        overhead: over_codec(stat.mem_used_total),
        overhead_all: over_codec(mem_total),
        same_pages: stat.same_pages,
        huge_pages: stat.huge_pages,
        rates: rates(&tallies),
        mismatches,
        skipped_files: notices.count(Notice::Skipped),
        changed_files: notices.count(Notice::Changed),
        mm_stat: stat.to_string(),
        classes,
    };
    let mismatch = tallies.iter().find_map(|tally| tally.mismatch);
    let failure = match (full, mismatch) {
        (Some(source), _) => Some(out_of_memory(&report, source)),
        (None, Some(file)) => {
            Some(Error::Mismatch { pages: mismatches, first: escaped(&plan.path(file)) })
        }
        (None, None) => None,
    };
    Outcome { report, warnings: notices.lines(), failure }
}

fn rates(tallies: &[Tally]) -> Rates {
    Rates {
        write_mb_s: mb_s(tallies, |tally| tally.all.write),
        read_mb_s: mb_s(tallies, |tally| tally.all.read),
        codec_compress_mb_s: mb_s(tallies, |tally| tally.all.compress),
        codec_decompress_mb_s: mb_s(tallies, |tally| tally.all.decompress),
        write_over_codec: quotient(
            mb_s(tallies, |tally| tally.alike.write),
            mb_s(tallies, |tally| tally.alike.compress),
        ),
        read_over_codec: quotient(
            mb_s(tallies, |tally| tally.alike.read),
            mb_s(tallies, |tally| tally.alike.decompress),
        ),
    }
}

fn out_of_memory(report: &Report, source: zsmalloc::Error) -> Error {
    let Report { pages, pages_planned: planned, mismatches, .. } = *report;
    let stored = Stored { pages, planned, mismatches };
    match i64::try_from(report.mem_limit) {
        Ok(limit @ 1..) if source.is_limit() => Error::Limit { limit: human(limit), stored },
        _ => Error::OutOfMemory { stored, source },
    }
}
