//! Formats numbers and names for people, and reports as JSON.

use crate::policy::REPEATED;
pub(crate) use measure::escaped;
use serde::Serialize;

/// Formats a number with the noun that it counts, in the singular or plural.
pub(crate) fn counted(count: u64, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}

/// Formats a number of bytes in the largest binary unit that does not exceed it.
pub(crate) fn human(bytes: impl TryInto<i64>) -> String {
    let bytes = bytes.try_into().unwrap_or(i64::MAX);
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes as f64;
    let mut unit = "B";
    for next in UNITS {
        if value.abs() < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    if unit == "B" { format!("{bytes} B") } else { format!("{value:.1} {unit}") }
}

/// Formats names as a choice: `a, b or c`.
pub(crate) fn one_of(names: &[&str]) -> String {
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => names.concat(),
    }
}

/// Returns `value` shortened and on one line, for an error message.
pub(crate) fn shortened(value: &str) -> String {
    let end = value.char_indices().nth(REPEATED).map(|(at, _)| at);
    let shown = value[..end.unwrap_or(value.len())].escape_debug().to_string();
    if end.is_some() { shown + "..." } else { shown }
}

/// Replaces each run of white space by one space.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns a report as one JSON value and a newline.
pub(crate) fn json(report: &impl Serialize) -> String {
    // Keys are strings, and values are text, finite numbers or null, so serialization can't fail.
    serde_json::to_string_pretty(report).unwrap_or_default() + "\n"
}

/// Returns a report as JSON on one line.
pub(crate) fn json_line(figures: &impl Serialize) -> String {
    // Serialization can't fail, as in `json`.
    serde_json::to_string(figures).unwrap_or_default() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_told_in_binary_units() {
        for (bytes, text) in [
            (0_i64, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (-4096, "-4.0 KiB"),
            (5 << 30, "5.0 GiB"),
        ] {
            assert_eq!(human(bytes), text);
        }
    }

    #[test]
    fn long_values_are_shortened_between_characters() {
        assert_eq!(shortened("a\nb"), "a\\nb");
        assert_eq!(shortened(&"\u{e4}".repeat(REPEATED)), "\u{e4}".repeat(REPEATED));
        let long = "\u{e4}".repeat(REPEATED + 1);
        assert_eq!(shortened(&long), "\u{e4}".repeat(REPEATED) + "...");
    }

    #[test]
    fn one_thing_is_no_plural() {
        assert_eq!((counted(1, "page"), counted(0, "page")), ("1 page".into(), "0 pages".into()));
    }

    #[test]
    fn choices_are_told_with_or() {
        assert_eq!(one_of(&["a", "b", "c"]), "a, b or c");
        assert_eq!((one_of(&["a"]), one_of(&[])), ("a".to_owned(), String::new()));
    }
}
