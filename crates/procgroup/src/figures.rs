//! The statistics of a process: sizes of its memory, and counts of events. Each field has the name
//! under which it is reported.

use crate::layout::{GroupRow, ROW};
use std::fmt::Write;
use zmem::{ARENA_BACKENDS, Histogram, Stats};

const TIMES_AT: usize = ROW - Histogram::WORDS;

/// Combines a figure of the current program (`own`) with the figure of the process's earlier
/// programs. Returns `own`, because the figure describes only the current program.
fn own(own: u64, _before: u64) -> u64 {
    own
}

macro_rules! figures {
    ($($(#[$doc:meta])* $name:ident: $join:path,)*) => {
        /// The statistics of a process whose memory an arena manages.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Figures {
            $($(#[$doc])* pub $name: u64,)*
            /// The durations of the faults that the pager handled. The time in which the kernel
            /// delivers faults is not included.
            pub faults: Histogram,
        }

        const NAMES: [&str; [$(stringify!($name)),*].len()] = [$(stringify!($name)),*];

        impl Figures {
            fn values(&self) -> [u64; NAMES.len()] {
                [$(self.$name),*]
            }

            /// Adds `before`, the figures of the process from before its last `execve`.
            pub(crate) fn after(&self, before: &Self) -> Self {
                let faults = self.faults.plus(&before.faults);
                Figures { $($name: $join(self.$name, before.$name),)* faults }
            }

            fn of_values([$($name),*]: [u64; NAMES.len()], faults: Histogram) -> Self {
                Figures { $($name,)* faults }
            }
        }
    };
}

figures! {
    /// The ID of the process.
    process: own,
    /// The memory limit in bytes, or 0 if no limit is set.
    limit: own,
    /// The size of a block in bytes.
    block: own,
    /// The number of bytes that the process holds. The documentation of [`Stats`] explains this
    /// figure and all others that are also fields of [`Stats`].
    held: own,
    /// The maximum of `held` so far.
    held_max: u64::max,
    /// 1 if the process shares the limit with other processes, else 0.
    in_tree: own,
    /// The number of bytes that are charged to this process in the group: its anonymous memory
    /// without the memory that is charged to its parent, and its share of shared memory.
    tree_held: own,
    /// The maximum number of bytes that all processes of the group held together.
    tree_held_max: own,
    /// The number of bytes in resident blocks.
    resident: own,
    /// The maximum of `resident` so far.
    resident_max: u64::max,
    /// The size of the data on the device before compression, in bytes.
    stored: own,
    /// The value of `stored` when `compressed` was at its maximum.
    stored_max: u64::max,
    /// The size of the data on the device after compression, in bytes.
    compressed: own,
    /// The maximum of `compressed` so far.
    compressed_max: u64::max,
    /// The size of the device's pool in bytes.
    pool: own,
    /// The size of the runtime's own heap in bytes.
    heap: own,
    /// The number of blocks that were touched for the first time.
    first_touches: u64::saturating_add,
    /// The number of blocks that were accessed during probation.
    kept: u64::saturating_add,
    /// The number of blocks that were filled from the device.
    filled: u64::saturating_add,
    /// The number of blocks that were evicted.
    evicted: u64::saturating_add,
    /// The number of evicted blocks that the compressor thread of the runtime stored.
    aside: u64::saturating_add,
    /// The number of blocks that stayed resident because their eviction failed.
    refused: u64::saturating_add,
    /// The number of system calls that were dispatched.
    calls: u64::saturating_add,
    /// The number of system calls whose time was measured.
    calls_timed: u64::saturating_add,
    /// The time that the runtime took for the measured system calls, in nanoseconds.
    calls_timed_ns: u64::saturating_add,
    /// The time that each system call takes to enter and leave the runtime, in nanoseconds.
    signal_ns: own,
    /// The index of the backend in `ARENA_BACKENDS` plus 1, or 0 if unknown.
    backend: own,
}

const _: () = assert!(NAMES.len() <= TIMES_AT);

impl Figures {
    /// Returns the figures of an arena. A figure that `stats` lacks is 0.
    pub fn of(stats: &Stats) -> Self {
        Figures {
            limit: stats.limit.unwrap_or(0),
            block: stats.block as u64,
            held: stats.held,
            held_max: stats.held_max,
            resident: stats.resident,
            resident_max: stats.resident_max,
            stored: stats.stored,
            stored_max: stats.stored_max,
            compressed: stats.compressed,
            compressed_max: stats.compressed_max,
            pool: stats.pool,
            first_touches: stats.first_touches,
            kept: stats.kept,
            filled: stats.filled,
            evicted: stats.evicted,
            aside: stats.aside,
            refused: stats.refused,
            backend: backend_number(stats.backend, stats.backend_reason),
            faults: stats.faults,
            ..Figures::default()
        }
    }

    pub(crate) fn words(&self) -> GroupRow<u64> {
        let mut words = [0; ROW];
        words[..NAMES.len()].copy_from_slice(&self.values());
        words[TIMES_AT..].copy_from_slice(&self.faults.words());
        words
    }

    /// Returns the figures that `words` encode. Any values of the words are valid.
    pub(crate) fn of_words(words: &GroupRow<u64>) -> Self {
        let mut values = [0; NAMES.len()];
        values.copy_from_slice(&words[..NAMES.len()]);
        let faults = Histogram::of_words(&std::array::from_fn(|nth| words[TIMES_AT + nth]));
        Figures::of_values(values, faults)
    }

    /// Returns the figures as one line of JSON.
    pub fn json(&self) -> String {
        let micros = |share| self.faults.per_mille(share).as_micros() as u64;
        let calls_us = u128::from(self.calls) * u128::from(self.call_ns()) / 1000;
        let derived = [
            ("faults", self.faults.count()),
            ("faults_us", self.faults.total().as_micros() as u64),
            ("fault_us_median", micros(500)),
            ("fault_us_99", micros(990)),
            ("fault_us_999", micros(999)),
            ("call_ns", self.call_ns()),
            ("calls_us", calls_us.min(u64::MAX.into()) as u64),
        ];
        let named = NAMES.into_iter().zip(self.values()).filter(|(name, _)| *name != "backend");
        let mut line = String::from("{");
        for (name, value) in named.chain(derived) {
            let _infallible = write!(line, "\"{name}\":{value},");
        }
        let _infallible = match (self.stored_max, self.compressed_max) {
            (_, 0) => write!(line, "\"ratio\":null"),
            (stored, compressed) => {
                write!(line, "\"ratio\":{:.2}", stored as f64 / compressed as f64)
            }
        };
        let (backend, reason) = backend_of(self.backend);
        let _infallible =
            writeln!(line, ",\"backend\":\"{backend}\",\"backend_reason\":\"{reason}\"}}");
        line
    }

    /// Returns the average overhead of a dispatched system call in nanoseconds. The time of the
    /// system call itself is not included.
    fn call_ns(&self) -> u64 {
        let inside = self.calls_timed_ns.checked_div(self.calls_timed).unwrap_or(0);
        self.signal_ns.saturating_add(inside)
    }
}

/// Returns the number that encodes a backend's name and the reason for choosing this backend. The
/// number is the index in `ARENA_BACKENDS` plus 1, or 0 if the list does not contain this pair.
fn backend_number(name: &str, reason: &str) -> u64 {
    let is_it = |of: &&str| of.split_once(": ") == Some((name, reason));
    ARENA_BACKENDS.iter().position(is_it).map_or(0, |nth| nth as u64 + 1)
}

/// Returns the name of the backend that `number` encodes, and the reason for choosing it.
fn backend_of(number: u64) -> (&'static str, &'static str) {
    let nth = number.checked_sub(1).and_then(|nth| usize::try_from(nth).ok());
    let text = nth.and_then(|nth| ARENA_BACKENDS.get(nth)?.split_once(": "));
    text.unwrap_or(("unknown", ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_for_backends() {
        for (nth, text) in (1..).zip(ARENA_BACKENDS) {
            let (name, reason) = backend_of(nth);
            let number = backend_number(name, reason);
            assert_eq!((number, format!("{name}: {reason}")), (nth, text.to_owned()));
            // These texts are copied to JSON without escapes.
            assert!(!text.contains(['"', '\\']) && text.is_ascii(), "{text}");
        }
        assert_eq!(backend_number("signal", "another"), 0);
        assert!([0, 6, u64::MAX].iter().all(|number| backend_of(*number) == ("unknown", "")));
    }

    #[test]
    fn words_are_figures_and_the_other_way_round() {
        let mut rng = fastrand::Rng::with_seed(testkit::seed(1));
        for _ in 0..1000 {
            let words: GroupRow<u64> = std::array::from_fn(|_| rng.u64(..) >> rng.u32(..64));
            let figures = Figures::of_words(&words);
            assert_eq!(Figures::of_words(&figures.words()), figures);
            assert_eq!((figures.process, figures.limit), (words[0], words[1]));
            let line = figures.json();
            assert!(line.starts_with("{\"process\":") && line.ends_with("\"}\n"), "{line}");
        }
    }

    #[test]
    fn what_calls_cost_is_what_some_did() {
        let figures = Figures {
            calls: 1000,
            calls_timed: 10,
            calls_timed_ns: 5000,
            signal_ns: 2000,
            stored_max: 3000,
            compressed_max: 900,
            backend: 1,
            ..Figures::default()
        };
        let line = figures.json();
        for part in ["\"call_ns\":2500,", "\"calls_us\":2500,", "\"ratio\":3.33,"] {
            assert!(line.contains(part), "{part}: {line}");
        }
        assert!(line.contains("\"backend\":\"signal\",\"backend_reason\":\"marks of"), "{line}");
        let line = Figures::default().json();
        assert!(line.contains("\"call_ns\":0,") && line.contains("\"ratio\":null,"), "{line}");
    }

    #[test]
    fn what_was_done_before_is_added_and_what_was_held_is_not() {
        // Each figure is a different power of two. The figures in `before` are twice as large.
        let of = |by: u64| {
            Figures::of_values(std::array::from_fn(|nth| by << nth), Histogram::default())
        };
        let (own, before) = (of(1), of(2));
        let (sum, most) = (own.after(&before), |now: u64| 2 * now);
        assert_eq!((sum.evicted, sum.calls_timed_ns), (3 * own.evicted, 3 * own.calls_timed_ns));
        assert_eq!((sum.held_max, sum.stored_max), (most(own.held_max), most(own.stored_max)));
        assert_eq!((sum.held, sum.process, sum.signal_ns), (own.held, own.process, own.signal_ns));
        // The new program has done nothing yet.
        let first = Figures::default().after(&before);
        assert_eq!((first.held, first.heap, first.tree_held), (0, 0, 0));
        assert_eq!((first.held_max, first.filled), (before.held_max, before.filled));
        let most = Figures::of_words(&[u64::MAX; ROW]);
        assert_eq!(most.after(&most).evicted, u64::MAX);
    }

    #[test]
    fn times_of_faults_are_added_up() {
        // The two faults of 3 and 5 us lie in the buckets below 4.1 and 8.2 us.
        let words = std::array::from_fn(|nth| match nth {
            12 | 13 => 1,
            36 => 8000,
            _ => 0,
        });
        let figures = Figures { faults: Histogram::of_words(&words), ..Figures::default() };
        let line = figures.json();
        for part in ["\"faults\":2,", "\"faults_us\":8,", "\"fault_us_99\":8,"] {
            assert!(line.contains(part), "{part}: {line}");
        }
        assert_eq!(Figures::of_words(&figures.words()), figures);
        assert_eq!(figures.after(&figures).faults.count(), 4);
    }
}
