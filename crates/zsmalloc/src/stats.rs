//! Statistics of compaction and of each class. The classes are displayed as a table with the
//! columns of the kernel's `classes` file.

use crate::class::{FULL, GROUPS};
use crate::class_guard::ClassGuard;
use crate::geometry::ClassShape;
use crate::inner::PoolInner;
use crate::sync::Ordering::Relaxed;
use page::page_size;
use std::fmt;
use std::time::Duration;

/// The statistics of compaction since the pool was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompactionStat {
    /// The number of objects moved.
    pub moved_objects: u64,
    /// The number of bytes moved.
    pub moved_bytes: u64,
    /// The number of pages freed, minus the number of pages committed for moved objects.
    pub freed_pages: u64,
    /// The processor time used.
    pub cpu: Duration,
    /// The number of times that any thread computed a new plan of open classes.
    pub plans: u64,
    /// The number of background threads of either kind that ended by a panic. If work is left,
    /// another thread is started after a pause of one second. The pause doubles with each panic, up
    /// to a minute.
    pub panics: u64,
}

impl CompactionStat {
    pub(crate) fn of(inner: &PoolInner) -> Self {
        let PoolInner { compaction, compactor, prefaulter, .. } = inner;
        let spent = compaction.spent_pages.load(Relaxed);
        CompactionStat {
            moved_objects: compaction.moved_objects.load(Relaxed),
            moved_bytes: compaction.moved_bytes.load(Relaxed),
            freed_pages: compaction.freed_pages.load(Relaxed).saturating_sub(spent),
            cpu: Duration::from_nanos(compaction.cpu_nanoseconds.load(Relaxed)),
            plans: compaction.plans.load(Relaxed),
            panics: compactor.panics() + prefaulter.panics(),
        }
    }
}

/// The statistics of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassStat {
    /// The shape of the class's zspages.
    pub shape: ClassShape,
    /// The number of zspages per fullness group: empty, 10% .. 90%, 99%, 100%.
    pub groups: [u32; GROUPS],
    /// The number of slots of the class's zspages, free or in use.
    pub obj_allocated: u64,
    /// The number of live objects.
    pub obj_used: u64,
    /// The number of committed pages.
    pub committed: u64,
    /// The number of committed pages that no live object touches.
    pub ready: u64,
    /// The number of pages that compaction could free. If zspages are committed whole, only pages
    /// of zspages that compaction could empty are counted.
    pub gain: u64,
    /// True if zspages are committed whole.
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

    /// Returns the number of pages of address space that the class's zspages occupy.
    pub fn pages_used(&self) -> u64 {
        self.obj_allocated / self.shape.objects as u64 * self.shape.pages as u64
    }

    /// Returns the number of pages that compaction could free, which are the committed pages of the
    /// zspages that packing would empty.
    pub fn freeable(&self) -> u64 {
        let free = self.obj_allocated.saturating_sub(self.obj_used);
        let zspages = free / self.shape.objects as u64 * self.shape.pages as u64;
        zspages.min(self.slack())
    }

    /// Returns the number of pages with objects, minus the smallest number of pages that could hold
    /// these objects.
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

    /// Iterates over the statistics of each class, smallest size first.
    pub fn iter(&self) -> impl Iterator<Item = &ClassStat> {
        self.0.iter()
    }
}

/// The names of the kernel's columns, and of a further column for zspages that are committed page
/// by page.
const NAMES: &str = "class size 10% 20% 30% 40% 50% 60% 70% 80% 90% 99% 100% obj_allocated \
    obj_used pages_used pages_per_zspage freeable committed";
const WIDTHS: [usize; 19] = [5, 5, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 13, 10, 10, 16, 8, 9];

fn numbers(stat: &ClassStat) -> [u64; WIDTHS.len()] {
    let ClassStat { shape, groups, obj_allocated, obj_used, committed, .. } = *stat;
    let class = [shape.index.into(), shape.size as u64];
    let groups = groups[1..].iter().map(|&zspages| zspages.into());
    let (pages_used, freeable) = (stat.pages_used(), stat.freeable());
    let zspages = [obj_allocated, obj_used, pages_used, shape.pages as u64, freeable, committed];
    let mut numbers = class.into_iter().chain(groups).chain(zspages);
    std::array::from_fn(|_| numbers.next().unwrap_or(0))
}

impl fmt::Display for Classes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by_page = self.0.iter().any(|stat| !stat.whole);
        let columns = WIDTHS.len() - usize::from(!by_page);
        let row = |f: &mut fmt::Formatter<'_>, cell: &dyn Fn(usize) -> String| {
            let mut cells = WIDTHS[..columns].iter().enumerate();
            cells.try_for_each(|(nth, &width)| write!(f, " {:>width$}", cell(nth)))?;
            writeln!(f)
        };
        let names: Vec<_> = NAMES.split(' ').collect();
        row(f, &|nth| names[nth].into())?;
        let mut total = [0; WIDTHS.len()];
        for numbers in self.0.iter().map(numbers) {
            row(f, &|nth| numbers[nth].to_string())?;
            total.iter_mut().zip(numbers).for_each(|(total, number)| *total += number);
        }
        writeln!(f)?;
        row(f, &|nth| match names[nth] {
            "class" => "Total".into(),
            "size" | "pages_per_zspage" => String::new(),
            _ => total[nth].to_string(),
        })
    }
}
