//! JSON documents in a `Cache` of the package: the number of documents that it holds in the memory
//! that they fill as bytes in a dict, and the speed of gets. The gets are compared with a dict of
//! zlib's output and diskcache.

use serde_json::json;

use super::asked::Asked;
use super::place::Place;
use super::{NAME, Scale, median, over};
use crate::Error;
use crate::experiments::Request;
use crate::report::{Bound, Figure, Report};
use crate::size::{MIB, mebibytes};

const KEPT_MIN: f64 = 3.0;
/// For each `OF_GETS` bytes of the limit, one document is used for gets.
const OF_GETS: u64 = 4096;
/// A turn has one get for each `GETS_SHARE` documents.
const GETS_SHARE: u64 = 4;
/// A kind of documents.
struct Kind {
    name: &'static str,
    /// The cache's limit is the requested one divided by `share`, because some documents take long
    /// to generate.
    share: u64,
    /// The size of all documents in tenths of the cache's limit, large enough to fill it. If there
    /// are fewer documents, the limit is lowered.
    tenths: u64,
}

const KINDS: [Kind; 3] = [
    Kind { name: "sources", share: 1, tenths: 38 },
    Kind { name: "packages", share: 1, tenths: 38 },
    Kind { name: "syntax", share: 32, tenths: 60 },
];
/// The sides of the gets: the argument of the script, and the name in figures.
const SIDES: [(&str, &str); 3] = [
    ("cache", "uzram.Cache"),
    ("zlib", "a dict of what zlib makes of them"),
    ("diskcache", "diskcache"),
];
const OURS: usize = 0;

/// Documents in a file, and the limit of the cache that holds them.
struct Documents {
    name: &'static str,
    file: String,
    count: u64,
    limit: u64,
}

/// The result of filling a process's memory with documents.
struct Filled {
    kept: u64,
    offered: u64,
    bytes: u64,
    seconds: f64,
}

/// Measures documents of each kind.
pub fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    let scale = Scale::of(request)?;
    let place = Place::new(&request.cache)?;
    for Kind { name, share, tenths } in KINDS {
        let (file, most) = (place.file(name), scale.limit / share);
        let words = [name, &file, &(tenths * most / 10).to_string(), &scale.seed.to_string()];
        let made = place.make("documents.py", &words.map(str::to_owned), &scale.folders)?;
        let (count, bytes): (u64, u64) =
            serde_json::from_value(made).map_err(|error| failed(&error))?;
        let limit = limited(most, tenths, bytes);
        if limit < MIB {
            eprintln!("bench: {name} are left out: {count} documents, {bytes} bytes, are too few");
            continue;
        }
        let documents = Documents { name, file, count, limit };
        kept(&documents, limit == scale.limit, &place, report)?;
        gets(&documents, &place, &scale, report)?;
    }
    Ok(())
}

/// Returns the limit that `bytes` bytes of documents fill: `most`, or fewer whole MiB if `bytes` is
/// less than `tenths` tenths of `most`.
fn limited(most: u64, tenths: u64, bytes: u64) -> u64 {
    // The total may fall a little short because of the last document.
    let is_enough = bytes + bytes / 64 >= tenths * most / 10;
    if is_enough { most } else { bytes * 10 / tenths / MIB * MIB }
}

/// Reports the number of documents held in the same memory. The number is checked if the cache has
/// the requested limit.
fn kept(
    documents: &Documents,
    is_judged: bool,
    place: &Place,
    report: &mut Report<'_>,
) -> Result<(), Error> {
    let Documents { name, count, limit, .. } = documents;
    let ours = filled("cache", 0, documents, place)?;
    let plain = filled("dict", ours.bytes, documents, place)?;
    let what = format!("documents, {name}, {} MiB", limit / MIB);
    let figure = |what_of: &str, value: f64, unit| {
        Figure::new(NAME, format!("{what}: {what_of}"), value, unit)
    };
    let ratio = ours.kept as f64 / plain.kept as f64;
    let many = figure("kept in a Cache over a dict of bytes in the same memory", ratio, "");
    report.add(if is_judged { many.must(Bound::at_least(KEPT_MIN)) } else { many })?;
    let told = figure("kept in a Cache", ours.kept as f64, "documents");
    report.add(told.rival("a dict of bytes", plain.kept as f64))?;
    // If all documents were offered, the cache was not full, and more would fit.
    report.add(
        figure("offered to it", ours.offered as f64, "documents").rival("all", *count as f64),
    )?;
    let memory = figure("memory of its process beside what it had", mebibytes(ours.bytes), "MiB");
    report.add(memory.rival("a dict of bytes", mebibytes(plain.bytes)))?;
    let rate = |filled: &Filled| filled.offered as f64 / filled.seconds;
    let stored = figure("stored per second", rate(&ours), "documents/s");
    report.add(stored.rival("a dict of bytes", rate(&plain)))
}

/// Fills a new store until its memory is full, and verifies the documents that it holds.
fn filled(kind: &str, most: u64, documents: &Documents, place: &Place) -> Result<Filled, Error> {
    let mut asked = start(kind, documents, place)?;
    let (kept, offered, bytes, seconds) = asked.ask(json!(["fill", most]))?;
    let found: (u64, u64) = asked.ask(json!(["differing"]))?;
    agree(0, found, kept)?;
    Ok(Filled { kept, offered, bytes, seconds })
}

/// Returns an error if a document differs or if the number of documents held is not `expected`.
fn agree(side: usize, (wrong, kept): (u64, u64), expected: u64) -> Result<(), Error> {
    let side = char::from(b'A' + side as u8);
    if wrong > 0 {
        return Err(Error::Answer { side, expected: 0, found: wrong });
    }
    if kept == expected { Ok(()) } else { Err(Error::Answer { side, expected, found: kept }) }
}

