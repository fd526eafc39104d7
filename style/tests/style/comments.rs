//! Finds the comments of files in languages other than Rust, by their delimiters.
//!
//! A string ends with its line, except a triple-quoted string of Python. A triple-quoted string at
//! the start of a line is documentation, which counts as a comment.

use crate::source::Comment;
use crate::tree::kind_of;

/// The delimiters of comments and strings in a language.
struct Signs {
    comment: &'static str,
    has_blocks: bool,
    strings: &'static [&'static str],
    long_strings: &'static [&'static str],
}

const C: Signs =
    Signs { comment: "//", has_blocks: true, strings: &["\"", "'", "`"], long_strings: &[] };
const SHELL: Signs =
    Signs { comment: "#", has_blocks: false, strings: &["\"", "'"], long_strings: &[] };
const PYTHON: Signs = Signs { long_strings: &["\"\"\"", "'''"], ..SHELL };

/// The construct in which a line begins.
enum Within {
    Code,
    Block,
    Long { end: &'static str, is_doc: bool },
}

fn signs_of(path: &str) -> Option<&'static Signs> {
    match kind_of(path) {
        "c" | "cc" | "h" | "hpp" | "js" => Some(&C),
        "py" | "pyi" => Some(&PYTHON),
        "conf" | "in" | "s" | "sh" | "socket" | "toml" => Some(&SHELL),
        _ if ["Makefile", "postinst", "postrm"].iter().any(|name| path.ends_with(name)) => {
            Some(&SHELL)
        }
        _ => None,
    }
}

/// Returns the length of the string literal at the start of `text`. The literal begins and ends
/// with `sign`.
fn string_length(text: &str, sign: &str) -> usize {
    let (bytes, mut at) = (text.as_bytes(), sign.len());
    while at < bytes.len() && !text[at..].starts_with(sign) {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
        at += (at..bytes.len()).take_while(|&at| !text.is_char_boundary(at)).count();
    }
    bytes.len().min(at + sign.len())
}

struct Reader {
    signs: &'static Signs,
    within: Within,
    found: Vec<Comment>,
}

impl Reader {
    fn add(&mut self, line: usize, is_doc: bool, is_trailing: bool, text: &str) {
        let text = text.trim().trim_start_matches(['/', '!', '*', '#']).trim().to_owned();
        self.found.push(Comment { line, is_doc, is_trailing, text });
    }

    /// If a line begins in a comment or a string, reads up to the end of the comment or string.
    /// Returns the remaining text of the line.
    fn end<'l>(&mut self, number: usize, line: &'l str) -> &'l str {
        let (end, is_said, is_doc) = match self.within {
            Within::Code => return line,
            Within::Block => ("*/", true, false),
            Within::Long { end, is_doc } => (end, is_doc, is_doc),
        };
        let (text, rest) = line.split_once(end).unwrap_or((line, ""));
        if is_said {
            self.add(number, is_doc, false, text);
        }
        if line.contains(end) {
            self.within = Within::Code;
        }
        rest
    }

    /// Reads a line. Text after the end of a long string or a block comment is read as code.
    fn read(&mut self, number: usize, line: &str) {
        let rest = self.end(number, line);
        let Within::Code = self.within else { return };
        let mut at = line.len() - rest.len();
        while at < line.len() {
            let (before, text) = line.split_at(at);
            let is_first = before.trim().is_empty();
            let starts = |sign: &&&str| text.starts_with(**sign);
            // In a shell, `$#` and `${name#start}` are not comments.
            let may_begin =
                self.signs.has_blocks || before.is_empty() || before.ends_with([' ', '\t']);
            if text.starts_with(self.signs.comment) && may_begin {
                return self.add(number, false, !is_first, text);
            }
            let long = self.signs.long_strings.iter().find(starts);
            if self.signs.has_blocks && text.starts_with("/*") || long.is_some() {
                let (inside, end, is_doc) = match long {
                    Some(end) => (&text[end.len()..], *end, is_first),
                    None => (&text[2..], "*/", false),
                };
                let is_said = is_doc || long.is_none();
                let (said, after) = inside.split_once(end).unwrap_or((inside, ""));
                if is_said {
                    self.add(number, is_doc, !is_first, said);
                }
                if !inside.contains(end) {
                    self.within = match long {
                        Some(end) => Within::Long { end, is_doc },
                        None => Within::Block,
                    };
                    return;
                }
                at = line.len() - after.len();
            } else if let Some(sign) = self.signs.strings.iter().find(starts) {
                at += string_length(text, sign);
            } else {
                let letter = text.chars().next().map_or(1, char::len_utf8);
                let escaped = text[letter..].chars().next().map_or(0, char::len_utf8);
                at += if text.starts_with('\\') { letter + escaped } else { letter };
            }
        }
    }
}

/// Returns the comments of a file. The list is empty if the file's language is unknown.
pub fn comments(path: &str, text: &str) -> Vec<Comment> {
    let Some(signs) = signs_of(path) else { return Vec::new() };
    let mut reader = Reader { signs, within: Within::Code, found: Vec::new() };
    text.lines().enumerate().for_each(|(nth, line)| reader.read(nth + 1, line));
    reader.found
}

#[cfg(test)]
fn said(path: &str, text: &str) -> Vec<(usize, bool, bool, String)> {
    let found = comments(path, text).into_iter();
    found.map(|said| (said.line, said.is_doc, said.is_trailing, said.text)).collect()
}

#[test]
fn comments_of_c_are_found() {
    let text = "/* One. */ int a; // Two é.\n/*\n * Three.\n \
        */ char *b = \"// é \\\" no\"; /* 4 */\n\
        char c = '\"'; // Five.\n";
    let expected = [
        (1, false, false, "One."),
        (1, false, true, "Two é."),
        (2, false, false, ""),
        (3, false, false, "Three."),
        (4, false, false, ""),
        (4, false, true, "4"),
        (5, false, true, "Five."),
    ];
    for path in ["a.h", "a.c", "a.cc", "a.hpp", "a.js"] {
        assert_eq!(said(path, text), expected.map(|(a, b, c, text)| (a, b, c, text.to_owned())));
    }
    assert_eq!(said("a.txt", text), []);
}

#[test]
fn comments_of_shells_are_found() {
    let text = "#!/bin/sh\nn=$# m=${n#a} '# no' \"it's # no\" \\' # One's.\n  # Two.\n";
    let expected =
        [(1, false, false, "bin/sh"), (2, false, true, "One's."), (3, false, false, "Two.")];
    for path in ["a.sh", "Makefile", "a/Makefile", "a.toml", "postinst"] {
        assert_eq!(said(path, text), expected.map(|(a, b, c, text)| (a, b, c, text.to_owned())));
    }
}

#[test]
fn comments_of_python_are_found() {
    let text = "\"\"\"Head.\"\"\"\ndef f():\n    '''Doc.\n\n    More.\n    '''\n    # Why.\n    \
        return '# no', \"\"\"# no\n# no\"\"\", 'it\\'s # no'  # Yes.\n";
    let expected = [
        (1, true, false, "Head."),
        (3, true, false, "Doc."),
        (4, true, false, ""),
        (5, true, false, "More."),
        (6, true, false, ""),
        (7, false, false, "Why."),
        (9, false, true, "Yes."),
    ];
    for path in ["a.py", "a.pyi"] {
        assert_eq!(said(path, text), expected.map(|(a, b, c, text)| (a, b, c, text.to_owned())));
    }
}
