//! executable: reads how Linux executes a file, and how the runtime of uzram gets into the program.
//!
//! ```text
//!   file -> #! -> Script: its interpreter, an argument
//!        -> ELF -> Loading: Preload (linked to glibc), Host (anything else for x86-64), Foreign
//!        -> Text: for the shell, if anything
//! ```

mod elf;
mod script;

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

pub use elf::Loading;
pub use script::Script;

/// The most interpreters of interpreters, as of Linux.
pub const DEPTH: u32 = 5;

/// Bytes of a script that the system looks at.
const LINE: u64 = 256;

/// The first bytes of every ELF file.
const MAGIC: &[u8] = b"\x7fELF";

/// What a file is to the system.
#[derive(Debug)]
pub enum Kind {
    /// A program.
    Elf(File),
    /// A script with a first line that names its interpreter.
    Script(Script),
    /// Anything else: text for the shell, if it is executable.
    Text,
}

impl Kind {
    /// Reads what a file is.
    ///
    /// # Errors
    /// The file can't be read.
    pub fn of(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let mut start = Vec::new();
        (&mut file).take(LINE).read_to_end(&mut start)?;
        if start.starts_with(MAGIC) {
            return Ok(Kind::Elf(file));
        }
        Ok(Script::of(&start).map_or(Kind::Text, Kind::Script))
    }
}
