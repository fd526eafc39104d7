//! The first line of a script.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

/// What a script's first line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// The program that interprets the script.
    pub interpreter: PathBuf,
    /// The argument of the interpreter before the script's path.
    pub argument: Option<OsString>,
}

impl Script {
    /// Reads the first line of a file that starts with `start`.
    pub(crate) fn of(start: &[u8]) -> Option<Self> {
        let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
        let line = line.split(|byte| *byte == 0).next()?;
        let line = line.trim_ascii();
        let end = line.iter().position(|byte| b" \t".contains(byte)).unwrap_or(line.len());
        let (interpreter, argument) = line.split_at(end);
        let argument = argument.trim_ascii();
        (!interpreter.is_empty()).then(|| Script {
            interpreter: PathBuf::from(OsStr::from_bytes(interpreter)),
            argument: (!argument.is_empty()).then(|| OsStr::from_bytes(argument).to_owned()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_lines_are_read_as_the_system_does() {
        for (start, expected) in [
            ("#!/bin/sh\necho", Some(("/bin/sh", None))),
            ("#! \t/usr/bin/env python3\n", Some(("/usr/bin/env", Some("python3")))),
            ("#!/usr/bin/env -S a b \t\n", Some(("/usr/bin/env", Some("-S a b")))),
            ("#!/bin/sh", Some(("/bin/sh", None))),
            ("#!relative\t-x", Some(("relative", Some("-x")))),
            ("#!\n/bin/sh", None),
            ("#! ", None),
            ("# !/bin/sh", None),
            ("", None),
        ] {
            let found = Script::of(start.as_bytes());
            let expected = expected.map(|(interpreter, argument)| Script {
                interpreter: PathBuf::from(interpreter),
                argument: argument.map(OsString::from),
            });
            assert_eq!(found, expected, "{start}");
        }
    }
}
