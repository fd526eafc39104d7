//! The facts of an ELF file that decide how the runtime gets into its program.

use object::elf::{DT_NEEDED, EM_X86_64, ET_DYN, ET_EXEC, FileHeader64, PT_INTERP, SHT_DYNAMIC};
use object::read::elf::{
    Dyn as _, FileHeader as _, ProgramHeader as _, SectionHeader as _, SectionTable,
};
use object::{FileKind, LittleEndian, ReadCache, ReadRef};
use std::ffi::OsStr;
use std::io::{Read, Seek};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Libraries that stand in for functions which they need to be the first to see.
const SANITIZERS: [&[u8]; 4] = [b"libasan.so", b"libtsan.so", b"liblsan.so", b"libhwasan.so"];

/// How the runtime gets into a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loading {
    /// The loader of glibc loads a library into it.
    Preload,
    /// A host maps the program beside the runtime: it is linked statically or to another C library,
    /// or its language makes calls that no library sees.
    Host,
    /// The program starts a Java machine.
    Java,
    /// The loader that the program names is not installed.
    NoLoader,
    /// The file is a host.
    Runtime,
    /// The file is no program for 64-bit x86-64.
    Foreign,
}

/// A section of this name is in every host.
const HOST_SECTION: &[u8] = b".uzram_host";
/// Longer names of loaders, and tables of libraries, are none.
const LOADER_BYTES_MAX: u64 = 4096;
const TABLE_BYTES_MAX: u64 = 1 << 20;

impl Loading {
    /// Reads the facts of a file. `is_there` returns whether a loader is installed.
    ///
    /// # Errors
    /// The file is damaged.
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
        // The system reads no sections, so they may be absent or damaged. Those that a file counts
        // elsewhere than in its header are too many.
        let has_sections = header.e_shnum(end) != 0;
        let sections = header.sections(end, data).ok().filter(|_| has_sections);
        let sections = sections.unwrap_or_default();
        let has = |name: &[u8]| sections.section_by_name(end, name).is_some();
        if has(HOST_SECTION) {
            return Ok(Loading::Runtime);
        }
        let is_go = has(b".go.buildinfo") || has(b".note.go.buildid");
        let segments = header.program_headers(end, data)?;
        let loader = segments.iter().find(|segment| segment.p_type(end) == PT_INTERP);
        let Some(loader) = loader else { return Ok(Loading::Host) };
        if loader.p_filesz(end) > LOADER_BYTES_MAX {
            return Ok(Loading::Foreign);
        }
        let loader = loader.interpreter(end, data)?.unwrap_or_default();
        if !is_there(Path::new(OsStr::from_bytes(loader))) {
            return Ok(Loading::NoLoader);
        }
        if is_go || loader.windows(7).any(|part| part == b"ld-musl") {
            return Ok(Loading::Host);
        }
        let needs = |is_it: fn(&[u8]) -> bool| needs(&sections, data, is_it);
        if needs(|library| library == b"libjli.so")? {
            return Ok(Loading::Java);
        }
        let is_sanitizer = |library: &[u8]| SANITIZERS.iter().any(|name| library.starts_with(name));
        Ok(if needs(is_sanitizer)? { Loading::Host } else { Loading::Preload })
    }
}

/// Returns whether a library that the program names is one of those.
fn needs<'data, R: ReadRef<'data>>(
    sections: &SectionTable<'data, FileHeader64<LittleEndian>, R>,
    data: R,
    is_it: fn(&[u8]) -> bool,
) -> object::Result<bool> {
    let end = LittleEndian;
    let table = sections.iter().find(|section| section.sh_type(end) == SHT_DYNAMIC);
    if table.is_none_or(|table| table.sh_size(end) > TABLE_BYTES_MAX) {
        return Ok(false);
    }
    let Some((entries, strings)) = sections.dynamic(end, data)? else { return Ok(false) };
    let strings = sections.strings(end, data, strings)?;
    let mut names = entries
        .iter()
        .filter(|entry| entry.d_tag(end) == DT_NEEDED)
        .filter_map(|entry| u32::try_from(entry.d_val(end)).ok());
    Ok(names.any(|name| strings.get(name).is_ok_and(is_it)))
}
