//! What is said to people, on standard error. Nobody is left to tell that it could not be: so that ends nothing.

use std::fmt::Arguments;
use std::io::Write as _;

/// A line, with the command's name before it.
pub(crate) fn line(line: Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "uzram: {line}");
}

/// Says a line, as `eprintln` would, which panics where standard error is gone.
macro_rules! say {
    ($($line:tt)*) => { $crate::say::line(format_args!($($line)*)) };
}

pub(crate) use say;
