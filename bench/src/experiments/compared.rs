//! The memory of a uzram pool and of malloc for the same blobs and the same work. Each store is in
//! a process of its own.

use crate::Error;
use crate::contents::Blobs;
use crate::report::{Bound, Figure, Report};
use crate::stores::{StoreKind, Taken, Work, measure};

/// The memory of each store after each piece of work. Rivals that were not built in are left out.
pub(super) struct Compared(Vec<(StoreKind, Vec<Taken>)>);

/// A moment at which stores are compared.
pub(super) struct Moment<'a> {
    /// The experiment.
    pub(super) experiment: &'static str,
    pub(super) name: &'a str,
    /// The index of the piece of work that was done last.
    pub(super) nth: usize,
}

impl Moment<'_> {
    fn figure(&self, what: &str, value: Option<f64>) -> Figure {
        let name = format!("{}/{what}", self.name);
        match value {
            Some(value) => Figure::new(self.experiment, name, value, ""),
            None => Figure::missing(self.experiment, name, ""),
        }
    }
}

impl Compared {
    pub(super) fn run(blobs: &Blobs, script: &[Work]) -> Result<Compared, Error> {
        let all = StoreKind::RIVALS.into_iter().chain(StoreKind::OURS);
        let here = all.filter(|kind| kind.is_here());
        let taken = here.map(|kind| Ok((kind, measure(kind, blobs, script)?)));
        taken.collect::<Result<_, Error>>().map(Compared)
    }

    fn taken(&self, kind: StoreKind, moment: &Moment<'_>) -> Option<Taken> {
        let found = self.0.iter().find(|(other, _)| *other == kind)?;
        found.1.get(moment.nth).copied()
    }

    /// Reports the memory of each store relative to the bytes of its blobs.
    pub(super) fn report(&self, moment: &Moment<'_>, report: &mut Report<'_>) -> Result<(), Error> {
        for kind in StoreKind::OURS.into_iter().chain(StoreKind::RIVALS) {
            let name = kind.name();
            let Some(taken) = self.taken(kind, moment) else {
                let missing = moment.figure(&format!("{name} over C"), None);
                report.add(missing.rival_absent(StoreKind::ABSENT))?;
                continue;
            };
            let over = |bytes: u64| bytes as f64 / taken.stored as f64;
            if taken.counted.is_some() {
                let held = moment
                    .figure(&format!("{name}, process memory over C"), Some(over(taken.held)));
                report.add(held)?;
            }
            let judged = moment.figure(&format!("{name} over C"), Some(over(taken.judged())));
            report.add(judged.rival("its machine memory", over(taken.machine)))?;
        }
        Ok(())
    }

    /// Reports uzram's memory relative to one rival. Only uzram's store of numbered slots must meet
    /// the bound `most`.
    pub(super) fn over(
        &self,
        kind: StoreKind,
        most: f64,
        moment: &Moment<'_>,
        report: &mut Report<'_>,
    ) -> Result<(), Error> {
        let rival = self.taken(kind, moment).map(|taken| taken.judged());
        self.over_rival(&format!("over {}", kind.name()), rival, most, moment, report)
    }

    /// Reports uzram's memory relative to the best rival, if all rivals are built in.
    pub(super) fn over_best(
        &self,
        most: f64,
        moment: &Moment<'_>,
        report: &mut Report<'_>,
    ) -> Result<(), Error> {
        let rivals = StoreKind::RIVALS.map(|kind| Some(self.taken(kind, moment)?.judged()));
        let best = rivals.into_iter().collect::<Option<Vec<_>>>();
        let best = best.and_then(|rivals| rivals.into_iter().min());
        self.over_rival("over the best rival", best, most, moment, report)
    }

    fn over_rival(
        &self,
        what: &str,
        rival: Option<u64>,
        most: f64,
        moment: &Moment<'_>,
        report: &mut Report<'_>,
    ) -> Result<(), Error> {
        for kind in StoreKind::OURS {
            let ours = self.taken(kind, moment);
            let stored = ours.map(|ours| ours.stored as f64);
            let share = ours.zip(rival).map(|(ours, rival)| ours.judged() as f64 / rival as f64);
            let mut figure = moment.figure(&format!("{} {what}", kind.name()), share);
            if kind == StoreKind::Slots {
                figure = figure.must(Bound::at_most(most));
            }
            report.add(match rival.zip(stored) {
                Some((rival, stored)) => figure.rival("rival over C", rival as f64 / stored),
                None => figure.rival_absent(StoreKind::ABSENT),
            })?;
        }
        Ok(())
    }
}
