//! Functions that execute writes to the attributes for cold data, saved files and jobs.

use super::keywords::SWITCH;
use super::settings::{instance, set};
use super::value::{Base, Value, parse_keyword, unsigned};
use crate::algorithms::{Algorithm, SECONDARY_MAX};
use crate::try_vec::with_room;
use crate::zram::lifecycle::Instance;
use crate::{
    BackingFile, BadValue, Damage, Error, Recompress, Recompressed, SLOT_BYTES, SaveOptions,
    SaveTo, Selection, Which, WrittenBack, Zram,
};
use std::path::PathBuf;
use std::sync::Arc;

/// The words that select the items of a job, as in the kernel.
const WHICH: [(&str, Which); 4] = [
    ("idle", Which::Idle),
    ("huge", Which::Huge),
    ("huge_idle", Which::HugeIdle),
    ("incompressible", Which::Incompressible),
];

/// Returns the priority of an algorithm for recompression that `digits` denotes.
fn priority(value: Value<'_>, digits: &str) -> Result<usize, Error> {
    let priority = unsigned(digits, Base::Ten).ok();
    priority
        .filter(|priority| (1..=SECONDARY_MAX).contains(priority))
        .ok_or_else(|| value.invalid("expected a priority of 1 to 3"))
}

pub(super) fn recomp_algorithm(zram: &Zram, value: Value<'_>) -> Result<(), Error> {
    let (mut codec, mut at) = (None, 1);
    for (key, word) in value.key_values("expected algo=NAME [priority=1]")? {
        match key {
            "algo" => {
                let found = zcomp::by_name(word);
                codec = Some(found.map_err(|error| value.invalid(&error.to_string()))?);
            }
            "priority" => at = priority(value, word)?,
            _ => {}
        }
    }
    let codec = codec
        .ok_or_else(|| value.invalid("no algorithm is named; expected algo=NAME [priority=1]"))?;
    set(zram, value.name, |settings| settings.recompression[at - 1] = Some(Algorithm::new(codec)))
}

pub(super) fn recompress(zram: &Zram, value: Value<'_>) -> Result<Recompressed, Error> {
    let expected = "expected type=, threshold=, algo=, priority= or max_pages=";
    let (mut how, mut algorithm, mut at) = (Recompress::default(), None, None);
    for (key, word) in value.key_values(expected)? {
        let number = || unsigned::<u64>(word, Base::Any).map_err(|why| value.bad(why, expected));
        match key {
            "type" => {
                let which = parse_keyword(&WHICH[..3], word);
                how.selection.which = which.map_err(|reason| value.invalid(&reason))?;
            }
            "threshold" => how.threshold = Some(number()? as usize),
            "max_pages" => how.max_pages = Some(number()?),
            "algo" => algorithm = Some(word),
            "priority" => at = Some(priority(value, word)?),
            _ => {}
        }
    }
    let instance = instance(zram, value.name)?;
    let settings = zram.settings();
    let named = |nth: &usize| {
        settings.algorithm_of(*nth).map(|algorithm| algorithm.codec.name()) == algorithm
    };
    how.priority = match (algorithm, at) {
        (None, at) => at.unwrap_or(1),
        (Some(_), Some(at)) if named(&at) => at,
        (Some(_), None) => (1..=SECONDARY_MAX).find(named).ok_or_else(|| {
            value.invalid(
                "recomp_algorithm does not have this algorithm; read recomp_algorithm \
                for those it has",
            )
        })?,
        (Some(_), Some(_)) => {
            return Err(value.invalid("another algorithm has that priority"));
        }
    };
    instance.device.recompress(&how)
}

pub(super) fn write_back(zram: &Zram, value: Value<'_>) -> Result<WrittenBack, Error> {
    let expected =
        "expected idle, huge, huge_idle, incompressible, page_index=N or page_indexes=A-B";
    let instance = instance(zram, value.name)?;
    let slots = instance.device.disksize() / SLOT_BYTES as u64;
    let index = |digits: &str| {
        let index = unsigned::<u64>(digits, Base::Any).map_err(|why| value.bad(why, expected))?;
        let is_there = index < slots;
        let none = || value.bad(BadValue::Range, &format!("the last page is {}", slots - 1));
        is_there.then_some(index).ok_or_else(none)
    };
    let invalid = || value.invalid(expected);
    let (mut pages, mut kind) = (Selection::default(), None);
    pages.slots = with_room(value.text.split_whitespace().count())?;
    for word in value.text.split_whitespace() {
        let (key, word) = word.split_once('=').unwrap_or(("type", word));
        match key {
            "type" => {
                kind = Some(parse_keyword(&WHICH, word).map_err(|_| invalid())?);
                break;
            }
            "page_index" => pages.slots.push(index(word)?..=index(word)?),
            "page_indexes" => {
                let (first, last) = word.split_once('-').ok_or_else(invalid)?;
                let (first, last) = (index(first)?, index(last)?);
                if first > last {
                    return Err(value.invalid("the first page comes after the last"));
                }
                pages.slots.push(first..=last);
            }
            _ => return Err(invalid()),
        }
    }
    if pages.slots.is_empty() && kind.is_none() {
        return Err(invalid());
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

pub(super) fn backing_dev(zram: &Zram, value: Value<'_>) -> Result<(), Error> {
    // No file is opened if the setting can't be changed.
    set(zram, value.name, |_| {})?;
    if value.text.is_empty() {
        return Err(value.invalid("expected the path of a file or block device"));
    }
    let path = PathBuf::from(value.text);
    let backing = BackingFile::open(&path).map_err(|error| Error::path("open", &path, &error))?;
    set(zram, value.name, |settings| settings.backing = Some(Arc::new(backing)))
}

pub(super) fn writeback_batch_size(zram: &Zram, value: Value<'_>) -> Result<(), Error> {
    let expected = "expected a number of writes of 1 MiB, at least 1";
    match value.number(Base::Any, expected)? {
        0 => return Err(value.invalid(expected)),
        writes => zram.settings().writeback.set_batch(writes),
    }
    Ok(())
}

/// Accepts only 1, because objects are always written back compressed.
pub(super) fn compressed_writeback(_zram: &Zram, value: Value<'_>) -> Result<(), Error> {
    match value.keyword(&SWITCH) {
        Ok(true) => Ok(()),
        _ => Err(value.invalid("expected 1: objects are written back compressed, and packed")),
    }
}

/// Returns the device, and the value as a path.
fn with_path(zram: &Zram, value: Value<'_>) -> Result<(Arc<Instance>, PathBuf), Error> {
    let instance = instance(zram, value.name)?;
    match value.text {
        "" => Err(value.invalid("expected the path of a file")),
        path => Ok((instance, PathBuf::from(path))),
    }
}

pub(super) fn save(zram: &Zram, value: Value<'_>) -> Result<(), Error> {
    let (instance, path) = with_path(zram, value)?;
    let saved = instance.device.save(SaveTo::File(&path), &SaveOptions::default())?;
    saved.in_part(&path).map_or(Ok(()), Err)
}

pub(super) fn restore(zram: &Zram, value: Value<'_>) -> Result<(), Error> {
    let (instance, path) = with_path(zram, value)?;
    instance.device.restore(&path, Damage::Refuse).map(drop)
}

pub(super) fn cancel_job(zram: &Zram, value: Value<'_>) -> Result<(), Error> {
    let instance = instance(zram, value.name)?;
    match value.text {
        "1" if instance.device.cancel_job() => Ok(()),
        "1" => Err(Error::NoJob),
        _ => Err(value.invalid("expected 1")),
    }
}
