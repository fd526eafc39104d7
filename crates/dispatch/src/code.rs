//! Finds out whether this crate is allowed to change code of the program, and changes the code.

use crate::policy::MAPS_BYTES;
use crate::system::{OwnFile, system};
use std::ops::Range;

/// `PROCMAP_QUERY` (Linux 6.11): returns the mapping that contains an address.
const PROCMAP_QUERY: usize = 0xc068_6611;
/// Bits of [`Query::flags`].
const EXECUTABLE: u64 = 4;
const WRITABLE: u64 = 2;
const SHARED: u64 = 8;

#[repr(C)]
#[derive(Debug, Default)]
struct Query {
    bytes: u64,
    asks: u64,
    address: u64,
    start: u64,
    end: u64,
    flags: u64,
    page_bytes: u64,
    offset: u64,
    inode: u64,
    device: [u32; 2],
    name_bytes: [u32; 2],
    names: [u64; 2],
}

const _: () = assert!(size_of::<Query>() == 104);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub(crate) range: Range<usize>,
    is_executable: bool,
    is_writable: bool,
    is_shared: bool,
    is_of_file: bool,
}

impl Mapping {
    /// Returns whether the mapping is a private, unwritable mapping of a file and contains code.
    /// Only this process sees changes to code in a private mapping.
    pub(crate) fn is_private_code(&self) -> bool {
        self.is_executable && self.is_of_file && !self.is_shared && !self.is_writable
    }
}

/// Returns the mapping that contains `address`. Returns `None` if nothing is mapped at `address`,
/// or the kernel does not report the mapping.
pub(crate) fn mapping_of(address: usize) -> Option<Mapping> {
    let file = OwnFile::open(c"/proc/self/maps", libc::O_RDONLY).ok()?;
    let mut query =
        Query { bytes: size_of::<Query>() as u64, address: address as u64, ..Query::default() };
    let args = [file.descriptor(), PROCMAP_QUERY, (&raw mut query).addr(), 0, 0, 0];
    if system(libc::SYS_ioctl, args).is_ok() {
        return Some(Mapping {
            range: query.start as usize..query.end as usize,
            is_executable: query.flags & EXECUTABLE != 0,
            is_writable: query.flags & WRITABLE != 0,
            is_shared: query.flags & SHARED != 0,
            is_of_file: query.inode != 0,
        });
    }
    search(&file, address)
}

/// Searches the lines of /proc/PID/maps for the mapping that contains `address`.
fn search(file: &OwnFile, address: usize) -> Option<Mapping> {
    let (mut text, mut held) = ([0u8; MAPS_BYTES], 0);
    loop {
        let args =
            [file.descriptor(), text[held..].as_mut_ptr().addr(), MAPS_BYTES - held, 0, 0, 0];
        let read = system(libc::SYS_read, args).ok().filter(|bytes| *bytes > 0)?;
        held += read;
        let mut next = 0;
        while let Some(bytes) = text[next..held].iter().position(|byte| *byte == b'\n') {
            let mapping = parse(&text[next..next + bytes])?;
            if mapping.range.contains(&address) {
                return Some(mapping);
            }
            next += bytes + 1;
        }
        text.copy_within(next..held, 0);
        held -= next;
    }
}

/// Parses a line of /proc/PID/maps.
fn parse(line: &[u8]) -> Option<Mapping> {
    let line = str::from_utf8(line.get(..line.len().min(80))?).ok()?;
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let rights = words.next()?.as_bytes();
    let inode = words.nth(2)?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    Some(Mapping {
        range: number(start)?..number(end)?,
        is_executable: rights.get(2) == Some(&b'x'),
        is_writable: rights.get(1) == Some(&b'w'),
        is_shared: rights.get(3) == Some(&b's'),
        is_of_file: inode != "0",
    })
}

/// Writes to memory of this process, even if the memory is protected.
#[derive(Debug)]
pub(crate) struct Writer(OwnFile);

impl Writer {
    pub(crate) fn open() -> Option<Writer> {
        // /proc/self/mem belongs to the first thread, and can't be used after that thread has
        // ended.
        OwnFile::open(c"/proc/thread-self/mem", libc::O_WRONLY).ok().map(Writer)
    }

    /// Writes bytes. The mapping is private, so other processes do not see the written bytes.
    /// Returns whether all bytes were written.
    pub(crate) fn write(&self, address: usize, bytes: &[u8]) -> bool {
        let args = [self.0.descriptor(), bytes.as_ptr().addr(), bytes.len(), address, 0, 0];
        system(libc::SYS_pwrite64, args) == Ok(bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_parsed() {
        let line = b"7f00-9000 r-xp 00000000 103:02 17 /lib/x86_64-linux-gnu/libc.so.6";
        let mapping = parse(line).unwrap();
        assert!(mapping.range == (0x7f00..0x9000) && mapping.is_private_code());
        assert!(!parse(b"7f00-9000 rwxp 00000000 103:02 17 /a").unwrap().is_private_code());
        assert!(!parse(b"7f00-9000 r-xs 00000000 103:02 17 /a").unwrap().is_private_code());
        assert!(!parse(b"7f00-9000 r-xp 00000000 00:00 0").unwrap().is_private_code());
        assert_eq!(parse(b"7f00"), None);
    }

    #[test]
    fn the_query_and_the_lines_agree() {
        let code = lines_are_parsed as fn() as usize;
        let file = OwnFile::open(c"/proc/self/maps", libc::O_RDONLY).unwrap();
        let found = search(&file, code).unwrap();
        assert!(found.is_private_code());
        assert_eq!(mapping_of(code), Some(found));
        assert!(!mapping_of((&raw const file).addr()).unwrap().is_private_code());
        assert_eq!(mapping_of(0), None);
    }
}
