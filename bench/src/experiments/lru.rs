//! JSON documents in an `LruCache`, compared with moka and quick_cache, which do not compress
//! values. The figures are the number of documents that fit in the same memory, and the speed of
//! gets.
//!
//! The rivals have no memory limit. A rival is filled until the process has grown by as much memory
//! as it did for our full cache.

mod stores;

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::time::Instant;

use fastrand::Rng;
use measure::memory::HeldMemory;

use self::stores::{PLAIN, SIDES, Store, store};
use super::Request;
use crate::Error;
use crate::filled::settle;
use crate::inputs::{Input, source_tree};
use crate::report::{Bound, Figure, Report};
use crate::size::{MIB, mebibytes};
use crate::summary::{median, ratio};
use crate::tool::Tool;
use crate::trim::trim;
use crate::turns::{each, in_turns};
use crate::undo::folder;

const NAME: &str = "lru";
const ROOM: &str = "set UZRAM_BENCH_DIR to a directory with 3 GB free";
/// The script that makes documents, and the module that it imports.
const SCRIPTS: [(&str, &str); 2] = [
    ("documents.py", include_str!("lru/documents.py")),
    ("trees.py", include_str!("lru/trees.py")),
];
const MAKER: Tool = Tool { name: "python3", package: "python3", remedy: ROOM };
/// The limit of our cache in bytes, from which all other sizes are derived.
const LIMIT: u64 = 256 * MIB;
/// The default number of rounds of gets.
const ROUNDS: u64 = 9;
/// The minimum ratio of the documents in our cache to those in a rival that uses the same memory.
const KEPT_MIN: f64 = 3.0;
/// The kinds of documents.
const KINDS: [&str; 2] = ["sources", "packages"];
/// The size of all documents, in tenths of the limit.
const TENTHS: u64 = 45;
/// The gets read from a store with one document per `OF_GETS` bytes of the limit.
const OF_GETS: u64 = 4096;
/// The memory of the process is read only after every `STEP` documents, because reading it is slow.
const STEP: u64 = 256;
/// The documents of a kind, in a file with one document per line.
struct Documents {
    file: PathBuf,
    count: u64,
}

impl Documents {
    /// Calls `each` with the number and the contents of each document, until `each` returns false.
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

    /// Returns how many of the first `stored` documents the store has.
    ///
    /// # Errors
    /// Fails if the store returns a document that differs from the stored document.
    fn kept(&self, store: &dyn Store, stored: u64) -> Result<u64, Error> {
        let (mut kept, mut wrong) = (0, 0);
        self.visit(|nth, document| {
            store.get(nth, &mut |found| {
                kept += 1;
                wrong += u64::from(found != document);
            })?;
            Ok(nth + 1 < stored)
        })?;
        Error::answer('A', 0, wrong)?;
        Ok(kept)
    }
}

pub(super) fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    let folders = match request.inputs(&[Input::Source])[..] {
        [Input::System, ..] => ["/usr/share", "/usr/lib"].map(PathBuf::from).to_vec(),
        _ => vec![source_tree(&request.cache)?],
    };
    let dir = request.cache.root();
    fs::create_dir_all(dir).map_err(Error::file("create", dir, ROOM))?;
    let (dir, _undo) = folder("lru-", dir, ROOM)?;
    for (name, text) in SCRIPTS {
        let path = dir.join(name);
        fs::write(&path, text).map_err(Error::file("write to", &path, ROOM))?;
    }
    let limit = request.limit.unwrap_or(LIMIT);
    for kind in KINDS {
        let (file, most) = (dir.join(kind), limit / 10 * TENTHS);
        let mut command = MAKER.command();
        command.args(["-s", "-E"]).arg(dir.join(SCRIPTS[0].0)).arg(kind).arg(&file);
        command.args([most, request.seed].map(|number| number.to_string())).args(&folders);
        let made = serde_json::from_slice(&MAKER.run(&mut command)?.stdout);
        let [count, bytes]: [u64; 2] = made.map_err(|error| MAKER.failed(error.to_string()))?;
        // Lowers the limit if the machine has too few documents.
        let limit = if bytes < most / 10 * 9 { bytes * 10 / TENTHS / MIB * MIB } else { limit };
        if limit < MIB {
            eprintln!("bench: {kind} are left out: {count} documents are too few");
            continue;
        }
        let documents = Documents { file, count };
        kept(&format!("{kind}, {} MiB", limit / MIB), &documents, limit, report)?;
        gets(kind, &documents, limit, request, report)?;
    }
    Ok(())
}

