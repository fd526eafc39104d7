//! Tests the guarantees of this crate. Each error of each layer keeps its text and has a known
//! errno. Users of this crate need no other crate of the workspace.

#![allow(clippy::unwrap_used, reason = "tests")]

use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};
use uzram::zsmalloc::{GeometryError, meta};
use uzram::{Error, page, zcomp, zram, zsmalloc};

const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// An error of a layer, and its errno as a `uzram::Error`.
type Row<E> = (E, Errno);

fn pages() -> Vec<Row<page::Error>> {
    use page::Error::*;
    vec![
        (Limit { limit: 2, used: 1, wanted: 2 }, Errno::NOSPC),
        (Refused { pages: 1 }, Errno::NOMEM),
        (Mapping { bytes: 4096 }, Errno::NOMEM),
        (Forks, Errno::NOMEM),
        (Exhausted, Errno::NOSPC),
        (ExtentLength { pages: 0 }, Errno::INVAL),
    ]
}

fn metadata() -> Vec<Row<meta::Error>> {
    use meta::Error::*;
    let own = vec![
        (Size { size: 0, max: 9 }, Errno::NOMEM),
        (Align { align: 3, page: 4096 }, Errno::NOMEM),
        (Foreign { address: 8 }, Errno::NOMEM),
        (DoubleFree { address: 8 }, Errno::NOMEM),
    ];
    own.into_iter().chain(pages().into_iter().map(|(error, errno)| (Pages(error), errno))).collect()
}

fn pool() -> Vec<Row<zsmalloc::Error>> {
    use zsmalloc::Error::*;
    let own = vec![
        (Size { size: 0, max: 9 }, Errno::INVAL),
        (Geometry(GeometryError::Order { order: 9 }), Errno::INVAL),
        (Index { index: 9, len: 1 }, Errno::INVAL),
        (Length { len: 2, object: 1 }, Errno::INVAL),
        (LeftBehind, Errno::NODEV),
        (Handle { raw: 0 }, Errno::STALE),
    ];
    let pages = pages().into_iter().map(|(error, errno)| (Pages(error), errno));
    let metadata = metadata().into_iter().map(|(error, errno)| (Meta(error), errno));
    own.into_iter().chain(pages).chain(metadata).collect()
}

fn codec() -> Vec<Row<zcomp::Error>> {
    use zcomp::Error::*;
    vec![
        (UnknownAlgorithm { name: "lzo".to_owned() }, Errno::INVAL),
        (Unsupported { name: "842" }, Errno::INVAL),
        (Level { codec: "zstd", level: 99, range: 1..=22 }, Errno::INVAL),
        (Block { block: 0, max: 9 }, Errno::INVAL),
        (EmptyDictionary, Errno::INVAL),
        (LargeDictionary, Errno::INVAL),
        (Dictionary { codec: "zstd", bytes: 9 }, Errno::INVAL),
        (DictionarySize { bytes: 1, min: 256 }, Errno::INVAL),
        (TooFewSamples { given: 1, needed: 9 }, Errno::INVAL),
        (Training { reason: "none" }, Errno::INVAL),
        (NoMemory { bytes: 9 }, Errno::NOMEM),
        (TooLong { bytes: 9, block: 1 }, Errno::INVAL),
        (Corrupt { codec: "lz4", compressed: 1, expected: 9 }, Errno::BADMSG),
        (Library { codec: "zstd", code: 1 }, Errno::IO),
    ]
}