/// Measures random gets, in turns, of documents that all sides hold.
fn gets(
    documents: &Documents,
    place: &Place,
    scale: &Scale,
    report: &mut Report<'_>,
) -> Result<(), Error> {
    let count = (documents.limit / OF_GETS).clamp(1, documents.count);
    let mut sides = Vec::new();
    for (nth, (kind, _)) in SIDES.into_iter().enumerate() {
        let mut asked = start(kind, documents, place)?;
        let _seconds: f64 = asked.ask(json!(["load", count]))?;
        agree(nth, asked.ask(json!(["differing"]))?, count)?;
        sides.push(asked);
    }
    let mut times = vec![Vec::new(); sides.len()];
    let of_turn = count.div_ceil(GETS_SHARE);
    for round in 0..=scale.rounds {
        let mut expected = None;
        for turn in 0..sides.len() {
            let nth = (turn + round as usize) % sides.len();
            let order = json!(["gets", of_turn, scale.seed ^ round]);
            let (seconds, found): (f64, u64) = sides[nth].ask(order)?;
            if round > 0 {
                times[nth].push(seconds);
            }
            let expected = *expected.get_or_insert(found);
            if found != expected {
                let side = char::from(b'A' + nth as u8);
                return Err(Error::Answer { side, expected, found });
            }
        }
    }
    let what = format!("documents, {}, {count} of them", documents.name);
    let rate = |nth: usize| of_turn as f64 / median(times[nth].iter().copied());
    for nth in OURS + 1..SIDES.len() {
        let name = format!("{what}: gets over those of {}", SIDES[nth].1);
        report.add(Figure::new(NAME, name, over(&times[nth], &times[OURS]), ""))?;
        let name = format!("{what}: gets per second, beside {}", SIDES[nth].1);
        let told = Figure::new(NAME, name, rate(OURS), "gets/s");
        report.add(told.rival(SIDES[nth].1, rate(nth)))?;
    }
    Ok(())
}

fn start(kind: &str, documents: &Documents, place: &Place) -> Result<Asked, Error> {
    let folder = place.file(&format!("{kind}-{}", documents.name));
    let words = [kind, &documents.file, &documents.limit.to_string(), &folder];
    Asked::start(place, "kept.py", &words.map(str::to_owned), None)
}

fn failed(reason: &dyn std::fmt::Display) -> Error {
    Error::Malformed {
        thing: "what documents.py prints".to_owned(),
        text: reason.to_string(),
        expected: "two numbers",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_what_there_are_documents_for() {
        assert_eq!(limited(256 * MIB, 40, 1024 * MIB + 700), 256 * MIB);
        assert_eq!(limited(256 * MIB, 40, 1024 * MIB - 3000), 256 * MIB);
        assert_eq!(limited(256 * MIB, 40, 51 * MIB), 12 * MIB);
        assert_eq!(limited(256 * MIB, 40, 0), 0);
    }

    /// Tests the scripts that need no package from the package index.
    #[test]
    fn scripts_make_documents_and_keep_them() {
        let dir = tempfile::tempdir().unwrap();
        let place = Place::with_scripts(dir.path(), "python3".into()).unwrap();
        let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
        let file = place.file("sources");
        let words = ["sources", &file, "200000", "7"].map(str::to_owned);
        let made = place.make("documents.py", &words, &[sources.into()]).unwrap();
        let (count, bytes): (u64, u64) = serde_json::from_value(made).unwrap();
        assert!(count > 50 && bytes > 150_000, "{count} documents of {bytes} bytes");
        let text = std::fs::read_to_string(&file).unwrap();
        let mut keys = std::collections::HashSet::new();
        for line in text.lines() {
            let document: serde_json::Value = serde_json::from_str(line).unwrap();
            let path = document["path"].as_str().unwrap();
            assert!(keys.insert(format!("{path} {}", document["first"])), "twice: {line}");
            let of_file = std::fs::read_to_string(format!("{sources}/{path}")).unwrap();
            let first = document["first"].as_u64().unwrap() as usize;
            let lines = document["lines"].as_array().unwrap().iter();
            // The document has no empty last line.
            let same = of_file.lines().skip(first - 1).zip(lines);
            same.for_each(|(text, line)| assert_eq!(line, text, "{path}"));
        }
        assert_eq!(keys.len() as u64, count);
        let documents = Documents { name: "sources", file, count, limit: MIB };
        let all = filled("dict", u64::MAX, &documents, &place).unwrap();
        assert_eq!((all.kept, all.offered), (count, count));
        let some = filled("dict", 1, &documents, &place).unwrap();
        assert!(some.kept <= count, "{} of {count}", some.kept);
        let got = |kind| {
            let mut asked = start(kind, &documents, &place).unwrap();
            let _seconds: f64 = asked.ask(json!(["load", 40])).unwrap();
            agree(0, asked.ask(json!(["differing"])).unwrap(), 40).unwrap();
            asked.ask::<(f64, u64)>(json!(["gets", 100, 5])).unwrap().1
        };
        assert_eq!(got("dict"), got("zlib"));
        assert!(start("nothing", &documents, &place).unwrap().ask::<()>(json!(["fill"])).is_err());
    }

    #[test]
    fn what_differs_is_an_error() {
        assert!(agree(0, (0, 7), 7).is_ok());
        assert!(matches!(agree(1, (1, 7), 7), Err(Error::Answer { side: 'B', .. })));
        assert!(agree(0, (0, 6), 7).is_err());
    }
}
