//! The programs, and the files to which their lines of bash refer as `$here/NAME`.

use super::Program;

const TABLE: &str = include_str!("table.sh");

pub(super) const FILES: [(&str, &str); 17] = [
    ("Index.hs", include_str!("Index.hs")),
    ("Index.java", include_str!("Index.java")),
    ("columns.py", include_str!("columns.py")),
    ("index.awk", include_str!("index.awk")),
    ("index.go", include_str!("index.go")),
    ("index.js", include_str!("index.js")),
    ("index.lisp", include_str!("index.lisp")),
    ("index.lua", include_str!("index.lua")),
    ("index.php", include_str!("index.php")),
    ("index.pl", include_str!("index.pl")),
    ("index.py", include_str!("index.py")),
    ("index.rb", include_str!("index.rb")),
    ("index.tcl", include_str!("index.tcl")),
    ("lines.R", include_str!("lines.R")),
    ("lists.c", include_str!("lists.c")),
    ("page.html", include_str!("page.html")),
    ("server.py", include_str!("../server.py")),
];

/// Returns all programs.
pub(super) fn programs() -> impl Iterator<Item = Program> {
    TABLE.split("\n#= ").skip(1).map(program)
}

/// Returns the program that a part of the table describes.
fn program(part: &'static str) -> Program {
    let (head, lines) = part.split_once('\n').unwrap_or((part, ""));
    let mut words = head.split(' ');
    let mut word = || words.next().unwrap_or_default();
    let (before, lines) = lines.split_once("\n#-\n").unwrap_or(("", lines));
    Program { name: word(), program: word(), package: word(), before, lines }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_table_has_forty_programs_that_name_only_files_that_exist() {
        let names: BTreeSet<&str> = programs().map(|program| program.name).collect();
        assert!(names.len() >= 40 && names.len() == programs().count(), "{names:?}");
        for Program { name, program, package, before, lines } in programs() {
            assert!(!program.is_empty() && !package.is_empty() && !lines.is_empty(), "{name}");
            for text in [before, lines] {
                for (at, _) in text.match_indices("$here/") {
                    let rest = &text[at + "$here/".len()..];
                    let end = rest.find([' ', ';', '\n', '"']).unwrap_or(rest.len());
                    let is_there = FILES.iter().any(|(file, _)| *file == &rest[..end]);
                    assert!(is_there, "{name}: {}", &rest[..end]);
                }
            }
        }
        let java = programs().find(|program| program.name == "java").unwrap();
        assert!(java.before.starts_with("javac ") && java.lines.starts_with("java "), "{java:?}");
    }
}
