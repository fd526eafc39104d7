//! `uzram fill`: plan, store, measure, read back.

use crate::args::{ClassTable, FillArgs, MemLimit};
use crate::attributes::AttributeText;
use crate::cold_options::ColdReport;
use crate::error::{Error, Stored, escaped};
use crate::input;
use crate::interrupt::Interrupt;
use crate::job::{FillJob, Phase};
use crate::memory::{self, ProcessMemory};
use crate::page_checksums::CHECKSUM_BYTES;
use crate::plan::{PAGE, Plan};
use crate::progress::Progress;
use crate::raw::Codecs;
use crate::report::{Rates, Report};
use crate::skipped_files::{SkipReason, SkippedFiles};
use crate::thread_pool::ThreadPool;
use crate::totals::{Totals, mb_s, quotient};
use crate::units::human;
use crate::worker::{WORKER_BYTES, Worker};
use std::thread;
use zram::{Config, Device, MmStat, Zram};

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
    shown: Vec<AttributeText>,
    /// The error that ended storing early, and the limit of all memory, if it was that.
    full: Option<(zsmalloc::Error, Option<u64>)>,
    cold: ColdReport,
    /// Why what is cold is not all where it was to go.
    fault: Option<Error>,
    totals: Vec<Totals>,
}

/// Does the whole job.
///
/// # Errors
/// Nothing could be measured: wrong use, Ctrl-C, or a failure that is not a full device.
pub(crate) fn run(args: &FillArgs, interrupt: &Interrupt) -> Result<Outcome, Error> {
    // Better now than after the work.
    args.cold.check()?;
    let zram = device_to_be(args)?;
    let settings = zram.settings();
    settings.algorithm.check(&settings.params).map_err(Error::Level)?;
    let codecs = Codecs::new(&settings)?;
    let skipped = SkippedFiles::default();
    let plan = input::plan(&args.paths, args.input_pages, &skipped, interrupt)?;
    let room = memory::room();
    let bytes = beside_pages(&plan);
    if room.is_some_and(|room| room < bytes) {
        return Err(Error::NoRoom { bytes });
    }
    let job = FillJob::new(&plan, &skipped, interrupt)?;
    let threads = args.threads.unwrap_or_else(|| default_threads(room, job.batches()));
    zram.configure("streams", |settings| {
        settings.streams = Some(threads);
        Ok(())
    })?;
    if args.mem_limit == MemLimit::Default && !args.set.iter().any(|set| set.is_of("mem_limit")) {
        let limit = room.map(|room| memory::limit_of(room, beside(&codecs, &plan, threads)));
        zram.set_mem_limit(limit);
    }
    let filled = thread::scope(|scope| {
        let workers = (0..threads).map(|_| Worker::new(&codecs)).collect::<Result<_, _>>()?;
        fill(ThreadPool::start(scope, workers, &job)?, &job, &zram, args)
    })?;
    Ok(outcome(&settings, &plan, &skipped, threads, filled))
}

/// What the arguments say of the device.
fn device_to_be(args: &FillArgs) -> Result<Zram, Error> {
    let zram = Zram::new();
    zram.configure("settings", |settings| {
        settings.algorithm = args.algorithm;
        settings.params = args.params.clone();
        settings.block = args.block;
        settings.geometry = args.geometry;
        settings.compaction = args.compaction.into();
        if let MemLimit::Bytes(bytes) = args.mem_limit {
            settings.mem_limit = Some(bytes);
        }
        Ok(())
    })?;
    args.set.iter().try_for_each(|setting| setting.apply(&zram))?;
    Ok(zram)
}

fn default_threads(room: Option<u64>, batches: usize) -> usize {
    let processors = thread::available_parallelism().map_or(1, |count| count.get());
    let fitting = room.map_or(usize::MAX, |bytes| (bytes / ROOM_PER_THREAD) as usize);
    processors.min(THREADS_DEFAULT_MAX).min(fitting).min(batches).max(1)
}

/// Bytes that are needed beside the pool's pages, roughly: buffers, streams, slots and checksums.
fn beside(codecs: &Codecs, plan: &Plan, threads: usize) -> u64 {
    let per_thread = WORKER_BYTES + 2 * codecs.stream_bytes() + STACK_BYTES;
    (threads * per_thread) as u64 + beside_pages(plan)
}

/// Of them, what grows with the input.
fn beside_pages(plan: &Plan) -> u64 {
    u64::from(plan.pages()) * (SLOT_BYTES + CHECKSUM_BYTES) as u64
}

