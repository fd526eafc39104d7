//! JSON documents in an `LruCache`, beside moka and quick_cache, which keep values in the form in
//! which they are stored: the number of documents that fit in the same memory, and the speed of
//! gets.
//!
//! The rivals have no limit. They are filled until they use as much memory of the process as our
//! full cache, so none of their memory is lost to the slack of a limit.

mod stores;

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use fastrand::Rng;
use measure::memory::HeldMemory;

use self::stores::{PLAIN, SIDES, Store, store};
use super::Request;
use super::python::place::Place;
use crate::Error;
use crate::inputs::{Input, source_tree};
use crate::report::{Bound, Figure, Report};
use crate::size::{MIB, mebibytes};
use crate::stores::{Allocator, Glibc, settle};
use crate::summary::Summary;
use crate::turns::{Side, rounds};

const NAME: &str = "lru";
/// The limit of our cache in bytes, from which all other sizes are derived.
const LIMIT: u64 = 256 * MIB;
/// The number of rounds of gets by default.
const ROUNDS: u64 = 9;
/// The minimum number of documents in our cache over that in a rival, in the same memory.
const KEPT_MIN: f64 = 3.0;
/// The kinds of documents that the script of the Python experiments can make.
const KINDS: [&str; 2] = ["sources", "packages"];
/// The size of all documents, in tenths of the limit.
const TENTHS: u64 = 45;
/// For each `OF_GETS` bytes of the limit, one document is used for gets.
const OF_GETS: u64 = 4096;
/// The memory of the process is read after each `STEP` documents, because that takes a while.
const STEP: u64 = 256;
/// The documents of a kind, in a file with one document per line.
struct Documents {
    file: PathBuf,
    count: u64,
}

impl Documents {
    /// Calls `each` with the number of each document and the document, until it returns false.
    fn visit(&self, mut each: impl FnMut(u64, &[u8]) -> Result<bool, Error>) -> Result<(), Error> {
        let error = || Error::file("read", &self.file, "keep the file until the run ends");
        let mut lines = BufReader::new(File::open(&self.file).map_err(error())?);
        let (mut line, mut nth) = (Vec::new(), 0);
        while lines.read_until(b'\n', &mut line).map_err(error())? > 0 {
            if !each(nth, line.trim_ascii_end())? {
                break;
            }
            line.clear();
            nth += 1;
        }
        Ok(())
    }

    /// Returns the number of documents, of the first `stored` ones, that the store has.
    ///
    /// # Errors
    /// A document of the store differs from the stored one.
    fn kept(&self, store: &dyn Store, stored: u64) -> Result<u64, Error> {
        let (mut kept, mut wrong) = (0, 0);
        self.visit(|nth, document| {
            store.get(nth, &mut |found| {
                kept += 1;
                wrong += u64::from(found != document);
            })?;
            Ok(nth + 1 < stored)
        })?;
        if wrong == 0 {
            Ok(kept)
        } else {
            Err(Error::Answer { side: 'A', expected: 0, found: wrong })
        }
    }
}

pub(super) fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    let folders = match request.inputs(&[Input::Source])[..] {
        [Input::System, ..] => ["/usr/share", "/usr/lib"].map(PathBuf::from).to_vec(),
        _ => vec![source_tree(&request.cache)?],
    };
    let place = Place::with_scripts(request.cache.root(), "python3".into())?;
    let limit = request.limit.unwrap_or(LIMIT);
    for kind in KINDS {
        let file = place.file(kind);
        let most = limit / 10 * TENTHS;
        let words = [kind, &file, &most.to_string(), &request.seed.to_string()];
        let made = place.make("documents.py", &words.map(str::to_owned), &folders)?;
        let [count, bytes] = [&made[0], &made[1]].map(|number| number.as_u64().unwrap_or(0));
        // If the machine has too few documents, the limit is lowered to fit them.
        let limit = if bytes < most / 10 * 9 { bytes * 10 / TENTHS / MIB * MIB } else { limit };
        if limit < MIB {
            eprintln!("bench: {kind} are left out: {count} documents are too few");
            continue;
        }
        let documents = Documents { file: Path::new(&file).to_owned(), count };
        kept(&format!("{kind}, {} MiB", limit / MIB), &documents, limit, report)?;
        gets(kind, &documents, limit, request, report)?;
    }
    Ok(())
}

/// The number of documents that a store holds, and the memory of the process that it uses.
struct Filled {
    kept: u64,
    bytes: u64,
}