/// Returns the errors of a device that do not originate in a lower layer.
fn own_of_device() -> Vec<Row<zram::Error>> {
    use zram::Error::*;
    use zram::{Access as Kind, BadValue};
    let (name, path, at) = ("idle", "f".to_owned(), 9);
    let value = |why| Value { name, value: "x".to_owned(), why, reason: "y".to_owned() };
    vec![
        (Disksize { bytes: 0, block: 4096 }, Errno::INVAL),
        (Block { bytes: 1 }, Errno::INVAL),
        (Range { offset: 9, len: 1, disksize: 9 }, Errno::INVAL),
        (TotalLimit { limit: 1, needed: 2 }, Errno::INVAL),
        (Untracked, Errno::INVAL),
        (LeftBehind, Errno::NODEV),
        (StoreLeftBehind, Errno::NODEV),
        (Busy, Errno::AGAIN),
        (NoJob, Errno::SRCH),
        (Cancelled, Errno::CANCELED),
        (NoAlgorithm { priority: 3 }, Errno::INVAL),
        (Threshold { bytes: 9, huge: 9 }, Errno::INVAL),
        (NoBacking, Errno::NODEV),
        (BackingFull, Errno::NOSPC),
        (WritebackLimit, Errno::IO),
        (Backing { slot: 1, verb: "read", errno: Errno::PERM.raw_os_error() }, Errno::IO),
        (Backing { slot: 1, verb: "write", errno: Errno::NOSPC.raw_os_error() }, Errno::NOSPC),
        (Checksum { slot: 1 }, Errno::IO),
        (NoBuffer { bytes: 9 }, Errno::NOMEM),
        (
            Path { verb: "open", path: path.clone(), errno: Errno::ACCESS.raw_os_error() },
            Errno::ACCESS,
        ),
        (SavedInPart { path: path.clone(), slots: 1, first: at }, Errno::IO),
        (Saved { path: path.clone(), offset: at, reason: "z".to_owned() }, Errno::BADMSG),
        (NotEmpty, Errno::NOTEMPTY),
        (TooSmall { disksize: 1, needed: 2 }, Errno::NOSPC),
        (NoAttribute { name: "x".to_owned() }, Errno::NOENT),
        (Access { name, access: Kind::Read }, Errno::ACCESS),
        (value(BadValue::Invalid), Errno::INVAL),
        (value(BadValue::Range), Errno::RANGE),
        (value(BadValue::TooLong), Errno::TOOBIG),
        (Initialised { name }, Errno::BUSY),
        (Uninitialised { name }, Errno::INVAL),
        (Open { opens: 1 }, Errno::BUSY),
        (NoDevice, Errno::NODEV),
        (File { path, errno: Errno::NOENT.raw_os_error() }, Errno::NOENT),
        (Output, Errno::IO),
        (Damaged { slot: 1 }, Errno::IO),
        (Left { count: 1, slot: 1 }, Errno::IO),
    ]
}

fn device() -> Vec<Row<zram::Error>> {
    use zram::Error::*;
    let refused = |source, total_limit| OutOfMemory { slot: 1, source, total_limit };
    let mut rows = own_of_device();
    for (source, errno) in pool() {
        rows.push((refused(source, Some(9)), Errno::NOSPC));
        rows.push((refused(source, None), errno));
        rows.push((Pool(source), errno));
    }
    for (source, errno) in codec() {
        rows.push((Codec(source.clone()), errno));
        rows.push((Corrupt { slot: 1, source }, Errno::IO));
    }
    rows
}

#[cfg(feature = "slab")]
fn cache() -> Vec<Row<uzram::slab::Error>> {
    use uzram::slab::Error::*;
    let own = vec![
        (Size { size: 0, max: 9 }, Errno::INVAL),
        (Align { align: 3, page: 4096 }, Errno::INVAL),
        (UnknownLayout, Errno::INVAL),
        (Tunables { limit: 1, batchcount: 2 }, Errno::INVAL),
        (Foreign { address: 8 }, Errno::INVAL),
        (DoubleFree { address: 8 }, Errno::INVAL),
        (RedZone { address: 8, at: 9 }, Errno::IO),
        (UsedAfterFree { address: 8, at: 9 }, Errno::IO),
    ];
    own.into_iter().chain(pages().into_iter().map(|(error, errno)| (Pages(error), errno))).collect()
}

