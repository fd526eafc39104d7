//! Attributes of cold data: which algorithms they may be compressed with again, and what is to be
//! done with them.

use super::keywords::{bracketed, parse_keyword};
use super::numbers::{Base, unsigned};
use super::settings::bad;
use crate::algorithms::{Algorithm, SECONDARY_MAX};
use crate::try_vec::with_room;
use crate::zram::Instance;
use crate::{
    BackingFile, BadValue, BdStat, Damage, Error, Recompress, Recompressed, SLOT_BYTES, Selection,
    Which, WrittenBack, Zram,
};
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;

/// What is chosen, in the kernel's words.
pub(super) const WHICH: [(&str, Which); 4] = [
    ("idle", Which::Idle),
    ("huge", Which::Huge),
    ("huge_idle", Which::HugeIdle),
    ("incompressible", Which::Incompressible),
];

/// The words of a line, each a key and its value.
pub(super) fn key_values<'t>(
    name: &'static str,
    text: &'t str,
    expected: &str,
) -> Result<Vec<(&'t str, &'t str)>, Error> {
    let pair = |word: &'t str| word.split_once('=').filter(|(_, value)| !value.is_empty());
    let mut pairs = with_room(text.split_whitespace().count())?;
    for word in text.split_whitespace() {
        pairs.push(pair(word).ok_or_else(|| bad(name, text, BadValue::Invalid, expected))?);
    }
    Ok(pairs)
}

/// A priority of what is there for cold data.
pub(super) fn priority(name: &'static str, text: &str, value: &str) -> Result<usize, Error> {
    let priority = unsigned::<usize>(value, Base::Ten).unwrap_or(0);
    match priority {
        1..=SECONDARY_MAX => Ok(priority),
        _ => Err(bad(name, text, BadValue::Invalid, "expected a priority of 1 to 3")),
    }
}

pub(super) fn show_recomp_algorithm(zram: &Zram, out: &mut dyn Write) -> Result<(), Error> {
    let settings = zram.settings();
    for (nth, algorithm) in settings.recompression.iter().enumerate() {
        let Some(Algorithm { codec, .. }) = algorithm else { continue };
        let names = zcomp::codecs().iter().map(|codec| codec.name());
        written(writeln!(out, "#{}: {}", nth + 1, bracketed(names, codec.name())))?;
    }
    Ok(())
}

pub(super) fn recomp_algorithm(zram: &Zram, text: &str) -> Result<(), Error> {
    let name = "recomp_algorithm";
    let (mut codec, mut at) = (None, 1);
    for (key, value) in key_values(name, text, "expected algo=NAME [priority=1]")? {
        match key {
            "algo" => {
                let found = zcomp::by_name(value)
                    .map_err(|error| bad(name, text, BadValue::Invalid, &error.to_string()))?;
                codec = Some(found);
            }
            "priority" => at = priority(name, text, value)?,
            _ => {}
        }
    }
    let codec = codec.ok_or_else(|| {
        bad(name, text, BadValue::Invalid, "no algorithm is named; expected algo=NAME [priority=1]")
    })?;
    zram.configure(name, |settings| {
        settings.recompression[at - 1] = Some(Algorithm::new(codec));
        Ok(())
    })
}

