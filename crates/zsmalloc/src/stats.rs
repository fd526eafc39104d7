//! Statistics per class, and the table of them with the columns of the kernel's `classes` file.

use crate::class::{FULL, GROUPS};
use crate::class_guard::ClassGuard;
use crate::geometry::ClassShape;
use page::page_size;
use std::fmt;

/// What a class holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassStat {
    /// The class and its zspages.
    pub shape: ClassShape,
    /// Zspages per fullness group: empty, 10% .. 90%, 99%, 100%.
    pub groups: [u32; GROUPS],
    /// Objects that the zspages there are have room for.
    pub obj_allocated: u64,
    /// Objects in use.
    pub obj_used: u64,
    /// Pages committed.
    pub committed: u64,
    /// Of them, those that no live object touches.
    pub ready: u64,
    /// Pages that moving objects could free: whole zspages' worth where those are committed whole.
    pub gain: u64,
    /// Whether zspages are committed whole.
    pub whole: bool,
}

impl ClassStat {
    pub(crate) fn new(shape: ClassShape, locked: &ClassGuard<'_>) -> Self {
        let (class, state) = (locked.class(), &locked.state);
        let mut groups = std::array::from_fn(|group| match group {
            FULL => 0,
            _ => locked.group(group).count() as u32,
        });
        groups[FULL] = state.zspages - groups.iter().sum::<u32>();
        ClassStat {
            shape,
            groups,
            obj_allocated: state.zspages as u64 * class.objects() as u64,
            obj_used: state.inuse as u64,
            committed: state.committed as u64,
            ready: state.retained as u64,
            gain: class.gain(state) as u64,
            whole: class.commits_whole,
        }
    }

    /// Returns the pages of address space of the class's zspages.
    pub fn pages_used(&self) -> u64 {
        self.obj_allocated / self.shape.objects as u64 * self.shape.pages as u64
    }

    /// Returns the pages that moving objects together would free: whole zspages' worth of free
    /// slots, as far as their pages are committed at all.
    pub fn freeable(&self) -> u64 {
        let free = self.obj_allocated.saturating_sub(self.obj_used);
        let zspages = free / self.shape.objects as u64 * self.shape.pages as u64;
        zspages.min(self.slack())
    }

    /// Returns the pages that objects touch, beyond those that they need at least.
    fn slack(&self) -> u64 {
        let packed = (self.obj_used * self.shape.size as u64).div_ceil(page_size() as u64);
        self.committed.saturating_sub(self.ready + packed)
    }
}

/// The statistics of all classes.
#[derive(Clone, Debug)]
pub struct Classes(Vec<ClassStat>);

impl Classes {
    pub(crate) fn new(stats: impl Iterator<Item = ClassStat>) -> Self {
        Classes(stats.collect())
    }

    /// Iterates over one entry per class, smallest size first.
    pub fn iter(&self) -> impl Iterator<Item = &ClassStat> {
        self.0.iter()
    }

    /// Returns the sum of one column.
    fn total(&self, column: impl Fn(&ClassStat) -> u64) -> u64 {
        self.0.iter().map(column).sum()
    }
}

const LABELS: [&str; 11] =
    ["10%", "20%", "30%", "40%", "50%", "60%", "70%", "80%", "90%", "99%", "100%"];

impl fmt::Display for Classes {
    /// Returns the kernel's columns, and where zspages are committed page by page, `committed`
    /// behind them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " {:>5} {:>5}", "class", "size")?;
        for label in LABELS {
            write!(f, " {label:>9}")?;
        }
        write!(f, " {:>13} {:>10} {:>10}", "obj_allocated", "obj_used", "pages_used")?;
        let by_page = self.0.iter().any(|stat| !stat.whole);
        let committed = |f: &mut fmt::Formatter<'_>, text: &dyn fmt::Display| match by_page {
            true => writeln!(f, " {text:>9}"),
            false => writeln!(f),
        };
        write!(f, " {:>16} {:>8}", "pages_per_zspage", "freeable")?;
        committed(f, &"committed")?;
        for stat in &self.0 {
            write!(f, " {:>5} {:>5}", stat.shape.index, stat.shape.size)?;
            for group in 1..=FULL {
                write!(f, " {:>9}", stat.groups[group])?;
            }
            write!(f, " {:>13} {:>10}", stat.obj_allocated, stat.obj_used)?;
            write!(f, " {:>10} {:>16}", stat.pages_used(), stat.shape.pages)?;
            write!(f, " {:>8}", stat.freeable())?;
            committed(f, &stat.committed)?;
        }
        write!(f, "\n {:>5} {:>5}", "Total", "")?;
        for group in 1..=FULL {
            write!(f, " {:>9}", self.total(|stat| stat.groups[group] as u64))?;
        }
        let sum = |column: fn(&ClassStat) -> u64| self.total(column);
        write!(f, " {:>13}", sum(|stat| stat.obj_allocated))?;
        write!(f, " {:>10}", sum(|stat| stat.obj_used))?;
        write!(f, " {:>10} {:>16}", sum(ClassStat::pages_used), "")?;
        write!(f, " {:>8}", sum(ClassStat::freeable))?;
        committed(f, &sum(|stat| stat.committed))
    }
}