#[cfg(feature = "lru")]
fn lru() -> Vec<Row<uzram::lru::Error>> {
    use uzram::lru::Error::*;
    let own = vec![
        (LimitTooSmall { least: 1 }, Errno::INVAL),
        (NoRoom { bytes: 2, limit: 1 }, Errno::NOSPC),
        (NoMemory { bytes: 1 }, Errno::NOMEM),
    ];
    let pools = pool().into_iter().map(|(error, errno)| (Pool(error), errno));
    let codecs = codec().into_iter().map(|(error, errno)| (Codec(error), errno));
    own.into_iter().chain(pools).chain(codecs).collect()
}

#[cfg(feature = "zmem")]
fn region() -> Vec<Row<uzram::zmem::Error>> {
    use uzram::zmem::Error::*;
    let errno = Errno::PERM.raw_os_error();
    let own = vec![
        (Size { bytes: 0, block: 4096 }, Errno::INVAL),
        (Limit { limit: 1, needed: 2 }, Errno::INVAL),
        (Backend, Errno::INVAL),
        (StoreLimit { limit: 1, needed: 2 }, Errno::INVAL),
        (Order { order: 9, min: 0, max: 4 }, Errno::INVAL),
        (Regions { max: 9 }, Errno::MFILE),
        (Overlap { start: 1, end: 2 }, Errno::EXIST),
        (Memory { at: 1, what: "a stack" }, Errno::INVAL),
        (Range { start: 1, end: 2, bytes: 1 }, Errno::INVAL),
        (Locked { at: 1, end: 2 }, Errno::BUSY),
        (ProcessMemory { errno }, Errno::PERM),
        (Userfaultfd { errno }, Errno::PERM),
        (Forked, Errno::NODEV),
        (System { what: "a thread", errno }, Errno::PERM),
    ];
    let devices = device().into_iter().map(|(error, errno)| (Device(error), errno));
    own.into_iter().chain(devices).collect()
}

/// Returns the names of the errors that the source code of a layer defines.
fn defined(source: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(Path::new(HERE).join(source)).unwrap();
    let body = text.split_once("pub enum Error {\n").unwrap().1.split_once("\n}\n").unwrap().0;
    let lines = body.lines().filter_map(|line| line.strip_prefix("    "));
    let starts = lines.filter(|line| line.starts_with(|letter: char| letter.is_ascii_uppercase()));
    starts.map(|line| name(&line)).collect()
}

/// Returns the identifier at the beginning of a text.
fn name(told: &dyn ToString) -> String {
    let told = told.to_string();
    told.split(|letter: char| !letter.is_alphanumeric()).next().unwrap().to_owned()
}

/// Asserts that every error that `source` defines has a row, and that its conversion to
/// `uzram::Error` has the same text.
fn check<E>(source: &str, rows: Vec<Row<E>>)
where
    E: std::error::Error + Debug + Clone,
    Error: From<E>,
{
    let told: BTreeSet<_> = rows.iter().map(|(error, _)| name(&format!("{error:?}"))).collect();
    assert_eq!(told, defined(source), "the table has other errors than {source}");
    for (error, errno) in rows {
        let roofed = Error::from(error.clone());
        assert_eq!(roofed.errno(), errno.raw_os_error(), "{error:?}");
        assert_eq!(roofed.to_string(), error.to_string(), "{error:?}");
        let source = |error: &dyn std::error::Error| error.source().map(ToString::to_string);
        assert_eq!(source(&roofed), source(&error), "{error:?}");
    }
}

#[test]
fn every_error_has_its_words_and_an_errno() {
    check("../page/src/error.rs", pages());
    check("../zsmalloc/src/error.rs", pool());
    check("../zcomp/src/error.rs", codec());
    check("../zram/src/error.rs", device());
    #[cfg(feature = "slab")]
    check("../../slab/src/error.rs", cache());
    #[cfg(feature = "lru")]
    check("../lru/src/error.rs", lru());
    #[cfg(feature = "zmem")]
    check("../zmem/src/error.rs", region());
    let layers = ["Device", "Pool", "Codec", "Pages", "Cache", "Lru", "Region"];
    assert_eq!(defined("src/error.rs"), layers.map(str::to_owned).into());
}