pub(super) fn recompress(zram: &Zram, text: &str) -> Result<Recompressed, Error> {
    let name = "recompress";
    let expected = "expected type=, threshold=, algo=, priority= or max_pages=";
    let (mut how, mut algorithm, mut at) = (Recompress::default(), None, None);
    let invalid = |reason: &str| bad(name, text, BadValue::Invalid, reason);
    for (key, value) in key_values(name, text, expected)? {
        let number =
            || unsigned::<u64>(value, Base::Any).map_err(|why| bad(name, text, why, expected));
        match key {
            "type" => {
                how.selection.which =
                    parse_keyword(&WHICH[..3], value).map_err(|why| invalid(&why))?;
            }
            "threshold" => how.threshold = Some(number()? as usize),
            "max_pages" => how.max_pages = Some(number()?),
            "algo" => algorithm = Some(value),
            "priority" => at = Some(priority(name, text, value)?),
            _ => {}
        }
    }
    let instance = zram.instance().ok_or(Error::Uninitialised { name })?;
    let settings = zram.settings();
    let named = |nth: &usize| {
        settings.algorithm_of(*nth).map(|algorithm| algorithm.codec.name()) == algorithm
    };
    how.priority = match (algorithm, at) {
        (None, at) => at.unwrap_or(1),
        (Some(_), Some(at)) if named(&at) => at,
        (Some(_), None) => (1..=SECONDARY_MAX).find(named).ok_or_else(|| {
            invalid(
                "recomp_algorithm does not have this algorithm; read recomp_algorithm for those it \
                 has",
            )
        })?,
        (Some(_), Some(_)) => return Err(invalid("another algorithm has that priority")),
    };
    instance.device.recompress(&how)
}

/// The device, and the path that a line is.
fn with_path(
    zram: &Zram,
    name: &'static str,
    text: &str,
) -> Result<(Arc<Instance>, PathBuf), Error> {
    let instance = zram.instance().ok_or(Error::Uninitialised { name })?;
    if text.is_empty() {
        return Err(bad(name, text, BadValue::Invalid, "expected the path of a file"));
    }
    Ok((instance, PathBuf::from(text)))
}

pub(super) fn save(zram: &Zram, text: &str) -> Result<(), Error> {
    let (instance, path) = with_path(zram, "save", text)?;
    let saved = instance.device.save(&path)?;
    saved.in_part(&path).map_or(Ok(()), Err)
}

pub(super) fn restore(zram: &Zram, text: &str) -> Result<(), Error> {
    let (instance, path) = with_path(zram, "restore", text)?;
    instance.device.restore(&path, Damage::Refuse).map(drop)
}

pub(super) fn cancel_job(zram: &Zram, text: &str) -> Result<(), Error> {
    let name = "cancel_job";
    let instance = zram.instance().ok_or(Error::Uninitialised { name })?;
    match text {
        "1" if instance.device.cancel_job() => Ok(()),
        "1" => Err(Error::NoJob),
        _ => Err(bad(name, text, BadValue::Invalid, "expected 1")),
    }
}

pub(super) fn show_backing_dev(zram: &Zram, out: &mut dyn Write) -> Result<(), Error> {
    let name = zram.settings().backing.map_or("none".to_owned(), |backing| backing.name());
    written(writeln!(out, "{name}"))
}

pub(super) fn backing_dev(zram: &Zram, text: &str) -> Result<(), Error> {
    let name = "backing_dev";
    // Not opened for nothing.
    zram.configure(name, |_| Ok(()))?;
    let path = PathBuf::from(text);
    let backing = BackingFile::open(&path).map_err(|error| Error::path("open", &path, &error))?;
    zram.configure(name, |settings| {
        settings.backing = Some(Arc::new(backing));
        Ok(())
    })
}

pub(super) fn show_bd_stat(zram: &Zram, out: &mut dyn Write) -> Result<(), Error> {
    let stat = zram.instance().map_or(BdStat::default(), |instance| instance.device.bd_stat());
    written(writeln!(out, "{stat}"))
}

pub(super) fn show_writeback_limit(zram: &Zram, out: &mut dyn Write) -> Result<(), Error> {
    written(writeln!(out, "{}", zram.settings().writeback.left()))
}

pub(super) fn writeback_limit(zram: &Zram, text: &str) -> Result<(), Error> {
    let (name, reason) = ("writeback_limit", "expected a number of blocks of 4 KiB");
    let left = unsigned(text, Base::Any).map_err(|why| bad(name, text, why, reason))?;
    zram.settings().writeback.set_left(left);
    Ok(())
}

pub(super) fn show_writeback_limit_enable(zram: &Zram, out: &mut dyn Write) -> Result<(), Error> {
    written(writeln!(out, "{}", u8::from(zram.settings().writeback.is_enabled())))
}