/// Stores everything, measures, and reads it back.
fn fill(
    pool: ThreadPool<'_>,
    job: &FillJob<'_>,
    zram: &Zram,
    args: &FillArgs,
) -> Result<Filled, Error> {
    let bytes = u64::from(job.source.plan.pages()) * PAGE as u64;
    warm_up(zram.settings())?;
    args.cold.prepare(zram, bytes)?;
    let mut cold = ColdReport::default();
    let before = ProcessMemory::now();
    zram.set_disksize(bytes.max(PAGE as u64))?;
    let device = zram.open()?;
    let device = job.device.get_or_init(|| device);

    run_phase(&pool, job, Phase::Store, Progress::new("storing", bytes))?;
    let written_back = args.cold.write_back(device, job.interrupt, &mut cold);
    let after = ProcessMemory::now();
    let full = match job.next_phase() {
        Some(Error::Device(zram::Error::OutOfMemory { source, total_limit, .. })) => {
            Some((source, total_limit))
        }
        Some(error) => return Err(error),
        None => None,
    };
    let (stat, mem_total) = (device.mm_stat(), device.mem_total());
    let classes = (args.class_table == ClassTable::Shown).then(|| device.classes().to_string());
    let shown =
        args.show.iter().map(|name| AttributeText::new(zram, name)).collect::<Result<_, _>>()?;

    run_phase(&pool, job, Phase::Compare, Progress::new("comparing", bytes))?;
    job.next_phase().map_or(Ok(()), Err)?;
    let totals = pool.finish()?;
    let saved = args.cold.save(device, job.interrupt, &mut cold);
    job.interrupt.check()?;
    let fault = written_back.and(saved).err();
    Ok(Filled { before, after, stat, mem_total, classes, shown, full, cold, fault, totals })
}

fn run_phase(
    pool: &ThreadPool<'_>,
    job: &FillJob<'_>,
    phase: fn(Progress) -> Phase,
    progress: Progress,
) -> Result<(), Error> {
    let done = pool.run(&phase(progress.clone()));
    progress.finish();
    job.interrupt.check()?;
    done
}

/// Has the code that is measured read from disk before memory is, with a small device.
fn warm_up(settings: Config) -> Result<(), Error> {
    let (disksize, backing) = (16 * PAGE as u64, None);
    let small = Config { disksize, streams: Some(1), backing, ..settings };
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
    settings: &Config,
    plan: &Plan,
    skipped: &SkippedFiles,
    threads: usize,
    filled: Filled,
) -> Outcome {
    let Filled { before, after, stat, mem_total, classes, shown, full, cold, fault, totals } =
        filled;
    let sum = |of: fn(&Totals) -> u64| totals.iter().map(of).sum::<u64>();
    let codec_size = sum(|thread| thread.codec_bytes);
    let mismatches = sum(|thread| thread.mismatches);
    let over_codec = |used: u64| quotient(used as f64, codec_size as f64).map(|part| part - 1.0);
    let report = Report {
        algorithm: settings.algorithm.name(),
        level: settings.params.level.unwrap_or_else(|| settings.algorithm.default_level()),
        threads,
        block_size: settings.block,
        geometry: settings.geometry.into(),
        compaction: settings.compaction.into(),
        files: plan.files(),
        pages: sum(|thread| thread.pages_stored),
        pages_planned: plan.pages().into(),
        pages_compared: sum(|thread| thread.pages_compared),
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
        rates: rates(&totals),
        mismatches,
        skipped_files: skipped.count(SkipReason::Unreadable),
        changed_files: skipped.count(SkipReason::Changed),
        mm_stat: stat.to_string(),
        cold,
        classes,
        shown,
    };
    let mismatch = totals.iter().find_map(|thread| thread.mismatch);
    let failure = match (full, mismatch) {
        (Some((source, limit)), _) => Some(out_of_memory(&report, source, limit)),
        (None, Some(file)) => {
            Some(Error::Mismatch { pages: mismatches, first: escaped(&plan.path(file)) })
        }
        (None, None) => fault,
    };
    Outcome { report, warnings: skipped.lines(), failure }
}

fn rates(totals: &[Totals]) -> Rates {
    Rates {
        write_mb_s: mb_s(totals, |thread| thread.all.write),
        read_mb_s: mb_s(totals, |thread| thread.all.read),
        codec_compress_mb_s: mb_s(totals, |thread| thread.all.compress),
        codec_decompress_mb_s: mb_s(totals, |thread| thread.all.decompress),
        write_over_codec: quotient(
            mb_s(totals, |thread| thread.alike.write),
            mb_s(totals, |thread| thread.alike.compress),
        ),
        read_over_codec: quotient(
            mb_s(totals, |thread| thread.alike.read),
            mb_s(totals, |thread| thread.alike.decompress),
        ),
    }
}

fn out_of_memory(report: &Report, source: zsmalloc::Error, total_limit: Option<u64>) -> Error {
    let Report { pages, pages_planned: planned, mismatches, .. } = *report;
    let stored = Stored { pages, planned, mismatches };
    if let Some(Ok(limit)) = total_limit.map(i64::try_from) {
        return Error::TotalLimit { limit: human(limit), stored };
    }
    match i64::try_from(report.mem_limit) {
        Ok(limit @ 1..) if source.is_limit() => Error::Limit { limit: human(limit), stored },
        _ => Error::OutOfMemory { stored, source },
    }
}
