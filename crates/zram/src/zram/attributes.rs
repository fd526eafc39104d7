//! The table of all attributes, shared by all front ends.

mod cold;
mod keywords;
mod params;
mod settings;
mod stats;
mod value;

use crate::{Access, Config, DebugStat, Device, Error, Recompressed, WrittenBack, Zram};
use Kind::{Command, Flag, OfDevice, Setting, Stat};
use keywords::{COMPACTION, FORK, SWITCH, geometry_line, show_keyword, store_keyword};
use settings::instance;
use stats::of_device;
use std::fmt::{self, Display, Write};
use value::{Base, Value};

/// An attribute of a device, like a file in the kernel's sysfs.
#[derive(Clone, Copy, Debug)]
pub struct Attribute {
    /// The attribute's name, which is the kernel's name if the kernel has the attribute.
    pub name: &'static str,
    /// A description of one line.
    pub summary: &'static str,
    kind: Kind,
}

type Show = fn(&Zram, &mut dyn Write) -> fmt::Result;
type Store = fn(&Zram, Value<'_>) -> Result<(), Error>;

/// The functions that read and write an attribute.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// A setting that is true or false.
    Flag(fn(&mut Config) -> &mut bool),
    /// A setting of another type.
    Setting(Show, Store),
    /// An attribute that is only read.
    Stat(Show),
    /// An attribute that is only read, and needs a device.
    OfDevice(fn(&Device, &mut dyn Write) -> fmt::Result),
    /// An attribute that is only written.
    Command(Store),
}

impl Attribute {
    /// Returns whether the attribute can be read, written or both.
    pub fn access(&self) -> Access {
        match self.kind {
            Flag(_) | Setting(..) => Access::ReadWrite,
            Stat(_) | OfDevice(_) => Access::Read,
            Command(_) => Access::Write,
        }
    }
}

const fn row(name: &'static str, kind: Kind, summary: &'static str) -> Attribute {
    Attribute { name, summary, kind }
}

fn each(lines: impl IntoIterator<Item: Display>, out: &mut dyn Write) -> fmt::Result {
    lines.into_iter().try_for_each(|line| writeln!(out, "{line}"))
}

/// All attributes: first the attributes of the kernel in the order of the kernel's documentation,
/// then the attributes that only this library has.
#[rustfmt::skip]
const ATTRIBUTES: &[Attribute] = &[
    row("disksize",
        Setting(|zram, out| writeln!(out, "{}", zram.settings().disksize), settings::disksize),
        "bytes of the device; setting it makes the device"),
    row("initstate", Stat(|zram, out| writeln!(out, "{}", u8::from(zram.instance().is_some()))),
        "1 if the device is made"),
    row("reset", Command(settings::reset),
        "1 frees everything; all settings but writeback_* become the default ones"),
    row("block_size",
        Setting(|zram, out| writeln!(out, "{}", zram.settings().block), settings::block_size),
        "bytes compressed as one where they are written as one: 4K to 64K"),
    row("block_stat", OfDevice(|device, out| each(device.order_stats(), out)),
        "per block size: blocks written, read, both in part, split, rewritten; dead slots"),
    row("comp_algorithm", Setting(stats::comp_algorithm, settings::comp_algorithm),
        "the algorithms, the chosen one in brackets"),
    row("algorithm_params", Command(settings::algorithm_params),
        "its parameters: [algo=NAME] [priority=N] [level=N] [dict=PATH]; ignores other keys"),
    row("recomp_algorithm", Setting(stats::recomp_algorithm, cold::recomp_algorithm),
        "what recompress uses: algo=NAME [priority=N], N from 1 to 3"),
    row("recompress", Command(|zram, value| cold::recompress(zram, value)?.damaged.to_result()),
        "compresses slots again: [type=KIND] [threshold=N] [algo=NAME] [priority=N] [max_pages=N]"),
    row("backing_dev", Setting(stats::backing_dev, cold::backing_dev),
        "the file or block device that cold data are written back to; only reset removes it"),
    row("writeback", Command(|zram, value| cold::write_back(zram, value)?.damaged.to_result()),
        "writes slots back: idle, huge, huge_idle, incompressible, page_index=N, page_indexes=A-B"),
    row("cancel_job", Command(cold::cancel_job),
        "1 ends the job that is under way: save, restore, recompress or writeback"),
    row("writeback_limit",
        Setting(|zram, out| writeln!(out, "{}", zram.settings().writeback.left()),
            |zram, value| value.number(Base::Any, "expected a number of blocks of 4 KiB")
                .map(|left| zram.settings().writeback.set_left(left))),
        "blocks of 4 KiB that may still be written back"),
    row("writeback_limit_enable",
        Setting(|zram, out| writeln!(out, "{}", u8::from(zram.settings().writeback.is_enabled())),
            |zram, value| value.number(Base::Any, "expected 0, or another number to enable it")
                .map(|number: u64| zram.settings().writeback.enable(number != 0))),
        "1 enforces writeback_limit"),
    row("writeback_batch_size",
        Setting(|zram, out| writeln!(out, "{}", zram.settings().writeback.batch()),
            cold::writeback_batch_size),
        "writes of 1 MiB that share one sync"),
    row("compressed_writeback", Setting(|_, out| writeln!(out, "1"), cold::compressed_writeback),
        "always 1: objects are written back compressed, and packed"),
    row("bd_stat", Stat(|zram, out| writeln!(out, "{}", of_device(zram, Device::bd_stat))),
        "blocks of 4 KiB in the backing store, read, written; reads and writes that failed"),
    row("mem_limit", Command(|zram, value| value.limit().map(|bytes| zram.set_mem_limit(bytes))),
        "limit of the pool's pages in bytes, 0 for none"),
    row("mem_used_max", Command(settings::mem_used_max),
        "0 resets the peak in mm_stat to what is used now"),
    row("compact",
        Command(|zram, value| instance(zram, value.name).map(|of| _ = of.device.compact())),
        "any value moves objects together, so that pages become free"),
    row("idle", Command(settings::idle),
        "marks slots idle: all, or those not accessed for more than this many seconds"),
    row("mm_stat", Stat(stats::mm_stat),
        "bytes stored, compressed and used; limit, peak; slots by kind"),
    row("io_stat", Stat(|zram, out| writeln!(out, "{}", of_device(zram, Device::io_stat))),
        "failed reads and writes, 0, slots discarded"),
    row("debug_stat", Stat(|_, out| writeln!(out, "{DebugStat}")),
        "version of the format, 0, discards missed"),
    row("block_state", OfDevice(|device, out| each(device.block_state(), out)),
        "a line for each slot that holds something: access time and flags"),
    row("total_limit", Setting(stats::total_limit,
            |zram, value| value.limit().map(|bytes| zram.set_total_limit(bytes))),
        "limit of all memory in bytes, 0 for none"),
    row("mem_total", Stat(|zram, out| writeln!(out, "{}", of_device(zram, Device::mem_total))),
        "bytes of all memory: pool, slots, streams, counters"),
    row("track_access", Flag(|settings| &mut settings.track_access),
        "1 keeps the access time of each slot, in 4 bytes"),
    row("checksums", Flag(|settings| &mut settings.checksums),
        "1 keeps a checksum of each object, in 4 bytes, and checks it at each read"),
    row("geometry",
        Setting(|zram, out| writeln!(out, "{}", geometry_line(zram.settings().geometry)),
            settings::geometry),
        "size classes: native, or kernel [chain=N] [rule=NAME] [merge=0|1]"),
    row("compaction",
        Setting(|zram, out| show_keyword(out, &COMPACTION, zram.settings().compaction),
            |zram, value| store_keyword(zram, value, &COMPACTION, |of| &mut of.compaction)),
        "when objects are moved together: auto, manual or off"),
    row("compaction_stat", Stat(stats::compaction_stat),
        "objects and bytes moved, pages freed, microseconds, plans"),
    row("classes", OfDevice(|device, out| write!(out, "{}", device.classes())),
        "the size classes and what they hold"),
    row("fork",
        Setting(|zram, out| show_keyword(out, &FORK, zram.settings().fork),
            |zram, value| store_keyword(zram, value, &FORK, |of| &mut of.fork)),
        "what a child process has: copy, or leave (the pool's pages stay with the parent)"),
    row("save", Command(cold::save),
        "saves the device to this file, which is replaced when the new one is complete"),
    row("restore", Command(cold::restore),
        "restores the device, which must be empty, from this saved file"),
    row("dump", Flag(|settings| &mut settings.dump),
        "1 includes the pool's pages in core dumps"),
];

