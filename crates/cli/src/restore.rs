//! `uzram restore`: checks a saved file, reports its contents, and writes them to an image.

use crate::args::RestoreArgs;
use crate::commands::interrupt;
use crate::error::{Error, failed};
use crate::output::{self, OutputDevice};
use crate::policy::{IMAGE_PIECE, IMAGE_ZEROED};
use crate::progress::Progress;
use crate::text::{counted, escaped, human, json};
use measure::Interrupt;
use rustix::fs::{FallocateFlags, fallocate};
use serde::Serialize;
use std::fmt::Display;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use zram::{Config, Damage, Device, SLOT_BYTES, SavedHeader, room};

/// The result of a restore.
#[derive(Debug, Serialize)]
struct Report {
    file: String,
    disksize: u64,
    block: usize,
    pages: u64,
    compr_data_size: u64,
    mem_used_total: u64,
    /// The lost ranges of the device in bytes.
    lost: Vec<Range<u64>>,
}

pub(crate) fn run(args: &RestoreArgs) -> Result<(), Error> {
    let image = args.output.as_deref().map(|path| Image::new(path, &args.file)).transpose()?;
    let not_restored = |error, limit| not_restored(error, &args.file, args.damage(), limit);
    let header = SavedHeader::read(&args.file).map_err(|error| not_restored(error, None))?;
    if let Some(Image::Device(device)) = &image {
        device.check_holds(header.disksize)?;
    }
    let limit = args.mem_limit.unwrap_or_default().bytes(|_| 0)?;
    let config = Config { mem_limit: limit, limit_tables: true, ..header.config() };
    let failed = |error| not_restored(error, limit);
    let device = Device::new(config).map_err(failed)?;
    let restored = device.restore(&args.file, args.damage()).map_err(failed)?;
    if let Some(image) = image {
        image.write(&device, &interrupt()?)?;
    }
    let stat = device.mm_stat();
    let report = Report {
        file: escaped(&args.file),
        disksize: device.disksize(),
        block: device.block(),
        pages: restored.slots,
        compr_data_size: stat.compr_data_size,
        mem_used_total: stat.mem_used_total,
        lost: restored.lost,
    };
    let lost: u64 = report.lost.iter().map(|lost| lost.end - lost.start).sum();
    let failure = (lost > 0).then(|| {
        let file = &report.file;
        Error::Failed(format!(
            "{lost} bytes of '{file}' are lost, as listed, and read as zeros; restore an earlier \
             save if you need them"
        ))
    });
    crate::print(&if args.json { json(&report) } else { report.table() })?;
    failure.map_or(Ok(()), Err)
}

/// Returns the error for a file that was not restored, with a remedy. `limit` is the limit of the
/// pool's pages in bytes.
pub(crate) fn not_restored(
    error: zram::Error,
    file: &Path,
    damage: Damage,
    limit: Option<u64>,
) -> Error {
    const ROOM: &str = "raise --mem-limit, or free memory";
    let refused = |why: &dyn Display| Error::of_file(file, "can't be restored", why, ROOM);
    match (error, limit) {
        // `limit` also limits the device's tables. At that limit, requests for address space fail
        // with the same error as at the system's limit.
        (zram::Error::OutOfMemory { source, .. }, Some(limit))
            if source.is_limit() || source.is_refused() || room::left().is_none() =>
        {
            refused(&format_args!(
                "it needs more than the limit of {} for compressed pages, or more than a quarter \
                 of that for tables",
                human(limit)
            ))
        }
        (zram::Error::OutOfMemory { source, total_limit: None, .. }, _) => refused(&source),
        (zram::Error::Saved { offset, reason, .. }, _) if damage == Damage::Salvage => {
            Error::Failed(format!(
                "nothing of '{}' can be restored, even with --salvage: at offset {offset}: \
                 {reason}; restore an earlier save",
                escaped(file)
            ))
        }
        (error, _) => failed(error),
    }
}

impl Report {
    fn table(&self) -> String {
        let text = format!(
            "{}: {} of 4096 bytes on a device of {} in blocks of {}; {} compressed, {} of memory\n",
            self.file,
            counted(self.pages, "page"),
            human(self.disksize),
            human(self.block as u64),
            human(self.compr_data_size),
            human(self.mem_used_total),
        );
        text + &lost_lines(&self.lost)
    }
}