/// The number of documents that a store holds, and the bytes by which the process grew for it.
struct Filled {
    kept: u64,
    bytes: u64,
}

/// Fills a new store until the store evicts documents, or until the process has grown by `most`
/// bytes.
fn filled(side: usize, limit: u64, most: u64, documents: &Documents) -> Result<Filled, Error> {
    trim();
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
    // Returns free memory to the system, because malloc retains most of the memory that the
    // training of the dictionary freed.
    trim();
    let bytes = HeldMemory::now()?.held.saturating_sub(before);
    Ok(Filled { kept: documents.kept(&*store, stored)?, bytes })
}

/// Reports the number of documents that our cache and each rival hold in the same memory. If the
/// cache has the default limit, the ratios to rivals without compression are checked.
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
        report.add(figure.must(is_judged.then_some(Bound::at_least(KEPT_MIN))))?;
        let figure = format!("{what}: kept, beside {rival}");
        let figure = Figure::new(NAME, figure, ours.kept as f64, "documents");
        report.add(figure.rival(rival, theirs.kept as f64))?;
    }
    Ok(())
}

/// A store that has the first `count` documents, and the generator that chooses documents to get.
struct Gets<'a> {
    store: Box<dyn Store>,
    documents: &'a Documents,
    count: u64,
    rng: Rng,
}

impl Gets<'_> {
    /// Returns the seconds of `count` gets, and the sum of the documents' lengths and first bytes.
    fn turn(&mut self) -> Result<(f64, u64), Error> {
        let mut sum = 0;
        let begun = Instant::now();
        for _ in 0..self.count {
            let key = self.rng.u64(..self.count);
            self.store.get(key, &mut |document| {
                sum += document.len() as u64 + u64::from(document[0]);
            })?;
        }
        Ok((begun.elapsed().as_secs_f64(), sum))
    }

    fn verify(&self) -> Result<(), Error> {
        Error::answer('A', self.count, self.documents.kept(&*self.store, self.count)?)
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
    let mut sides = Vec::new();
    for side in 0..SIDES.len() {
        let (store, rng) = (store(side, limit)?, Rng::with_seed(request.seed));
        documents.visit(|nth, document| {
            store.put(nth, document)?;
            Ok(nth + 1 < count)
        })?;
        sides.push(Gets { store, documents, count, rng });
    }
    let rounds = request.operations.unwrap_or(ROUNDS);
    let turns = in_turns(sides.len(), rounds, |side| sides[side].turn())?;
    sides.iter().try_for_each(Gets::verify)?;
    for (side, turns_of_side) in turns.iter().enumerate() {
        for ((_, expected), (_, found)) in turns[0].iter().zip(turns_of_side) {
            Error::answer(char::from(b'A' + side as u8), *expected, *found)?;
        }
    }
    let seconds: Vec<Vec<f64>> = turns.iter().map(|turns| each(turns, |turn| turn.0)).collect();
    let rate = |side: usize| count as f64 / median(&seconds[side]);
    for (side, rival) in SIDES.into_iter().enumerate().skip(1) {
        let figure = format!("{kind}, {count} documents: gets over those of {rival}");
        report.add(Figure::new(NAME, figure, ratio(&seconds[side], &seconds[0]), ""))?;
        let figure = format!("{kind}, {count} documents: gets, beside {rival}");
        let figure = Figure::new(NAME, figure, rate(0), "gets/s");
        report.add(figure.rival(rival, rate(side)))?;
    }
    Ok(())
}
