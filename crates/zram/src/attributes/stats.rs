//! What attributes read as.

use super::keywords::{COMPACTION, FORK, bracketed, geometry_line};
use crate::zram::Instance;
use crate::{Compaction, Config, Error, Fork, IoStat, MmStat, Zram};
use page::page_size;
use std::fmt::{self, Display, Write};
use std::sync::Arc;

type Shown = Result<(), Error>;

fn line(out: &mut dyn Write, value: impl Display) -> Shown {
    written(writeln!(out, "{value}"))
}

fn written(result: fmt::Result) -> Shown {
    result.map_err(|fmt::Error| Error::Output)
}

/// The device, which the attribute is of.
fn instance(zram: &Zram, name: &'static str) -> Result<Arc<Instance>, Error> {
    zram.instance().ok_or(Error::Uninitialised { name })
}

pub(super) fn disksize(zram: &Zram, out: &mut dyn Write) -> Shown {
    line(out, zram.settings().disksize)
}

pub(super) fn initstate(zram: &Zram, out: &mut dyn Write) -> Shown {
    line(out, u8::from(zram.instance().is_some()))
}

pub(super) fn block_size(zram: &Zram, out: &mut dyn Write) -> Shown {
    line(out, zram.settings().block)
}

pub(super) fn block_stat(zram: &Zram, out: &mut dyn Write) -> Shown {
    let instance = instance(zram, "block_stat")?;
    instance.device.order_stats().into_iter().try_for_each(|stat| line(out, stat))
}

pub(super) fn comp_algorithm(zram: &Zram, out: &mut dyn Write) -> Shown {
    let names = zcomp::codecs().iter().map(|codec| codec.name());
    line(out, bracketed(names, zram.settings().algorithm.name()))
}

pub(super) fn mm_stat(zram: &Zram, out: &mut dyn Write) -> Shown {
    let limit = zram.settings().mem_limit.unwrap_or(0);
    let mem_limit = limit.checked_next_multiple_of(page_size() as u64).unwrap_or(limit);
    let nothing = MmStat { mem_limit, ..MmStat::default() };
    line(out, zram.instance().map_or(nothing, |instance| instance.device.mm_stat()))
}

pub(super) fn io_stat(zram: &Zram, out: &mut dyn Write) -> Shown {
    line(out, zram.instance().map_or(IoStat::default(), |instance| instance.device.io_stat()))
}

pub(super) fn debug_stat(_zram: &Zram, out: &mut dyn Write) -> Shown {
    line(out, crate::DebugStat)
}

pub(super) fn block_state(zram: &Zram, out: &mut dyn Write) -> Shown {
    let instance = instance(zram, "block_state")?;
    instance.device.block_state().try_for_each(|state| line(out, state))
}

pub(super) fn total_limit(zram: &Zram, out: &mut dyn Write) -> Shown {
    let asked = zram.settings().total_limit;
    // Of a device whose tables are limited with its pages, it follows that limit.
    let limit = zram.instance().map_or(asked, |instance| instance.device.total_limit());
    line(out, limit.unwrap_or(0))
}

pub(super) fn mem_total(zram: &Zram, out: &mut dyn Write) -> Shown {
    line(out, zram.instance().map_or(0, |instance| instance.device.mem_total()))
}

pub(super) fn track_access(zram: &Zram, out: &mut dyn Write) -> Shown {
    line(out, u8::from(zram.settings().track_access))
}

pub(super) fn checksums(zram: &Zram, out: &mut dyn Write) -> Shown {
    line(out, u8::from(zram.settings().checksums))
}

pub(super) fn geometry(zram: &Zram, out: &mut dyn Write) -> Shown {
    line(out, geometry_line(zram.settings().geometry))
}

/// The words of a choice, with the current one in brackets.
fn keywords<T: PartialEq>(
    zram: &Zram,
    out: &mut dyn Write,
    words: &[(&str, T)],
    of: fn(&Config) -> T,
) -> Shown {
    let current = of(&zram.settings());
    let current = words.iter().find(|(_, value)| *value == current).map_or("", |(word, _)| word);
    line(out, bracketed(words.iter().map(|(word, _)| *word), current))
}

pub(super) fn compaction(zram: &Zram, out: &mut dyn Write) -> Shown {
    keywords::<Compaction>(zram, out, &COMPACTION, |config| config.compaction)
}

pub(super) fn fork(zram: &Zram, out: &mut dyn Write) -> Shown {
    keywords::<Fork>(zram, out, &FORK, |config| config.fork)
}

pub(super) fn dump(zram: &Zram, out: &mut dyn Write) -> Shown {
    line(out, u8::from(zram.settings().dump))
}

pub(super) fn compaction_stat(zram: &Zram, out: &mut dyn Write) -> Shown {
    let instance = zram.instance();
    let stat = instance.map(|instance| instance.device.compaction_stat()).unwrap_or_default();
    written(writeln!(
        out,
        "{:8} {:8} {:8} {:8} {:8}",
        stat.moved_objects,
        stat.moved_bytes,
        stat.freed_pages,
        stat.cpu.as_micros(),
        stat.plans
    ))
}

pub(super) fn classes(zram: &Zram, out: &mut dyn Write) -> Shown {
    let instance = instance(zram, "classes")?;
    written(write!(out, "{}", instance.device.classes()))
}
