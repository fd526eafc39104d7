//! `uzram fill`: plans and stores the input, measures the memory, and reads the input back.
//!
//! ```text
//!   pages -> worker: a batch is read -> raw codec and device, timed -> totals
//!   totals + device's statistics + memory -> report: table or JSON
//! ```

mod args;
mod cold_options;
mod figures;
mod job;
mod page_checksums;
mod report;
mod request_codec;
mod table;
mod thread_pool;
mod totals;
mod try_slice;
mod worker;

use crate::commands::outcome::Outcome;
use crate::commands::policy::{
    BUFFERS_SHARE, FILLED_ENTRY_BYTES, THREAD_BYTES, THREADS_DEFAULT_MAX,
};
use crate::error::Error;
use crate::memory;
use crate::output;
use crate::progress::Progress;
use crate::text::{escaped, json};
use cold_options::ColdReport;
use figures::Filled;
use job::{FillJob, Phase};
use measure::Interrupt;
use measure::memory::ProcessMemory;
use measure::page::PAGE_SIZE;
use measure::pages::{self, FilePlan, Purpose, SkippedFiles, Wanted};
use page_checksums::CHECKSUM_BYTES;
use request_codec::Codecs;
use std::thread;
use thread_pool::ThreadPool;
use worker::{WORKER_BYTES, Worker};
use zram::{Config, Device, Zram};

pub(crate) use args::FillArgs;

/// Fails if the options are wrong, the user presses Ctrl-C, or anything except a full device
/// prevents the measurement.
pub(crate) fn run(args: &FillArgs, interrupt: &Interrupt) -> Result<Outcome, Error> {
    args.cold.save.as_deref().map_or(Ok(()), |path| output::check(path, &args.paths))?;
    let zram = device_to_be(args)?;
    let settings = zram.settings();
    settings.algorithm.check(&settings.params).map_err(Error::level)?;
    let codecs = Codecs::new(&settings)?;
    let skipped = SkippedFiles::default();
    let plan = pages::plan(&args.paths, args.input_pages(), Wanted::All, &skipped, interrupt)?;
    let room = memory::room();
    let bytes = beside_pages(&plan);
    if room.is_some_and(|room| room < bytes) {
        return Err(Error::no_room(bytes));
    }
    let job = FillJob::new(&plan, &skipped, interrupt)?;
    let threads = args.threads.map_or_else(|| default_threads(room, job.batches()), usize::from);
    zram.configure("streams", |settings| {
        settings.streams = Some(threads);
        Ok(())
    })?;
    if !args.set.iter().any(|set| set.name == "mem_limit") {
        zram.set_mem_limit(
            args.mem_limit.unwrap_or_default().bytes(|_| beside(&codecs, &plan, threads))?,
        );
    }
    let filled = thread::scope(|scope| {
        let workers = (0..threads).map(|_| Worker::new(&codecs)).collect::<Result<_, _>>()?;
        fill(ThreadPool::start(scope, workers, &job)?, &job, &zram, args)
    })?;
    let (report, failure) = figures::report(&settings, &plan, &skipped, threads, filled);
    let text = if args.json { json(&report) } else { table::render(&report) };
    Ok(Outcome { text, warnings: skipped.lines(), failure })
}

/// Returns the settings of the device. The device itself is created later.
fn device_to_be(args: &FillArgs) -> Result<Zram, Error> {
    let (zram, geometry) = (Zram::new(), args.geometry()?);
    zram.configure("settings", |settings| {
        settings.algorithm = args.algorithm;
        settings.params.level = args.level;
        settings.block = args.block;
        settings.geometry = geometry;
        settings.compaction = args.compaction;
        Ok(())
    })?;
    args.set.iter().try_for_each(|setting| setting.apply(&zram))?;
    Ok(zram)
}

fn default_threads(room: Option<u64>, batches: usize) -> usize {
    let processors = thread::available_parallelism().map_or(1, |count| count.get());
    let fitting = room.map_or(usize::MAX, |bytes| (bytes / BUFFERS_SHARE) as usize / WORKER_BYTES);
    processors.min(THREADS_DEFAULT_MAX).min(fitting).min(batches).max(1)
}

/// Returns the approximate bytes of memory besides the pool's pages: buffers, streams, slots and
/// checksums.
fn beside(codecs: &Codecs, plan: &FilePlan, threads: usize) -> u64 {
    let per_thread = WORKER_BYTES + 2 * codecs.stream_bytes() + THREAD_BYTES;
    (threads * per_thread) as u64 + beside_pages(plan)
}

/// Returns the bytes in [`beside`]'s result that grow with the input.
fn beside_pages(plan: &FilePlan) -> u64 {
    u64::from(plan.pages()) * (FILLED_ENTRY_BYTES + CHECKSUM_BYTES) as u64
}

fn fill(
    pool: ThreadPool<'_>,
    job: &FillJob<'_>,
    zram: &Zram,
    args: &FillArgs,
) -> Result<Filled, Error> {
    let bytes = u64::from(job.source.plan.pages()) * PAGE_SIZE as u64;
    warm_up(zram.settings())?;
    args.cold.prepare(zram, bytes)?;
    let mut cold = ColdReport::default();
    let before = ProcessMemory::now();
    zram.set_disksize(bytes.max(PAGE_SIZE as u64))?;
    let device = zram.open()?;
    let device = job.device.get_or_init(|| device);

    run_phase(&pool, job, &(Purpose::Store, Progress::new("storing", bytes)))?;
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
    let classes = args.classes.then(|| device.classes().to_string());
    let shown = args.show.iter().map(|&name| Ok((name, zram.show(name)?)));
    let shown = shown.collect::<Result<_, Error>>()?;

    run_phase(&pool, job, &(Purpose::Compare, Progress::new("comparing", bytes)))?;
    job.next_phase().map_or(Ok(()), Err)?;
    let totals = pool.finish()?;
    let saved = match (&full, args.cold.save.as_deref()) {
        (Some(_), Some(path)) => Err(Error::Failed(format!(
            "nothing is saved to '{}', because a part of the data is not stored",
            escaped(path)
        ))),
        _ => args.cold.save(device, job.interrupt, &mut cold),
    };
    job.interrupt.check()?;
    let fault = written_back.and(saved).err();
    Ok(Filled { before, after, stat, mem_total, classes, shown, full, cold, fault, totals })
}

fn run_phase(pool: &ThreadPool<'_>, job: &FillJob<'_>, phase: &Phase) -> Result<(), Error> {
    let done = pool.run(phase);
    job.interrupt.check()?;
    done
}

/// Uses a small device once. The kernel then loads the device's code before memory is measured.
fn warm_up(settings: Config) -> Result<(), Error> {
    let (disksize, backing) = (16 * PAGE_SIZE as u64, None);
    let small = Config { disksize, streams: Some(1), backing, ..settings };
    let device = Device::new(small)?;
    let mut page = [0; PAGE_SIZE];
    page[..12].copy_from_slice(b"some content");
    // A limit can refuse this write. The real device then reports the error.
    if device.write(0, &page).is_ok() {
        device.read(0, &mut page)?;
    }
    Ok(())
}