/// Returns the source files in a directory and its subdirectories.
fn sources(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let below = |path: PathBuf| if path.is_dir() { sources(&path) } else { vec![path] };
    entries.flat_map(below).collect()
}

/// Returns the names of this workspace's crates, as the manifest lists them, without `uzram`.
fn ours() -> BTreeSet<String> {
    let manifest = fs::read_to_string(Path::new(HERE).join("../../Cargo.toml")).unwrap();
    let lines = manifest.lines().filter(|line| line.contains("path = "));
    let ours: BTreeSet<_> = lines.map(|line| name(&line)).filter(|name| name != "uzram").collect();
    assert!(ours.len() > 8 && ours.contains("zsmalloc"), "{ours:?}");
    ours
}

/// Returns the first line that names a crate of the workspace without `uzram::`.
fn names_another(code: &str) -> Option<&str> {
    let ours = ours();
    let is_named = |line: &&str| {
        line.match_indices("::").any(|(at, _)| {
            let before = &line[..at];
            let word = before.rsplit(|of: char| !of.is_alphanumeric() && of != '_').next().unwrap();
            let path = &before[..before.len() - word.len()];
            let is_through_uzram = path.ends_with("::") || path.ends_with("uzram::{");
            ours.contains(word.trim_start_matches("uzram_")) && !is_through_uzram
        })
    };
    code.lines().find(is_named)
}

/// Returns the code of the examples in the documentation comments of `source`.
fn shown(source: &str) -> String {
    let (mut text, mut is_code) = (String::new(), false);
    for line in source.lines().map(str::trim_start) {
        let Some(line) = line.strip_prefix("//!").or_else(|| line.strip_prefix("///")) else {
            continue;
        };
        match line.trim_start().strip_prefix("```") {
            Some(kind) => is_code = !is_code && kind != "text",
            None if is_code => text = text + line + "\n",
            None => {}
        }
    }
    text
}

#[test]
fn no_example_needs_another_crate_of_ours() {
    assert_eq!(names_another("use uzram::zcomp::{Stream, train};\nlet a = zcomp.len();"), None);
    assert_eq!(names_another("use std::io;\nuse zram::Device;"), Some("use zram::Device;"));
    assert_eq!(names_another("x(uzram_page::size())"), Some("x(uzram_page::size())"));
    let examples = sources(&Path::new(HERE).join("examples"));
    assert!(examples.len() >= 5, "{examples:?}");
    for example in examples {
        let code = fs::read_to_string(&example).unwrap();
        assert_eq!(names_another(&code), None, "{}", example.display());
    }
    let mut lines = 0;
    for source in sources(&Path::new(HERE).join("src")) {
        let code = shown(&fs::read_to_string(&source).unwrap());
        lines += code.lines().count();
        assert_eq!(names_another(&code), None, "{}", source.display());
    }
    assert!(lines > 30, "only {lines} lines of examples were found");
    let readme = fs::read_to_string(Path::new(HERE).join("../../README.md")).unwrap();
    let blocks = readme.split("```rust").skip(1).map(|rest| rest.split("```").next().unwrap());
    let code: String = blocks.collect();
    assert!(code.contains("uzram::") && names_another(&code).is_none(), "{code}");
}

#[test]
fn what_examples_are_built_with_is_of_others() {
    let manifest = fs::read_to_string(Path::new(HERE).join("Cargo.toml")).unwrap();
    let tests = manifest.split_once("[dev-dependencies]\n").unwrap().1.split("\n\n").next();
    let names: BTreeSet<_> = tests.unwrap().lines().map(|line| name(&line)).collect();
    let ours = ours();
    assert!(names.contains("serde_json") || names.contains("serde"), "{names:?}");
    let found: Vec<_> = names.iter().filter(|name| ours.contains(*name)).collect();
    assert!(found.is_empty(), "examples need {found:?} of ours besides uzram");
}
