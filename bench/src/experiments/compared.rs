//! The same blobs and the same work in our pool and in blocks of malloc, each in a process of its own: who takes how much?

use crate::Error;
use crate::contents::Blobs;
use crate::report::{Bound, Figure, Report};
use crate::stores::{StoreKind, Taken, Work, measure};

/// What each store took after each piece of work. Rivals that were not built in are left out.
pub(super) struct Compared {
    ours: Vec<Taken>,
    rivals: Vec<(StoreKind, Vec<Taken>)>,
}

/// A moment at which stores are compared.
pub(super) struct Moment<'a> {
    /// The experiment.
    pub(super) experiment: &'static str,
    /// Its name in figures.
    pub(super) name: &'a str,
    /// After which piece of work.
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
    /// Has every store do the work.
    pub(super) fn run(blobs: &Blobs, script: &[Work]) -> Result<Compared, Error> {
        let here = StoreKind::RIVALS.into_iter().filter(|kind| kind.is_here());
        let rivals = here.map(|kind| Ok((kind, measure(kind, blobs, script)?)));
        Ok(Compared {
            rivals: rivals.collect::<Result<_, Error>>()?,
            ours: measure(StoreKind::Pool, blobs, script)?,
        })
    }

    /// What each took, over the bytes of its blobs.
    pub(super) fn report(&self, moment: &Moment<'_>, report: &mut Report<'_>) -> Result<(), Error> {
        let ours = self.ours[moment.nth];
        let over = |bytes: u64| bytes as f64 / ours.stored as f64;
        let counted = moment.figure("our pool with metadata over C", Some(over(ours.judged())));
        report.add(counted.rival("its process memory", over(ours.held)))?;
        let machine = moment.figure("our pool, machine memory over C", Some(over(ours.machine)));
        report.add(machine)?;
        for kind in StoreKind::RIVALS {
            let name = kind.name();
            let Some(taken) = self.rival(kind, moment) else {
                let missing = moment.figure(&format!("{name} over C"), None);
                report.add(missing.rival_absent(StoreKind::ABSENT))?;
                continue;
            };
            let held = moment.figure(&format!("{name} over C"), Some(over(taken.judged())));
            report.add(held.rival("its machine memory", over(taken.machine)))?;
        }
        Ok(())
    }

    /// Our pool over one rival.
    pub(super) fn over(
        &self,
        kind: StoreKind,
        most: f64,
        moment: &Moment<'_>,
        report: &mut Report<'_>,
    ) -> Result<(), Error> {
        let ours = self.ours[moment.nth].judged() as f64;
        let share = self.rival(kind, moment).map(|rival| ours / rival.judged() as f64);
        let figure = moment.figure(&format!("our pool over {}", kind.name()), share);
        report.add(figure.must(Bound::at_most(most)))
    }

    /// Our pool over the best rival, if all are here.
    pub(super) fn over_best(
        &self,
        most: f64,
        moment: &Moment<'_>,
        report: &mut Report<'_>,
    ) -> Result<(), Error> {
        let ours = self.ours[moment.nth];
        let taken = self.rivals.iter().map(|(kind, taken)| (kind, taken[moment.nth].judged()));
        let best = taken.min_by_key(|(_, bytes)| *bytes);
        let best = best.filter(|_| self.rivals.len() == StoreKind::RIVALS.len());
        let share = best.map(|(_, bytes)| ours.judged() as f64 / bytes as f64);
        let figure = moment.figure("our pool over the best rival", share);
        let figure = figure.must(Bound::at_most(most));
        report.add(match best {
            Some((kind, bytes)) => {
                let name = format!("{}, over C", kind.name());
                figure.rival(name, bytes as f64 / ours.stored as f64)
            }
            None => figure.rival_absent(StoreKind::ABSENT),
        })
    }

    fn rival(&self, kind: StoreKind, moment: &Moment<'_>) -> Option<Taken> {
        let found = self.rivals.iter().find(|(rival, _)| *rival == kind)?;
        found.1.get(moment.nth).copied()
    }
}
