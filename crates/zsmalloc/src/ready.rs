//! Ready pages: committed, though no live object touches them; kept for the next objects, or given back.
//!
//! ```text
//!   live --last object on it freed--> ready --more than may be kept--> held --madvise--> untouched
//!     ^-----------a slot on it taken----'
//! ```
//! Giving back is a system call, so it is done outside the class's lock. Meanwhile no one may be given a
//! slot on those pages: their slots are held, all of them, by one thread per zspage.

use crate::class::{Class, FULL};
use crate::locked::Locked;
use crate::parts::Parts;
use crate::sync::Ordering::Relaxed;
use page::{ExtentId, PageSet};

/// Commits are dear, so this share of the pool's pages may be kept for the next objects, until no one has
/// asked for compaction for a moment ...
const READY_SHARE: usize = 256;
/// ... and as many at any fill.
const READY_MIN: usize = 8;

impl Parts {
    /// Pages that may be kept ready.
    fn ready_most(&self) -> usize {
        (self.memory.space.budget().used() / READY_SHARE).max(READY_MIN)
    }

    /// Whether more pages are ready than may be; none may in the kernel's geometry, which gives an empty
    /// zspage back at once.
    pub(crate) fn ready_excess(&self, class: &Class) -> bool {
        self.ready.load(Relaxed) > if class.whole { 0 } else { self.ready_most() }
    }

    /// Gives ready pages back, `wanted` or a few more, and zspages that were made for objects and got none;
    /// how many pages.
    pub(crate) fn trim(&self, wanted: usize) -> usize {
        let pages = self.trim_pages(wanted);
        for class in &self.classes {
            while Locked::new(self, class).destroy_one_unused() {}
        }
        pages
    }

    /// Gives ready pages back, `wanted` or a few more; how many.
    pub(crate) fn trim_pages(&self, wanted: usize) -> usize {
        let mut total = 0;
        for class in &self.classes {
            // A batch at a time is noted under the lock, and given back one by one.
            let mut batch = [None; 32];
            while total < wanted
                && self.ready.load(Relaxed) > 0
                && self.note_ready(class, &mut batch)
            {
                let before = total;
                for id in batch.iter().flatten().copied() {
                    let locked = Locked::new(self, class);
                    if total < wanted && locked.has_ready(id) {
                        total += locked.release(id) as usize;
                    }
                }
                if total == before {
                    break;
                }
            }
        }
        total
    }

    /// Notes zspages with ready pages; whether there is one.
    fn note_ready(&self, class: &Class, batch: &mut [Option<ExtentId>]) -> bool {
        let locked = Locked::new(self, class);
        batch.fill(None);
        if locked.state.ready == 0 {
            return false;
        }
        let found = (0..FULL).flat_map(|group| locked.group(group));
        let found = found.filter(|&id| locked.has_ready(id));
        batch.iter_mut().zip(found).for_each(|(place, id)| *place = Some(id));
        batch[0].is_some()
    }
}

impl Locked<'_> {
    /// A zspage that has ready pages, and that no one is giving back at the moment.
    pub(crate) fn has_ready(&self, id: ExtentId) -> bool {
        self.has(id) && !self.head(id).releasing() && !self.head(id).ready.is_empty()
    }

    /// Gives all ready pages of a zspage back to the system, and the zspage if that leaves it empty.
    /// The number of pages.
    pub(crate) fn release(mut self, id: ExtentId) -> u32 {
        if self.head(id).releasing() {
            return 0; // the thread that does sees what became ready meanwhile
        }
        self.head(id).set_releasing(true);
        let (parts, class) = (self.parts(), self.class());
        let mut total = 0;
        while !self.head(id).ready.is_empty() {
            let going = PageSet::default();
            going.copy_from(&self.head(id).ready);
            for pages in going.runs() {
                self.body(id).hold(class.slots_of(pages));
            }
            parts.releases.fetch_add(1, Relaxed);
            drop(self);
            let gone = parts.memory.release(id, &going);
            self = Locked::new(parts, class);
            parts.releases.fetch_sub(1, Relaxed);
            self.settle(id, &going, &gone);
            total += gone.len();
            if gone.is_empty() || !parts.ready_excess(class) {
                break;
            }
        }
        self.head(id).set_releasing(false);
        self.destroy_if_unused(id);
        total
    }

    /// Takes note of a release: what is gone is no longer committed, slots on `going` are free again.
    fn settle(&mut self, id: ExtentId, going: &PageSet, gone: &PageSet) {
        for pages in going.runs() {
            self.body(id).unhold(self.class().slots_of(pages));
        }
        for pages in gone.runs() {
            self.head(id).committed.remove(pages.clone());
            self.head(id).ready.remove(pages);
        }
        self.parts().ready.fetch_sub(gone.len() as usize, Relaxed);
        self.state.ready -= gone.len();
        self.state.committed -= gone.len();
    }

    /// Gives a zspage back that was made for an object and has got none, if there is one; whether there was.
    pub(crate) fn destroy_one_unused(self) -> bool {
        let unused = self.group(0).find(|&id| self.is_unused(id));
        let is_there = unused.is_some();
        if let Some(unused) = unused {
            self.destroy_if_unused(unused);
        }
        is_there
    }

    /// Gives all zspages without objects back, in a child: whoever was about them is lost.
    pub(crate) fn release_unused(self) {
        let (parts, class) = (self.parts(), self.class());
        let unused: Vec<_> = self.group(0).collect();
        drop(self);
        for id in unused {
            Locked::new(parts, class).release(id);
        }
    }

    /// Whether a zspage has neither objects nor pages, and no one is about it.
    fn is_unused(&self, id: ExtentId) -> bool {
        let head = self.head(id);
        head.inuse() == 0 && !head.releasing() && head.committed.is_empty()
    }

    fn destroy_if_unused(mut self, id: ExtentId) {
        if self.is_unused(id) {
            let zspage = self.remove(id);
            let (parts, class) = (self.parts(), self.class());
            drop(self);
            parts.memory.destroy(class, zspage);
        }
    }
}
