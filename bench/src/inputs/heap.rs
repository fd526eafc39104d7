//! The private anonymous memory of a live CPython process, written to a file of pages.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, Write as _};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use super::Cache;
use crate::Error;
use crate::tool::Tool;

// The heap's size in bytes, typical of a medium-sized job. Three quarters of the heap hold the
// modules of the standard library, and the rest holds the library's tests.
const RESIDENT_BYTES: u64 = 440 << 20;
const SCRIPT: &str = include_str!("heap.py");
const PYTHON: Tool =
    Tool { name: "python3", package: "python3", remedy: "run python3 -m ast on a file to see why" };
const ROOM: &str = "set UZRAM_BENCH_DIR to a directory with 1 GB free";
const RIGHTS: &str =
    "allow a parent to trace its child (kernel.yama.ptrace_scope 0 or 1), or run as root";

// The bits of a pagemap entry for a page in memory or in swap. If a page has neither bit, the
// process has never touched it, and it reads as zeros.
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
const PAGEMAP_ENTRY: usize = 8;
const CHUNK_PAGES: usize = 256;

pub(super) fn ensure(cache: &Cache) -> Result<PathBuf, Error> {
    cache.ensure("heap.pages", |place| {
        let mut python = Python::start()?;
        python.wait_until_filled()?;
        dump(python.child.id(), place)
    })
}

// The CPython process, which is killed on drop.
struct Python {
    child: Child,
}

impl Python {
    fn start() -> Result<Python, Error> {
        let mut command = PYTHON.command();
        // -s ignores the user's packages. The fixed seed makes the hashes of strings the same in
        // every run.
        command
            .args(["-W", "ignore", "-s", "-c", SCRIPT])
            .arg(RESIDENT_BYTES.to_string())
            .env("PYTHONHASHSEED", "0");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        Ok(Python { child: PYTHON.started(command.spawn())? })
    }

    fn wait_until_filled(&mut self) -> Result<(), Error> {
        let mut line = String::new();
        let read =
            self.child.stdout.as_mut().map(|stdout| BufReader::new(stdout).read_line(&mut line));
        match (read, line.trim().parse::<u64>()) {
            (Some(Ok(_)), Ok(trees)) if trees > 0 => Ok(()),
            _ => {
                Err(PYTHON
                    .failed(format!("it built no syntax trees and answered {:?}", line.trim())))
            }
        }
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        // Errors mean that the process has already exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn dump(pid: u32, place: &Path) -> Result<(), Error> {
    let open = |name: &str| {
        let path = PathBuf::from(format!("/proc/{pid}/{name}"));
        File::open(&path).map_err(Error::file("open", &path, RIGHTS))
    };
    let (memory, pagemap) = (open("mem")?, open("pagemap")?);
    let maps_path = PathBuf::from(format!("/proc/{pid}/maps"));
    let maps = fs::read_to_string(&maps_path).map_err(Error::file("read", &maps_path, RIGHTS))?;
    let file = File::create(place).map_err(Error::file("create", place, ROOM))?;
    let mut out = BufWriter::with_capacity(1 << 20, file);
    let page_size = rustix::param::page_size();
    let mut page = vec![0; page_size];
    for range in maps.lines().filter_map(private_anonymous) {
        for address in touched(&pagemap, range, page_size) {
            // A page that can't be read, such as a guard page, is not part of the heap.
            if memory.read_exact_at(&mut page, address).is_ok() {
                out.write_all(&page).map_err(Error::file("write to", place, ROOM))?;
            }
        }
    }
    // Syncs the file before it is renamed, so a crash can't leave an incomplete file under the
    // final name.
    let file = out.into_inner().map_err(|error| error.into_error());
    file.and_then(|file| file.sync_all()).map_err(Error::file("write to", place, ROOM))
}

// Returns the addresses of a line of `maps` if it describes writable private memory without a file.
fn private_anonymous(line: &str) -> Option<Range<u64>> {
    let mut fields = line.split_whitespace();
    let (range, rights) = (fields.next()?, fields.next()?);
    let (inode, name) = (fields.nth(2)?, fields.next());
    if !(rights.starts_with("rw") && rights.ends_with('p') && inode == "0") {
        return None;
    }
    let ours =
        name.is_none_or(|name| name == "[heap]" || name == "[stack]" || name.starts_with("[anon"));
    let (start, end) = range.split_once('-')?;
    let range = u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?;
    ours.then_some(range)
}

fn touched(pagemap: &File, range: Range<u64>, page_size: usize) -> impl Iterator<Item = u64> {
    let step = page_size as u64;
    range.clone().step_by(page_size * CHUNK_PAGES).flat_map(move |chunk| {
        let pages = ((range.end - chunk) / step).min(CHUNK_PAGES as u64) as usize;
        let mut entries = vec![0; pages * PAGEMAP_ENTRY];
        // An entry that can't be read stays zero, and its page counts as never touched.
        let _ = pagemap.read_exact_at(&mut entries, chunk / step * PAGEMAP_ENTRY as u64);
        let here: Vec<u64> = entries
            .as_chunks::<PAGEMAP_ENTRY>()
            .0
            .iter()
            .zip((chunk..).step_by(page_size))
            .filter(|(entry, _)| u64::from_ne_bytes(**entry) & (PRESENT | SWAPPED) != 0)
            .map(|(_, address)| address)
            .collect();
        here
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_private_anonymous_memory_is_taken() {
        let range = private_anonymous("7f00000000-7f00010000 rw-p 00000000 00:00 0 ");
        assert_eq!(range, Some(0x7f00000000..0x7f00010000));
        assert!(
            private_anonymous("5500000000-5500021000 rw-p 00000000 00:00 0      [heap]").is_some()
        );
        for line in [
            "7f00000000-7f00010000 rw-p 00001000 fe:00 1234   /usr/lib/libc.so.6",
            "7f00000000-7f00010000 r--p 00000000 00:00 0 ",
            "7f00000000-7f00010000 rw-s 00000000 00:00 0 ",
            "7f00000000-7f00010000 rw-p 00000000 00:00 0   [vvar]",
            "nonsense",
        ] {
            assert_eq!(private_anonymous(line), None, "{line}");
        }
    }

    #[test]
    fn a_dump_holds_what_was_touched() {
        let mut bytes = vec![0_u8; 4 << 20];
        let pattern = [0xa5_u8; 4096];
        bytes[1 << 20..][..64 * 4096].fill(0xa5);
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("pages");
        dump(std::process::id(), &place).unwrap();
        let dumped = fs::read(&place).unwrap();
        assert_eq!(dumped.len() % 4096, 0);
        let hits = dumped.chunks(4096).filter(|page| *page == pattern).count();
        // The first and the last page are shared with neighbouring allocations.
        assert!(hits >= 63, "{hits}");
        assert!(bytes.iter().any(|&byte| byte != 0));
    }
}
