//! run: starts a program with a host (the executable `uzram-host`, which contains uzram's runtime),
//! and reads the figures that the program's processes publish.
//!
//! ```text
//!   search: PATH, interpreters -> executable, rights: can a host run it?
//!     -> launch: a helper, which injects a host; the program | the host SETTINGS FILE ...
//!     exec:  the program takes the place of this process
//!     watch: child: signals passed on, its end -> stats_file -> Figures
//!   find: PID -> the file that the processes of a running program share -> Figures
//! ```
//! The caller, the command `uzram`, defines the arguments, the printed tables and the exit codes.

mod child;
mod figures;
mod host;
mod launch;
mod live;
mod policy;
mod refusal;
mod rights;
mod search;
mod settings;
mod start;
mod stats_file;
mod tree;

pub use figures::{Figures, KILLED, Line, number, sum_of, text};
pub use live::{Program, find};
pub use refusal::Refusal;
pub use settings::{Options, Stats};
pub use start::Start;