/// Returns all attributes.
pub fn attributes() -> &'static [Attribute] {
    ATTRIBUTES
}

/// A text of any length. A failed allocation of the text is an error, not a panic.
#[derive(Default)]
struct FallibleText {
    text: String,
    /// The size in bytes of the allocation that failed, or 0.
    refused: usize,
}

impl Write for FallibleText {
    fn write_str(&mut self, more: &str) -> std::fmt::Result {
        if self.text.try_reserve(more.len()).is_err() {
            self.refused = self.text.len() + more.len();
            return Err(std::fmt::Error);
        }
        self.text.push_str(more);
        Ok(())
    }
}

fn by_name(name: &str) -> Result<&'static Attribute, Error> {
    let found = ATTRIBUTES.iter().find(|attribute| attribute.name == name);
    found.ok_or_else(|| Error::NoAttribute { name: name.to_owned() })
}

/// Writes `words` to the attribute `recompress`, and returns the result of the job.
pub(super) fn recompress(zram: &Zram, words: &str) -> Result<Recompressed, Error> {
    cold::recompress(zram, Value { name: "recompress", text: words })
}

/// Writes `words` to the attribute `writeback`, and returns the result of the job.
pub(super) fn write_back(zram: &Zram, words: &str) -> Result<WrittenBack, Error> {
    cold::write_back(zram, Value { name: "writeback", text: words })
}

pub(super) fn show(zram: &Zram, name: &str) -> Result<String, Error> {
    let mut text = FallibleText::default();
    match show_to(zram, name, &mut text) {
        Err(Error::Output) if text.refused > 0 => Err(Error::NoBuffer { bytes: text.refused }),
        shown => shown.map(|()| text.text),
    }
}

pub(super) fn show_to(zram: &Zram, name: &str, out: &mut dyn Write) -> Result<(), Error> {
    let attribute = by_name(name)?;
    let name = attribute.name;
    let shown = match attribute.kind {
        Flag(field) => writeln!(out, "{}", u8::from(*field(&mut zram.settings()))),
        Setting(show, _) | Stat(show) => show(zram, out),
        OfDevice(show) => show(&instance(zram, name)?.device, out),
        Command(_) => return Err(Error::Access { name, access: attribute.access() }),
    };
    shown.map_err(|fmt::Error| Error::Output)
}

pub(super) fn store(zram: &Zram, name: &str, text: &str) -> Result<(), Error> {
    let attribute = by_name(name)?;
    let name = attribute.name;
    let value = Value { name, text: text.strip_suffix('\n').unwrap_or(text) };
    match attribute.kind {
        Flag(field) => store_keyword(zram, value, &SWITCH, field),
        Setting(_, store) | Command(store) => store(zram, value),
        Stat(_) | OfDevice(_) => Err(Error::Access { name, access: attribute.access() }),
    }
}