/// Returns a line for each lost range of the device, in bytes.
pub(crate) fn lost_lines(lost: &[Range<u64>]) -> String {
    let line = |Range { start, end }: &Range<u64>| {
        format!("lost: bytes {start} to {} ({})\n", end - 1, human(end - start))
    };
    lost.iter().map(line).collect()
}

/// The target of `--output`.
enum Image {
    /// A file, which is written completely or not at all, and the permissions of a new file.
    File(PathBuf, u32),
    /// A block device, written in place.
    Device(OutputDevice),
}

impl Image {
    /// Checks the target. Opens a block device exclusively, so that no other program can use the
    /// device.
    fn new(path: &Path, saved: &Path) -> Result<Self, Error> {
        let inputs = [saved.to_owned()];
        if let Some(device) = OutputDevice::open(path, &inputs)? {
            return Ok(Image::Device(device));
        }
        output::check(path, &inputs)?;
        // A new image gets the permissions of the saved file.
        let mode = fs::metadata(saved).map_or(0o666, |saved| saved.mode() & 0o777);
        Ok(Image::File(path.to_owned(), mode))
    }

    fn write(&self, device: &Device, interrupt: &Interrupt) -> Result<(), Error> {
        match self {
            Image::File(path, mode) => output::write(path, *mode, |file| {
                let (file, failed) = (file.file(), output::failed(path));
                // Slots of zeros are not written, so they become holes of the file.
                write_stored(file, device, interrupt, &failed, |block| {
                    block.iter().any(|&of| of != 0)
                })?;
                file.set_len(device.disksize()).map_err(failed)
            }),
            Image::Device(out) => {
                let (file, failed) = (&out.file, output::failed(&out.path));
                // The previous contents of the device are unknown.
                zero(file, device.disksize(), interrupt, &failed)?;
                write_stored(file, device, interrupt, &failed, |_| true)?;
                file.sync_all().map_err(failed)
            }
        }
    }
}

/// Writes each stored slot for whose data `wanted` returns true.
fn write_stored(
    file: &File,
    device: &Device,
    interrupt: &Interrupt,
    failed: impl Fn(io::Error) -> Error,
    wanted: impl Fn(&[u8]) -> bool,
) -> Result<(), Error> {
    let progress = Progress::new("writing", device.mm_stat().orig_data_size);
    let mut stored = device.block_state().map(|state| state.index).peekable();
    let mut piece = vec![0; IMAGE_PIECE];
    while let Some(first) = stored.next() {
        interrupt.check()?;
        let mut end = first + 1;
        while end - first < (IMAGE_PIECE / SLOT_BYTES) as u64 && stored.next_if_eq(&end).is_some() {
            end += 1;
        }
        let (at, len) = (first * SLOT_BYTES as u64, (end - first) as usize * SLOT_BYTES);
        let bytes = &mut piece[..len];
        device.read(at, bytes)?;
        for (nth, block) in bytes.chunks(SLOT_BYTES).enumerate().filter(|(_, block)| wanted(block))
        {
            file.write_all_at(block, at + (nth * SLOT_BYTES) as u64).map_err(&failed)?;
        }
        progress.advance(len as u64);
    }
    Ok(())
}

/// Zeroes the first `bytes` bytes of a block device, by `fallocate` if the device supports it.
fn zero(
    disk: &File,
    bytes: u64,
    interrupt: &Interrupt,
    failed: impl Fn(io::Error) -> Error,
) -> Result<(), Error> {
    let (progress, zeros) = (Progress::new("zeroing", bytes), vec![0; IMAGE_PIECE]);
    let mut at = 0;
    while at < bytes {
        interrupt.check()?;
        let len = (bytes - at).min(IMAGE_ZEROED);
        let flags = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
        if fallocate(disk, flags, at, len).is_err() {
            for start in (at..at + len).step_by(IMAGE_PIECE) {
                interrupt.check()?;
                let piece = &zeros[..(at + len - start).min(IMAGE_PIECE as u64) as usize];
                disk.write_all_at(piece, start).map_err(&failed)?;
            }
        }
        at += len;
        progress.advance(len);
    }
    Ok(())
}
