//! The properties of an ELF file that determine whether `uzram-host` can run the program.

use crate::policy::{NOTES_BYTES_MAX, NOTES_MAX};
use object::elf::{EM_X86_64, ET_DYN, ET_EXEC, FileHeader64, PT_INTERP};
use object::read::elf::{FileHeader as _, Note, ProgramHeader as _};
use object::{FileKind, LittleEndian, ReadCache};
use std::ffi::OsStr;
use std::io::{Read, Seek};
use std::iter::from_fn;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// The kinds of ELF files. The kind determines whether `uzram-host` can run the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loading {
    /// A program that `uzram-host` can map into its own process.
    Program,
    /// The loader that the program specifies is not installed.
    NoLoader,
    /// The file is a `uzram-host`.
    Host,
    /// The file is no program for 64-bit x86-64, or the path of its loader is too long.
    Foreign,
}

/// The name in the ELF note by which every `uzram-host` is recognized.
const HOST_NOTE: &[u8] = b"uzram";

impl Loading {
    /// Classifies an ELF file. `is_there` returns whether the loader at a path is installed.
    ///
    /// # Errors
    /// Fails if the file is damaged.
    pub fn of(
        file: impl Read + Seek,
        is_there: impl FnOnce(&Path) -> bool,
    ) -> object::Result<Self> {
        let data = &ReadCache::new(file);
        if FileKind::parse(data)? != FileKind::Elf64 {
            return Ok(Loading::Foreign);
        }
        let end = LittleEndian;
        let header = FileHeader64::<LittleEndian>::parse(data)?;
        let is_program = matches!(header.e_type(end), ET_EXEC | ET_DYN);
        if !header.is_little_endian() || header.e_machine(end) != EM_X86_64 || !is_program {
            return Ok(Loading::Foreign);
        }
        let segments = header.program_headers(end, data)?;
        // Damaged notes are ignored, because the kernel does not read them.
        let notes = segments.iter().filter(|segment| segment.p_filesz(end) <= NOTES_BYTES_MAX);
        let mut notes =
            notes.take(NOTES_MAX).filter_map(|segment| segment.notes(end, data).ok()?);
        let is_own = |note: Note<'_, _>| note.name() == HOST_NOTE;
        if notes.any(|mut notes| from_fn(|| notes.next().ok()?).any(is_own)) {
            return Ok(Loading::Host);
        }
        let loader = segments.iter().find(|segment| segment.p_type(end) == PT_INTERP);
        let Some(loader) = loader else { return Ok(Loading::Program) };
        // The kernel refuses a program whose loader has a longer path.
        if loader.p_filesz(end) > libc::PATH_MAX as u64 {
            return Ok(Loading::Foreign);
        }
        let loader = loader.interpreter(end, data)?.unwrap_or_default();
        let is_there = is_there(Path::new(OsStr::from_bytes(loader)));
        Ok(if is_there { Loading::Program } else { Loading::NoLoader })
    }
}
