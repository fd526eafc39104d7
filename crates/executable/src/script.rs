//! The first line of a script, which specifies the script's interpreter.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

/// The maximum number of nested interpreters, as in Linux. An interpreter may itself be a script.
pub const DEPTH: u32 = 5;

/// The number of bytes that the kernel examines at the start of a script.
pub(crate) const LINE: usize = 256;

/// The interpreter and the argument in a script's first line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// The program that interprets the script.
    pub interpreter: PathBuf,
    /// The argument that the interpreter receives before the path of the script.
    pub argument: Option<OsString>,
}

impl Script {
    /// Parses the first line of a file. `start` holds the file's first bytes.
    pub(crate) fn of(start: &[u8]) -> Option<Self> {
        let text = start.strip_prefix(b"#!")?;
        let is_blank = |byte: &u8| b" \t".contains(byte);
        let ends = |byte: &u8| *byte == b'\n' || *byte == 0;
        let line = &text[..text.iter().position(ends).unwrap_or(text.len())];
        let trim = |part: &'_ [u8]| {
            let first = part.iter().position(|byte| !is_blank(byte)).unwrap_or(part.len());
            let last = part.iter().rposition(|byte| !is_blank(byte)).map_or(first, |last| last + 1);
            first..last
        };
        let line = &line[trim(line)];
        let end = line.iter().position(is_blank);
        // If the path reaches the end of `start`, it may continue in the file, so the script is
        // refused.
        if end.is_none() && start.len() >= LINE && !text.iter().any(ends) {
            return None;
        }
        let (interpreter, argument) = line.split_at(end.unwrap_or(line.len()));
        let argument = &argument[trim(argument)];
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
            ("#!/bin/sh\r\n", Some(("/bin/sh\r", None))),
            ("#!/bin/sh a\r\n", Some(("/bin/sh", Some("a\r")))),
            (&format!("#!/{}", "a".repeat(300))[..LINE], None),
            (
                &format!("#!/b {}", "a".repeat(300))[..LINE],
                Some(("/b", Some(&"a".repeat(LINE - 5)))),
            ),
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
