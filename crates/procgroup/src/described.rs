//! Names of the backends of arenas, and the reasons why a backend was chosen. A process publishes
//! both to other processes as one number: the index in the list of all descriptions plus 1.

use zmem::ARENA_BACKENDS as ALL;

/// Returns the number for a backend's name and the reason for its choice, or 0 if the list does not
/// contain both.
pub(crate) fn number(name: &str, reason: &str) -> u64 {
    let is_it = |of: &&str| of.split_once(": ") == Some((name, reason));
    ALL.iter().position(is_it).map_or(0, |nth| nth as u64 + 1)
}

/// Returns the backend's name and the reason for its choice, given their number.
pub(crate) fn described(number: u64) -> (&'static str, &'static str) {
    let nth = number.checked_sub(1).and_then(|nth| usize::try_from(nth).ok());
    nth.and_then(|nth| ALL.get(nth)?.split_once(": ")).unwrap_or(("unknown", ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_for_backends() {
        for (nth, text) in (1..).zip(ALL) {
            let (name, reason) = described(nth);
            assert_eq!((number(name, reason), format!("{name}: {reason}")), (nth, text.to_owned()));
            // The texts are written to JSON without escapes.
            assert!(!text.contains(['"', '\\']) && text.is_ascii(), "{text}");
        }
        assert_eq!(number("signal", "another"), 0);
        assert!([0, 6, u64::MAX].iter().all(|number| described(*number) == ("unknown", "")));
    }
}
