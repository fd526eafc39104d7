//! Numbers as people read them.

/// A number of things.
pub(crate) fn counted(count: u64, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}

/// Bytes in the largest binary unit they fill.
pub(crate) fn human(bytes: i64) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_told_in_binary_units() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (-4096, "-4.0 KiB"),
            (5 << 30, "5.0 GiB"),
        ] {
            assert_eq!(human(bytes), text);
        }
    }

    #[test]
    fn one_thing_is_no_plural() {
        assert_eq!((counted(1, "page"), counted(0, "page")), ("1 page".into(), "0 pages".into()));
    }
}
