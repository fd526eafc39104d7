//! A structure with a deliberate fault. A model must find the fault, reduce the failing list of
//! events, and print the list as a test. The test must fail again.
#![allow(missing_docs, clippy::unwrap_used)]

use std::panic::catch_unwind;
use std::process::Command;
use testkit::{Choices, Model, Run, replay, run, run_any, seed};

/// A stack that loses its first number when a third number above 100 is pushed.
#[derive(Default)]
struct Stack(Vec<u8>);

impl Stack {
    fn push(&mut self, number: u8) {
        let large = self.0.iter().filter(|number| **number > 100).count();
        if number > 100 && large == 2 {
            self.0.remove(0);
        }
        self.0.push(number);
    }
}

pub struct Toy {
    stack: Stack,
    beside: Vec<u8>,
    has_fault: bool,
}

#[derive(Clone, Debug)]
pub struct Setup {
    has_fault: bool,
}

#[derive(Clone, Debug)]
pub enum Event {
    Push(u8),
    Pop,
    Take { nth: u16 },
}
use Event::{Pop, Push, Take};

impl Model for Toy {
    type Setup = Setup;
    type Event = Event;
    type Report = usize;

    fn setup(choices: &mut Choices) -> Setup {
        Setup { has_fault: choices.bool() }
    }

    fn new(setup: &Setup) -> Option<Self> {
        Some(Toy { stack: Stack::default(), beside: Vec::new(), has_fault: setup.has_fault })
    }

    fn draw(&self, choices: &mut Choices) -> Event {
        match choices.weighted(&[(5, 'p'), (3, 'o'), (1, 't')]) {
            'p' => Push(choices.below(256) as u8),
            'o' => Pop,
            _ => Take { nth: choices.below(1 << 16) as u16 },
        }
    }

    fn apply(&mut self, event: &Event) {
        match event {
            Push(number) => {
                match self.has_fault {
                    true => self.stack.push(*number),
                    false => self.stack.0.push(*number),
                }
                self.beside.push(*number);
            }
            Pop => assert_eq!(self.stack.0.pop(), self.beside.pop()),
            Take { nth } if !self.beside.is_empty() => {
                let nth = usize::from(*nth) % self.beside.len();
                assert_eq!(self.stack.0.remove(nth), self.beside.remove(nth));
            }
            Take { .. } => {}
        }
    }

    fn check(&mut self) {
        assert_eq!(self.stack.0.len(), self.beside.len());
    }

    fn finish(self) -> usize {
        self.beside.len()
    }

    fn simpler(event: &Event) -> Vec<Event> {
        match event {
            Push(0) | Pop => vec![],
            Push(number) => vec![Push(0), Push(number / 2), Push(number - 1)],
            Take { .. } => vec![Pop],
        }
    }
}

fn of(seed: u64, steps: usize) -> Run {
    Run { seed, steps, first: 10, every: 100 }
}

/// Returns the message of the panic of `work`.
fn failure(work: impl FnOnce() + std::panic::UnwindSafe) -> String {
    *catch_unwind(work).unwrap_err().downcast::<String>().unwrap()
}

/// Expands to a closure that executes code, and to the text of the code without spaces.
macro_rules! pasted {
    ($($code:tt)*) => {
        (|| { $($code)* }, stringify!($($code)*).replace(char::is_whitespace, ""))
    };
}

#[test]
fn a_fault_is_found_and_cut_down_to_a_list_that_fails_again() {
    mod toy {
        pub use super::{Event, Setup, Toy};
    }
    let (fails_again, text) = pasted! {
        use toy::{*, Event::*};
        replay::<Toy>(
            Setup { has_fault: true },
            &[
                Push(101),
                Push(101),
                Push(101),
            ],
        );
    };
    for seed in (0..20).map(seed) {
        let failure = failure(|| _ = run::<Toy>(Setup { has_fault: true }, of(seed, 10_000)));
        assert!(failure.starts_with(&format!("UZRAM_SEED={seed} fails at event ")), "{failure}");
        assert!(failure.contains("Cut down to 3 of "), "{failure}");
        assert!(failure.replace(char::is_whitespace, "").ends_with(&text), "{failure}\n{text}");
    }
    assert!(failure(fails_again).contains("left == right"));
}

#[test]
fn without_a_fault_all_is_run() {
    let left = run::<Toy>(Setup { has_fault: false }, of(seed(1), 10_000)).unwrap();
    assert!(left > 500, "{left} of some 1000 are left");
}

#[test]
fn setups_are_drawn() {
    let has_failed = |own| catch_unwind(|| run_any::<Toy>(own, 2000)).is_err();
    let failed = (0..16).filter(|own| has_failed(*own)).count();
    let is_set = std::env::var_os("UZRAM_SEED").is_some();
    assert!(is_set || (1..16).contains(&failed), "{failed} of 16");
}

#[test]
fn the_fuzzers_bytes_are_choices_like_others() {
    // The first byte determines the set-up. Each event consists of a byte for its kind, and the
    // bytes of its numbers.
    let bytes = [1, 0, 150, 0, 150, 5, 0, 150, 0, 150];
    assert!(catch_unwind(|| testkit::fuzz::<Toy>(&bytes)).is_err());
    testkit::fuzz::<Toy>(&bytes[..8]);
    testkit::fuzz::<Toy>(&[]);
    let mut choices = Choices::of_bytes(&[7, 1, 2, 3, 255]);
    assert_eq!((choices.below(1), choices.below(256), choices.below(257)), (0, 7, 0x201 % 257));
    assert_eq!((choices.within(5..=7), choices.is_over()), (5, false));
    assert_eq!((choices.one_in(2), choices.is_over(), choices.u64()), (true, true, 0));
}

#[test]
fn numbers_beside_edges_are_drawn() {
    let mut choices = Choices::seeded(seed(3));
    let mut found = [0; 100];
    (0..10_000).for_each(|_| found[choices.beside(&[0, 50, 99], 99)] += 1);
    assert!(found.iter().all(|times| *times > 10), "{found:?}");
    assert!([0, 1, 49, 50, 51, 98, 99].iter().all(|edge| found[*edge] > 200), "{found:?}");
}

#[test]
fn a_seed_is_printed() {
    seed(5);
}

#[test]
fn a_seed_is_settable() {
    for (set, printed) in [(None, 5), (Some("17"), 17), (Some("0xff"), 255)] {
        let mut again = Command::new(std::env::current_exe().unwrap());
        again.args(["--exact", "a_seed_is_printed", "--nocapture"]).env_remove("UZRAM_SEED");
        again.envs(set.map(|seed| ("UZRAM_SEED", seed)));
        let output = String::from_utf8(again.output().unwrap().stdout).unwrap();
        assert!(output.contains(&format!("UZRAM_SEED={printed}\n")), "{output}");
    }
}
