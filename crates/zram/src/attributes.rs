//! Every attribute, in one table: whoever lets others read and write them gets them from here.

mod cold;
mod keywords;
mod numbers;
mod params;
mod settings;
mod stats;

use crate::{Access, Error, Recompressed, WrittenBack, Zram};
use std::fmt::Write;

/// An attribute of a device, as a file of the kernel's sysfs is.
#[derive(Clone, Copy, Debug)]
pub struct Attribute {
    /// What it is called, the kernel's name if it is one of the kernel's.
    pub name: &'static str,
    /// What it is, in a line.
    pub summary: &'static str,
    show: Option<Show>,
    store: Option<Store>,
}

type Show = fn(&Zram, &mut dyn Write) -> Result<(), Error>;
type Store = fn(&Zram, &str) -> Result<(), Error>;

impl Attribute {
    const fn new(
        name: &'static str,
        summary: &'static str,
        show: Option<Show>,
        store: Option<Store>,
    ) -> Self {
        Attribute { name, summary, show, store }
    }

    /// What can be done with it.
    pub fn access(&self) -> Access {
        match (self.show, self.store) {
            (Some(_), Some(_)) => Access::ReadWrite,
            (Some(_), None) => Access::Read,
            _ => Access::Write,
        }
    }
}

/// All attributes: the kernel's, in the order of its documentation, then those it has not got.
#[rustfmt::skip]
const ATTRIBUTES: &[Attribute] = &[
    Attribute::new("disksize", "bytes of the device; setting it makes the device", Some(stats::disksize), Some(settings::disksize)),
    Attribute::new("initstate", "1 if the device is made", Some(stats::initstate), None),
    Attribute::new("reset", "1 frees everything and restores the default settings", None, Some(settings::reset)),
    Attribute::new("block_size", "bytes compressed as one where they are written as one: 4K to 64K", Some(stats::block_size), Some(settings::block_size)),
    Attribute::new("block_stat", "per block size: blocks written, read, both in part, split, rewritten; dead slots", Some(stats::block_stat), None),
    Attribute::new("comp_algorithm", "the algorithms, the chosen one in brackets", Some(stats::comp_algorithm), Some(settings::comp_algorithm)),
    Attribute::new("algorithm_params", "its parameters: [algo=NAME] [priority=N] [level=N] [dict=PATH]", None, Some(settings::algorithm_params)),
    Attribute::new("recomp_algorithm", "what recompress uses: algo=NAME [priority=N], N from 1 to 3", Some(cold::show_recomp_algorithm), Some(cold::recomp_algorithm)),
    Attribute::new("recompress", "compresses slots again: [type=KIND] [threshold=N] [algo=NAME] [priority=N] [max_pages=N]", None, Some(|zram, text| cold::recompress(zram, text)?.damaged.to_result())),
    Attribute::new("backing_dev", "the file or block device that cold data are written back to", Some(cold::show_backing_dev), Some(cold::backing_dev)),
    Attribute::new("writeback", "writes slots back: idle, huge, huge_idle, incompressible, page_index=N, page_indexes=A-B", None, Some(|zram, text| cold::writeback(zram, text)?.damaged.to_result())),
    Attribute::new("cancel_job", "1 ends the job that is under way: save, restore, recompress or writeback", None, Some(cold::cancel_job)),
    Attribute::new("writeback_limit", "blocks of 4 KiB that may still be written back", Some(cold::show_writeback_limit), Some(cold::writeback_limit)),
    Attribute::new("writeback_limit_enable", "1 enforces writeback_limit", Some(cold::show_writeback_limit_enable), Some(cold::writeback_limit_enable)),
    Attribute::new("writeback_batch_size", "writes of 1 MiB that share one sync", Some(cold::show_writeback_batch_size), Some(cold::writeback_batch_size)),
    Attribute::new("compressed_writeback", "always 1: objects are written back compressed, and packed", Some(cold::show_compressed_writeback), Some(cold::compressed_writeback)),
    Attribute::new("bd_stat", "blocks of 4 KiB in the backing store, read, written; reads and writes that failed", Some(cold::show_bd_stat), None),
    Attribute::new("mem_limit", "limit of the pool's pages in bytes, 0 for none", None, Some(settings::mem_limit)),
    Attribute::new("mem_used_max", "0 resets the peak in mm_stat to what is used now", None, Some(settings::mem_used_max)),
    Attribute::new("compact", "any value moves objects together, so that pages become free", None, Some(settings::compact)),
    Attribute::new("idle", "marks slots idle: all, or those not accessed for more than this many seconds", None, Some(settings::idle)),
    Attribute::new("mm_stat", "bytes stored, compressed and used; limit, peak; slots by kind", Some(stats::mm_stat), None),
    Attribute::new("io_stat", "failed reads and writes, 0, slots discarded", Some(stats::io_stat), None),
    Attribute::new("debug_stat", "version of the format, 0, discards missed", Some(stats::debug_stat), None),
    Attribute::new("block_state", "a line for each slot that holds something: access time and flags", Some(stats::block_state), None),
    Attribute::new("total_limit", "limit of all memory in bytes, 0 for none", Some(stats::total_limit), Some(settings::total_limit)),
    Attribute::new("mem_total", "bytes of all memory: pool, slots, streams, counters", Some(stats::mem_total), None),
    Attribute::new("track_access", "1 keeps the access time of each slot, in 4 bytes", Some(stats::track_access), Some(settings::track_access)),
    Attribute::new("checksums", "1 keeps a checksum of each object, in 4 bytes, and checks it at each read", Some(stats::checksums), Some(settings::checksums)),
    Attribute::new("geometry", "size classes: native, or kernel [chain=N] [rule=NAME] [merge=0|1]", Some(stats::geometry), Some(settings::geometry)),
    Attribute::new("compaction", "when objects are moved together: auto, manual or off", Some(stats::compaction), Some(settings::compaction)),
    Attribute::new("compaction_stat", "objects and bytes moved, pages freed, microseconds, plans", Some(stats::compaction_stat), None),
    Attribute::new("classes", "the size classes and what they hold", Some(stats::classes), None),
    Attribute::new("fork", "what a child process has: copy, or leave (the pool's pages stay with the parent)", Some(stats::fork), Some(settings::fork)),
    Attribute::new("save", "saves the device to this file, which is replaced when the new one is complete", None, Some(cold::save)),
    Attribute::new("restore", "restores the device, which must be empty, from this saved file", None, Some(cold::restore)),
    Attribute::new("dump", "1 includes the pool's pages in core dumps", Some(stats::dump), Some(settings::dump)),
];