pub(super) fn writeback_limit_enable(zram: &Zram, text: &str) -> Result<(), Error> {
    let (name, reason) = ("writeback_limit_enable", "expected 0, or another number to enable it");
    let value = unsigned::<u64>(text, Base::Any).map_err(|why| bad(name, text, why, reason))?;
    zram.settings().writeback.enable(value != 0);
    Ok(())
}

pub(super) fn show_writeback_batch_size(zram: &Zram, out: &mut dyn Write) -> Result<(), Error> {
    written(writeln!(out, "{}", zram.settings().writeback.batch()))
}

pub(super) fn writeback_batch_size(zram: &Zram, text: &str) -> Result<(), Error> {
    let (name, reason) =
        ("writeback_batch_size", "expected a number of writes of 1 MiB, at least 1");
    match unsigned::<u32>(text, Base::Any) {
        Ok(0) => Err(bad(name, text, BadValue::Invalid, reason)),
        Ok(writes) => {
            zram.settings().writeback.set_batch(writes);
            Ok(())
        }
        Err(why) => Err(bad(name, text, why, reason)),
    }
}

pub(super) fn writeback(zram: &Zram, text: &str) -> Result<WrittenBack, Error> {
    let name = "writeback";
    let expected =
        "expected idle, huge, huge_idle, incompressible, page_index=N or page_indexes=A-B";
    let instance = zram.instance().ok_or(Error::Uninitialised { name })?;
    let slots = instance.device.disksize() / SLOT_BYTES as u64;
    let (mut pages, mut kind) = (Selection::default(), None);
    pages.slots = with_room(text.split_whitespace().count())?;
    for word in text.split_whitespace() {
        let (key, value) = word.split_once('=').unwrap_or(("type", word));
        let index = |digits: &str| {
            let index = unsigned::<u64>(digits, Base::Any);
            index.map_err(|why| bad(name, text, why, expected)).and_then(|index| {
                let reason = format!("the device has {slots} pages");
                let out_of_range = || bad(name, text, BadValue::Range, &reason);
                Some(index).filter(|&index| index < slots).ok_or_else(out_of_range)
            })
        };
        match key {
            "type" => {
                let which = parse_keyword(&WHICH, value);
                kind = Some(which.map_err(|_| bad(name, text, BadValue::Invalid, expected))?);
                break;
            }
            "page_index" => pages.slots.push(index(value)?..=index(value)?),
            "page_indexes" => {
                let (first, last) = value
                    .split_once('-')
                    .ok_or_else(|| bad(name, text, BadValue::Invalid, expected))?;
                let (first, last) = (index(first)?, index(last)?);
                if first > last {
                    return Err(bad(
                        name,
                        text,
                        BadValue::Invalid,
                        "the first page comes after the last",
                    ));
                }
                pages.slots.push(first..=last);
            }
            _ => return Err(bad(name, text, BadValue::Invalid, expected)),
        }
    }
    if pages.slots.is_empty() && kind.is_none() {
        return Err(bad(name, text, BadValue::Invalid, expected));
    }
    let mut done = WrittenBack::default();
    if !pages.slots.is_empty() {
        done = instance.device.write_back(&pages)?;
    }
    if let Some(kind) = kind {
        done = done + instance.device.write_back(&Selection::of(kind))?;
    }
    Ok(done)
}

/// Objects are written back as they lie, in less than a page each; there is no other way.
pub(super) fn compressed_writeback(_zram: &Zram, text: &str) -> Result<(), Error> {
    let name = "compressed_writeback";
    let reason = "expected 1: objects are written back compressed, and packed";
    match parse_keyword(&super::keywords::SWITCH, text) {
        Ok(true) => Ok(()),
        _ => Err(bad(name, text, BadValue::Invalid, reason)),
    }
}

pub(super) fn show_compressed_writeback(_zram: &Zram, out: &mut dyn Write) -> Result<(), Error> {
    written(writeln!(out, "1"))
}

fn written(result: std::fmt::Result) -> Result<(), Error> {
    result.map_err(|std::fmt::Error| Error::Output)
}
