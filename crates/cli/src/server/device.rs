//! Creates the served device, and restores a saved device.

use crate::args::ServeArgs;
use crate::backing::backing_store;
use crate::error::Error;
use crate::log::log;
use crate::policy::{CONNECTION_BYTES, SERVED_ENTRY_BYTES};
use crate::restore::{lost_lines, not_restored};
use crate::text::{counted, escaped};
use zram::{Config, SavedHeader, Zram};

/// Creates the device, and restores the saved file if the arguments specify one.
pub(super) fn make(args: &ServeArgs) -> Result<Zram, Error> {
    let header = |path| {
        SavedHeader::read(path).map_err(|error| not_restored(error, path, args.damage(), None))
    };
    let saved = args.restored().map(header).transpose()?;
    let size = size(args, saved.as_ref())?;
    let settings = settings(args, saved.as_ref(), size)?;
    let zram = Zram::new();
    zram.configure("settings", |of_device| {
        *of_device = settings;
        Ok(())
    })?;
    args.set.iter().try_for_each(|setting| setting.apply(&zram))?;
    zram.set_disksize(size).map_err(not_of_size)?;
    if let Some(path) = args.restored() {
        let restored = zram.open()?.restore(path, args.damage());
        let settings = zram.settings();
        // If the arguments limit all memory, the error mentions the limit of all memory, not the
        // limit of pages.
        let limit = settings.mem_limit.filter(|_| settings.total_limit.is_none());
        let restored = restored.map_err(|error| not_restored(error, path, args.damage(), limit))?;
        lost_lines(&restored.lost)
            .lines()
            .for_each(|line| log!("{line}; this range reads as zeros"));
        log!("{} restored from '{}'", counted(restored.slots, "page"), escaped(path));
    }
    Ok(zram)
}

fn size(args: &ServeArgs, saved: Option<&SavedHeader>) -> Result<u64, Error> {
    let needed = saved.map_or(0, |saved| saved.disksize);
    match args.size {
        Some(size) if size < needed => Err(Error::Usage(format!(
            "--size: {size} bytes are too few: the saved disk has {needed}; give at least as many, \
             or leave out --size"
        ))),
        None if saved.is_none() => Err(Error::Usage(
            "--size: the file to restore does not exist yet, so the size of the disk is not known; \
             give --size SIZE"
                .to_owned(),
        )),
        size => Ok(size.unwrap_or(needed)),
    }
}

/// Returns the error for a disk size that is invalid, or too large for this machine.
fn not_of_size(error: zram::Error) -> Error {
    let message = format!("--size: {error}");
    match error {
        zram::Error::Disksize { .. } => Error::Usage(message),
        _ => Error::Failed(message),
    }
}

fn settings(args: &ServeArgs, saved: Option<&SavedHeader>, size: u64) -> Result<Config, Error> {
    let mut settings = saved.map(SavedHeader::config).unwrap_or_default();
    if let Some(algorithm) = args.algorithm {
        (settings.algorithm, settings.params) = (algorithm, Default::default());
    }
    if args.level.is_some() {
        settings.params.level = args.level;
    }
    settings.algorithm.check(&settings.params).map_err(Error::level)?;
    settings.block = args.block.unwrap_or(settings.block);
    let tables = (size / zram::SLOT_BYTES as u64).saturating_mul(SERVED_ENTRY_BYTES);
    let beside = |room: u64| tables.min(room / 4) + CONNECTION_BYTES.min(room / 8);
    settings.mem_limit = args.mem_limit.unwrap_or_default().bytes(beside)?;
    settings.limit_tables = true;
    if let Some(path) = &args.backing {
        // An invalid size is refused before a backing file is created.
        let of_size = Config { disksize: size, ..settings.clone() };
        of_size.check_size().map_err(not_of_size)?;
        settings.backing = Some(backing_store(path, size)?);
    }
    Ok(settings)
}
