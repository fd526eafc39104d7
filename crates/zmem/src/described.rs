//! Names of the backends of arenas, and the reasons why a backend was chosen. A process publishes
//! both to other processes as one number.

pub(crate) const GUARDS: &str = "signal: marks of page tables; needs no right";
pub(crate) const NO_GUARDS: &str =
    "signal-mappings: a mapping for each run of marked blocks; the system has no guards";
pub(crate) const MAPPINGS: &str =
    "signal-mappings: a mapping for each run of marked blocks; asked for";
pub(crate) const NO_MEMORY_FILE: &str =
    "signal-remap: blocks are moved to their places; /proc/self/mem is refused";
pub(crate) const REMAP: &str = "signal-remap: blocks are moved to their places; asked for";

/// The list of descriptions. The number of a description is its index in this list plus 1.
const ALL: [&str; 5] = [GUARDS, NO_GUARDS, MAPPINGS, NO_MEMORY_FILE, REMAP];

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
