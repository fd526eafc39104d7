//! What a program's file says of whether a library can be loaded into it.

use object::elf::{DT_NEEDED, EM_X86_64, FileHeader64, PT_INTERP};
use object::read::elf::{Dyn as _, FileHeader as _, ProgramHeader as _, SectionTable};
use object::{FileKind, LittleEndian, ReadCache, ReadRef};
use std::fs::File;

/// What begins every such file.
pub(super) const MAGIC: &[u8] = b"\x7fELF";

/// Why a program can't be run, and what to do.
pub(super) type Unfit = (&'static str, &'static str);

const OTHER_PROCESSOR: Unfit = ("it is not for 64-bit x86-64", "give a program that is");
const STATIC: Unfit = (
    "it is statically linked, and loads no libraries",
    "link it dynamically, or run it without 'uzram run'",
);
const GO: Unfit = ("it is a Go program, which is not supported yet", "run it without 'uzram run'");
const JAVA: Unfit =
    ("it starts a Java machine, which is not supported yet", "run it without 'uzram run'");
const OTHER_LIBRARY: Unfit = (
    "it uses musl, and the library to be loaded uses glibc",
    "give a program that uses glibc, or run it without 'uzram run'",
);

/// Returns why the program of this file can't be run, if it can't.
///
/// # Errors
/// The file is damaged.
pub(super) fn unfit(file: File) -> object::Result<Option<Unfit>> {
    let data = &ReadCache::new(file);
    if FileKind::parse(data)? != FileKind::Elf64 {
        return Ok(Some(OTHER_PROCESSOR));
    }
    let end = LittleEndian;
    let header = FileHeader64::<LittleEndian>::parse(data)?;
    if !header.is_little_endian() || header.e_machine(end) != EM_X86_64 {
        return Ok(Some(OTHER_PROCESSOR));
    }
    let sections = header.sections(end, data)?;
    let has = |name: &[u8]| sections.section_by_name(end, name).is_some();
    if has(b".go.buildinfo") || has(b".note.go.buildid") {
        return Ok(Some(GO));
    }
    let segments = header.program_headers(end, data)?;
    let Some(interpreter) = segments.iter().find(|segment| segment.p_type(end) == PT_INTERP) else {
        return Ok(Some(STATIC));
    };
    let loader = interpreter.interpreter(end, data)?.unwrap_or_default();
    if cfg!(target_env = "gnu") && loader.windows(7).any(|part| part == b"ld-musl") {
        return Ok(Some(OTHER_LIBRARY));
    }
    Ok(needs(&sections, data, b"libjli.so")?.then_some(JAVA))
}

/// Returns whether a library is among those that the program names.
fn needs<'data, R: ReadRef<'data>>(
    sections: &SectionTable<'data, FileHeader64<LittleEndian>, R>,
    data: R,
    library: &[u8],
) -> object::Result<bool> {
    let end = LittleEndian;
    let Some((entries, strings)) = sections.dynamic(end, data)? else { return Ok(false) };
    let strings = sections.strings(end, data, strings)?;
    let mut names = entries
        .iter()
        .filter(|entry| entry.d_tag(end) == DT_NEEDED)
        .filter_map(|entry| u32::try_from(entry.d_val(end)).ok());
    Ok(names.any(|name| strings.get(name) == Ok(library)))
}
