//! The files of a host: its program, and the loader that a dynamically linked program specifies.
//!
//! The helper reads these files, so the code in this module allocates no memory (in-1).

use crate::policy::{END_MAX, PAGE, PATH_BYTES, SEGMENTS};
use crate::system::{Errno, system};
use executable::protection;
use object::LittleEndian;
use object::elf::{FileHeader64, PT_INTERP, PT_LOAD, ProgramHeader64};
use object::pod;
use std::ffi::CStr;

/// The number of bytes at the start of a file that must contain all program headers.
const HEAD_BYTES: usize = PAGE;
/// The protection of data.
pub(crate) const DATA: usize = (libc::PROT_READ | libc::PROT_WRITE) as usize;

type Header = FileHeader64<LittleEndian>;
type ProgramHeader = ProgramHeader64<LittleEndian>;

/// A loadable segment. The addresses of a segment are relative to the base at which the file is
/// mapped.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Segment {
    pub(crate) start: usize,
    pub(crate) file_end: usize,
    pub(crate) end: usize,
    pub(crate) offset: usize,
    pub(crate) prot: usize,
}

/// The files of a host: its program, and the loader that the program specifies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostFiles {
    pub(crate) program: Elf,
    pub(crate) loader: Option<Loader>,
}

/// The loader that a host's program specifies, and the loader's path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loader {
    pub(crate) elf: Elf,
    path: Path,
}

type Path = [u8; PATH_BYTES];

impl HostFiles {
    /// Reads the headers of the host's program at `path`, and those of its loader.
    ///
    /// # Errors
    /// Returns the error of a system call, or ENOEXEC if a file can't be used as a host or as its
    /// loader.
    pub(crate) fn read(path: &CStr) -> Result<Self, Errno> {
        let (program, loader) = Elf::read(path)?;
        let loader = match loader {
            Some(path) => {
                let name = CStr::from_bytes_until_nul(&path).map_err(|_| libc::ENOEXEC)?;
                Some(Loader { elf: Elf::read(name)?.0, path })
            }
            None => None,
        };
        Ok(HostFiles { program, loader })
    }
}

impl Loader {
    pub(crate) fn path(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.path).unwrap_or_default()
    }
}

/// The structure that `fstat` fills, as 8-byte words.
pub(crate) type Stat = [u64; 18];

/// The properties of a file that reveal whether the file was replaced or changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity([u64; 5]);

impl Identity {
    /// Returns the identity of a file: device, inode, size, and the time of the last modification.
    pub(crate) fn of(stat: &Stat) -> Self {
        Identity([0, 1, 6, 11, 12].map(|nth| stat[nth]))
    }
}

/// The properties of an ELF file that are needed to map the file and to enter its program.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Elf {
    pub(crate) identity: Identity,
    /// The address of the first instruction.
    pub(crate) entry: usize,
    /// The address and the number of the program headers.
    pub(crate) headers: (usize, usize),
    segments: [Segment; SEGMENTS],
    count: usize,
}

impl Elf {
    fn read(path: &CStr) -> Result<(Self, Option<Path>), Errno> {
        let flags = (libc::O_RDONLY | libc::O_CLOEXEC) as usize;
        let path = path.as_ptr().addr();
        let fd = system(libc::SYS_openat, [libc::AT_FDCWD as usize, path, flags, 0, 0, 0])?;
        let mut head = [0_u64; HEAD_BYTES / 8];
        let bytes = system(libc::SYS_pread64, [fd, head.as_mut_ptr().addr(), HEAD_BYTES, 0, 0, 0]);
        let mut stat = Stat::default();
        let known = system(libc::SYS_fstat, [fd, stat.as_mut_ptr().addr(), 0, 0, 0, 0]);
        let _closed = system(libc::SYS_close, [fd, 0, 0, 0, 0, 0]);
        let head = pod::bytes_of_slice(&head);
        let parsed = Self::parse(head.get(..bytes?).unwrap_or_default());
        let (mut elf, loader) = parsed.filter(|_| known.is_ok()).ok_or(libc::ENOEXEC)?;
        elf.identity = Identity::of(&stat);
        Ok((elf, loader))
    }

    fn parse(head: &[u8]) -> Option<(Self, Option<Path>)> {
        let end = LittleEndian;
        let (header, _) = pod::from_bytes::<Header>(head).ok()?;
        let at = header.e_phoff.get(end) as usize;
        let count = usize::from(header.e_phnum.get(end));
        let (headers, _) = pod::slice_from_bytes::<ProgramHeader>(head.get(at..)?, count).ok()?;
        let entry = header.e_entry.get(end) as usize;
        let mut found = Elf { entry, headers: (at, count), ..Elf::default() };
        for load in headers.iter().filter(|header| header.p_type.get(end) == PT_LOAD) {
            *found.segments.get_mut(found.count)? = Segment::of(load)?;
            found.count += 1;
        }
        // The first segment begins at the start of the file, and must contain the program headers.
        let first = found.segments().first()?;
        let headers_end = at + size_of_val(headers);
        let is_sound = first.offset == 0 && first.start == 0 && first.file_end >= headers_end;
        let loader = headers.iter().find(|header| header.p_type.get(end) == PT_INTERP);
        let loader = match loader {
            Some(loader) => {
                let at = loader.p_offset.get(end) as usize;
                let name = head.get(at..)?.get(..loader.p_filesz.get(end) as usize)?;
                let mut path = [0; PATH_BYTES];
                path.get_mut(..name.len())?.copy_from_slice(name);
                Some(path)
            }
            None => None,
        };
        is_sound.then_some((found, loader))
    }

    pub(crate) fn segments(&self) -> &[Segment] {
        &self.segments[..self.count]
    }

    /// Returns the lowest address above the last segment.
    pub(crate) fn end(&self) -> usize {
        let ends = self.segments().iter().map(|segment| segment.end.next_multiple_of(PAGE));
        ends.max().unwrap_or(0)
    }
}

impl Segment {
    fn of(load: &ProgramHeader) -> Option<Self> {
        let end = LittleEndian;
        let [start, offset, file_bytes, bytes] =
            [load.p_vaddr, load.p_offset, load.p_filesz, load.p_memsz]
                .map(|value| value.get(end) as usize);
        let prot = protection(load.p_flags.get(end).0) as usize;
        let segment = Segment {
            start,
            file_end: start.checked_add(file_bytes)?,
            end: start.checked_add(bytes)?,
            offset,
            prot,
        };
        // If a segment has pages without data in the file, these pages are mapped readable and
        // writable, so the segment must have this protection.
        let is_data = prot == DATA || segment.end <= segment.file_end.next_multiple_of(PAGE);
        let is_sound = file_bytes <= bytes
            && is_data
            && file_bytes > 0
            && segment.end <= END_MAX
            && offset % PAGE == start % PAGE
            && load.p_align.get(end) as usize <= PAGE;
        is_sound.then_some(segment)
    }
}