/// Fills a new store until it evicts documents, or uses `most` bytes of the process's memory.
fn filled(side: usize, limit: u64, most: u64, documents: &Documents) -> Result<Filled, Error> {
    Glibc::purge()?;
    settle();
    let before = HeldMemory::now()?.held;
    let (store, mut stored) = (store(side, limit)?, 0);
    documents.visit(|nth, document| {
        store.put(nth, document)?;
        stored = nth + 1;
        let is_full = stored % STEP == 0
            && (store.is_full(stored) || HeldMemory::now()?.held.saturating_sub(before) >= most);
        Ok(!is_full)
    })?;
    // The memory of the training is free again, and most of it is kept by malloc.
    Glibc::purge()?;
    let bytes = HeldMemory::now()?.held.saturating_sub(before);
    Ok(Filled { kept: documents.kept(&*store, stored)?, bytes })
}

/// Reports the number of documents held in the same memory. The numbers beside the rivals that do
/// not compress are checked if the cache has the default limit.
fn kept(
    what: &str,
    documents: &Documents,
    limit: u64,
    report: &mut Report<'_>,
) -> Result<(), Error> {
    let ours = filled(0, limit, u64::MAX, documents)?;
    let memory = Figure::new(NAME, format!("{what}: memory"), mebibytes(ours.bytes), "MiB");
    report.add(memory)?;
    for (side, rival) in SIDES.into_iter().enumerate().skip(1) {
        let theirs = filled(side, limit, ours.bytes, documents)?;
        let ratio = ours.kept as f64 / theirs.kept as f64;
        let figure = format!("{what}: kept over {rival}, in the same memory");
        let figure = Figure::new(NAME, figure, ratio, "");
        let is_judged = PLAIN.contains(&side) && limit == LIMIT;
        report.add(if is_judged { figure.must(Bound::at_least(KEPT_MIN)) } else { figure })?;
        let figure = format!("{what}: kept, beside {rival}");
        let figure = Figure::new(NAME, figure, ours.kept as f64, "documents");
        report.add(figure.rival(rival, theirs.kept as f64))?;
    }
    Ok(())
}

/// A store that has the first `count` documents, and the choices of its gets.
struct Gets<'a> {
    store: Box<dyn Store>,
    documents: &'a Documents,
    count: u64,
    rng: Rng,
}

impl Side for Gets<'_> {
    /// Gets documents, and returns the sum of their lengths and first bytes.
    fn turn(&mut self, operations: u64) -> Result<u64, Error> {
        let mut sum = 0;
        for _ in 0..operations {
            let key = self.rng.u64(..self.count);
            self.store.get(key, &mut |document| {
                sum += document.len() as u64 + u64::from(document[0]);
            })?;
        }
        Ok(sum)
    }

    fn verify(&self) -> Result<(), Error> {
        let (expected, found) = (self.count, self.documents.kept(&*self.store, self.count)?);
        if found == expected { Ok(()) } else { Err(Error::Answer { side: 'A', expected, found }) }
    }
}

/// Reports the speed of random gets of documents that all stores hold.
fn gets(
    kind: &str,
    documents: &Documents,
    limit: u64,
    request: &Request,
    report: &mut Report<'_>,
) -> Result<(), Error> {
    let count = (limit / OF_GETS).clamp(1, documents.count);
    let mut sides: Vec<Box<dyn Side + '_>> = Vec::new();
    for side in 0..SIDES.len() {
        let (store, rng) = (store(side, limit)?, Rng::with_seed(request.seed));
        documents.visit(|nth, document| {
            store.put(nth, document)?;
            Ok(nth + 1 < count)
        })?;
        sides.push(Box::new(Gets { store, documents, count, rng }));
    }
    let turns = request.operations.unwrap_or(ROUNDS) as usize;
    let seconds = rounds(&mut sides, turns, count)?;
    let rate = |side: usize| count as f64 / median(seconds[side].iter().copied());
    for (side, rival) in SIDES.into_iter().enumerate().skip(1) {
        let ratios = seconds[side].iter().zip(&seconds[0]).map(|(theirs, ours)| theirs / ours);
        let figure = format!("{kind}, {count} documents: gets over those of {rival}");
        report.add(Figure::new(NAME, figure, median(ratios), ""))?;
        let figure = format!("{kind}, {count} documents: gets, beside {rival}");
        let figure = Figure::new(NAME, figure, rate(0), "gets/s");
        report.add(figure.rival(rival, rate(side)))?;
    }
    Ok(())
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let values: Vec<f64> = values.collect();
    Summary::of(&values).map_or(f64::NAN, |summary| summary.median)
}
