//! A structure and what it must be like, as events on both.

use crate::quiet::caught;
use crate::shrink::shrink;
use crate::{Choices, seed};
use std::fmt::{Debug, Write};
use std::sync::LazyLock;

/// A structure and what it must be like.
///
/// Events name things by which of those there are at the moment, never by a handle, and contents by
/// a number from which they follow. So each part of a list of events is a list of events.
pub trait Model: Sized {
    /// How it is made: geometry, sizes, what refuses it memory.
    type Setup: Clone + Debug;
    /// Something that is done to it.
    type Event: Clone + Debug;
    /// What a test may ask of a whole run: how often something came about.
    type Report;

    fn setup(choices: &mut Choices) -> Self::Setup;

    /// Returns None where the setup itself has it refused.
    fn new(setup: &Self::Setup) -> Option<Self>;

    fn draw(&self, choices: &mut Choices) -> Self::Event;

    /// Does it to both sides, and compares the answers.
    fn apply(&mut self, event: &Self::Event);

    /// Compares all contents, and has the structure check itself.
    fn check(&mut self);

    /// Takes all out; nothing is left.
    fn finish(self) -> Self::Report;

    /// Returns simpler events that may fail in the same way: half as long, the first of its kind.
    fn simpler(_: &Self::Event) -> Vec<Self::Event> {
        Vec::new()
    }
}

/// How long a run is, and how often all is checked.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    pub seed: u64,
    /// Events.
    pub steps: usize,
    /// All is checked after each of so many first events.
    pub first: usize,
    /// And then after every so many.
    pub every: usize,
}

/// Draws and applies events, while there are choices. All of them are in `events` in the end.
fn explore<M: Model>(
    setup: &M::Setup,
    choices: &mut Choices,
    run: Run,
    events: &mut Vec<M::Event>,
) -> Option<M::Report> {
    let mut model = M::new(setup)?;
    while !choices.is_over() && events.len() < run.steps {
        let event = model.draw(choices);
        events.push(event.clone());
        model.apply(&event);
        if events.len() <= run.first || events.len().is_multiple_of(run.every) {
            model.check();
        }
    }
    model.check();
    Some(model.finish())
}

/// Applies a list of events that once failed, for a test of that.
pub fn replay<M: Model>(setup: M::Setup, events: &[M::Event]) {
    let Some(mut model) = M::new(&setup) else { return };
    let every = events.len().div_ceil(64);
    for (nth, event) in events.iter().enumerate() {
        model.apply(event);
        if nth % every == 0 {
            model.check();
        }
    }
    model.check();
    model.finish();
}

/// Draws and applies events from a seed. After a failure it cuts the list down, and panics with it.
/// Returns None where the setup has the structure refused.
pub fn run<M: Model>(setup: M::Setup, run: Run) -> Option<M::Report> {
    let by = format!("UZRAM_SEED={}", run.seed);
    find::<M>(setup, Choices::seeded(run.seed), run, &by)
}

/// The same with a setup that is drawn, too.
pub fn run_any<M: Model>(own_seed: u64, steps: usize) -> Option<M::Report> {
    let seed = seed(own_seed);
    let mut choices = Choices::seeded(seed);
    let setup = M::setup(&mut choices);
    let run = Run { seed, steps, first: steps / 20, every: steps / 20 + 1 };
    find::<M>(setup, choices, run, &format!("UZRAM_SEED={seed}"))
}

/// A fuzz target's whole body. With `UZRAM_SHRINK` in the environment what fails is cut down, else
/// the fuzzer is told of it at once.
pub fn fuzz<M: Model>(bytes: &[u8]) {
    static SHRINKS: LazyLock<bool> = LazyLock::new(|| std::env::var_os("UZRAM_SHRINK").is_some());
    let mut choices = Choices::of_bytes(bytes);
    let setup = M::setup(&mut choices);
    let run = Run { seed: 0, steps: usize::MAX, first: 0, every: 64 };
    if *SHRINKS {
        find::<M>(setup, choices, run, "these bytes");
    } else {
        explore::<M>(&setup, &mut choices, run, &mut Vec::new());
    }
}

fn find<M: Model>(setup: M::Setup, mut choices: Choices, run: Run, by: &str) -> Option<M::Report> {
    let mut events = Vec::new();
    match caught(|| explore::<M>(&setup, &mut choices, run, &mut events)) {
        Ok(report) => report,
        Err(failure) => panic!("{}", explained::<M>(&setup, events, &failure, by)),
    }
}

/// What failed, and the shortest list of events found that fails.
fn explained<M: Model>(setup: &M::Setup, events: Vec<M::Event>, failure: &str, by: &str) -> String {
    let fails = |events: &[M::Event]| caught(|| replay::<M>(setup.clone(), events)).err();
    let all = events.len();
    let mut text = format!("{by} fails at event {all}: {failure}\n");
    if fails(&events).is_none() {
        text += "The same events do not fail again: something else decides, too.\n";
        return text;
    }
    let shrunk = shrink(events, M::simpler, |events| fails(events).is_some());
    let (left, tries) = (shrunk.events.len(), shrunk.tries);
    let last = fails(&shrunk.events).unwrap_or_default();
    let _ = writeln!(text, "Cut down to {left} of {all} events in {tries} tries: {last}");
    text + &pasted::<M>(setup, &shrunk.events)
}

/// A list of events as the body of a test.
fn pasted<M: Model>(setup: &M::Setup, events: &[M::Event]) -> String {
    let name = std::any::type_name::<M>();
    let (module, name) = name.rsplit_once("::").unwrap_or(("self", name));
    let mut text = format!("use {module}::{{*, Event::*}};\nreplay::<{name}>(\n    {setup:?},\n");
    text += "    &[\n";
    for event in events {
        let _ = writeln!(text, "        {event:?},");
    }
    text + "    ],\n);\n"
}