/// All attributes there are.
pub fn attributes() -> &'static [Attribute] {
    ATTRIBUTES
}

/// A text that may be long, and is refused memory without harm.
#[derive(Default)]
struct FallibleText {
    text: String,
    /// Bytes that it could not have.
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

impl Zram {
    /// What an attribute reads as: lines that end with a newline, as the kernel's.
    ///
    /// # Errors
    /// [`Error::NoAttribute`], [`Error::Access`], [`Error::Uninitialised`]; [`Error::NoBuffer`].
    pub fn show(&self, name: &str) -> Result<String, Error> {
        let mut text = FallibleText::default();
        match self.show_to(name, &mut text) {
            Err(Error::Output) if text.refused > 0 => Err(Error::NoBuffer { bytes: text.refused }),
            shown => shown.map(|()| text.text),
        }
    }

    /// The same, written as it is made: `block_state` can be long.
    ///
    /// # Errors
    /// As [`show`](Self::show), and [`Error::Output`].
    pub fn show_to(&self, name: &str, out: &mut dyn Write) -> Result<(), Error> {
        let attribute = by_name(name)?;
        let denied = Error::Access { name: attribute.name, access: attribute.access() };
        attribute.show.ok_or(denied)?(self, out)
    }

    /// Writes an attribute. One newline at the end of `text` is left out, as the kernel does.
    ///
    /// # Errors
    /// [`Error::NoAttribute`], [`Error::Access`]; else the one of the attribute, with the kernel's
    /// errno, and nothing is changed.
    pub fn store(&self, name: &str, text: &str) -> Result<(), Error> {
        let attribute = by_name(name)?;
        let denied = Error::Access { name: attribute.name, access: attribute.access() };
        attribute.store.ok_or(denied)?(self, text.strip_suffix('\n').unwrap_or(text))
    }

    /// Writes the attribute `recompress`; what came of it.
    ///
    /// # Errors
    /// As [`Device::recompress`](crate::Device::recompress), and those of the attribute.
    pub fn recompress(&self, words: &str) -> Result<Recompressed, Error> {
        cold::recompress(self, words)
    }

    /// Writes the attribute `writeback`; what came of it.
    ///
    /// # Errors
    /// As [`Device::write_back`](crate::Device::write_back), and those of the attribute.
    pub fn write_back(&self, words: &str) -> Result<WrittenBack, Error> {
        cold::writeback(self, words)
    }
}
