//! executable: determines how Linux executes a file, and whether `uzram-host`, the executable that
//! contains uzram's runtime, can run the program.
//!
//! ```text
//!   file -> #! -> Script: its interpreter, an argument
//!        -> ELF -> Loading: Program (for x86-64), NoLoader, Host, Foreign
//!        -> Text: for the shell, if anything
//!   FileRights -> Rights: those that the kernel gives the program
//! ```

mod elf;
mod policy;
mod protection;
mod rights;
mod script;

use object::elf::ELFMAG;
use script::LINE;
use std::io::{self, Read, Seek};

pub use elf::Loading;
pub use protection::protection;
pub use rights::{Denial, FileRights, Rights};
pub use script::{DEPTH, Script};

/// The kinds of files. The kernel executes each kind in a different way.
#[derive(Debug)]
pub enum Kind<F> {
    /// An ELF file.
    Elf(F),
    /// A script, whose first line specifies its interpreter.
    Script(Script),
    /// A file that is neither ELF nor a script with an interpreter. A shell runs such a file as a
    /// shell script if the file is executable.
    Text,
}

impl<F: Read + Seek> Kind<F> {
    /// Classifies a regular file.
    ///
    /// # Errors
    /// Fails if the file can't be read.
    pub fn of(mut file: F) -> io::Result<Self> {
        let mut start = Vec::with_capacity(LINE);
        (&mut file).take(LINE as u64).read_to_end(&mut start)?;
        if start.starts_with(&ELFMAG) {
            return Ok(Kind::Elf(file));
        }
        Ok(Script::of(&start).map_or(Kind::Text, Kind::Script))
    }
}
