//! The texts of attributes with more than one value.

use super::keywords::bracketed;
use crate::algorithms::Algorithm;
use crate::{CompactionStat, Device, MmStat, Zram};
use page::page_size;
use std::fmt::{self, Write};

/// Returns a statistic of the device, or the default value if no device exists.
pub(super) fn of_device<T: Default>(zram: &Zram, stat: impl FnOnce(&Device) -> T) -> T {
    zram.instance().map_or_else(T::default, |instance| stat(&instance.device))
}

pub(super) fn comp_algorithm(zram: &Zram, out: &mut dyn Write) -> fmt::Result {
    let names = zcomp::codecs().iter().map(|codec| codec.name());
    writeln!(out, "{}", bracketed(names, zram.settings().algorithm.name()))
}

pub(super) fn recomp_algorithm(zram: &Zram, out: &mut dyn Write) -> fmt::Result {
    for (nth, algorithm) in zram.settings().recompression.iter().enumerate() {
        let Some(Algorithm { codec, .. }) = algorithm else { continue };
        let names = zcomp::codecs().iter().map(|codec| codec.name());
        writeln!(out, "#{}: {}", nth + 1, bracketed(names, codec.name()))?;
    }
    Ok(())
}

pub(super) fn backing_dev(zram: &Zram, out: &mut dyn Write) -> fmt::Result {
    let name = zram.settings().backing.map_or("none".to_owned(), |backing| backing.name());
    writeln!(out, "{name}")
}

pub(super) fn mm_stat(zram: &Zram, out: &mut dyn Write) -> fmt::Result {
    let limit = zram.settings().mem_limit.unwrap_or(0);
    let mem_limit = limit.checked_next_multiple_of(page_size() as u64).unwrap_or(limit);
    let nothing = MmStat { mem_limit, ..MmStat::default() };
    let stat = zram.instance().map_or(nothing, |instance| instance.device.mm_stat());
    writeln!(out, "{stat}")
}

pub(super) fn total_limit(zram: &Zram, out: &mut dyn Write) -> fmt::Result {
    let asked = zram.settings().total_limit;
    // If tables are limited together with the pool's pages, the device derives its limit from the
    // limit of these pages.
    let limit = zram.instance().map_or(asked, |instance| instance.device.total_limit());
    writeln!(out, "{}", limit.unwrap_or(0))
}

pub(super) fn compaction_stat(zram: &Zram, out: &mut dyn Write) -> fmt::Result {
    let CompactionStat { moved_objects, moved_bytes, freed_pages, cpu, plans, .. } =
        of_device(zram, Device::compaction_stat);
    let micros = cpu.as_micros();
    writeln!(out, "{moved_objects:8} {moved_bytes:8} {freed_pages:8} {micros:8} {plans:8}")
}
