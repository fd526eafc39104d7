//! The number of objects in a slab, before and after the slab's management data moved to the page's
//! descriptor.

use std::sync::Arc;

use slab::{Arena, Layout, Options, RawCache, line_align};

use super::found::{Cell, Found, Table};
use super::scene::Scene;
use super::{Experiment, Name};
use crate::Error;
use crate::report::{Bound, Figure};
use testkit::s4::CACHES;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: Name::Slabinfo,
    source: "SLAB's management in the page descriptor (2013)",
    about: "Eight caches, each with 10,000 objects, by three layouts: as SLAB had it before, \
            with a linked list of free objects beside the slab's own; after, with a stack of \
            numbers of 32 bits and the slab's own data in the page's descriptor; and ours. How \
            many objects does a slab have?",
    needs: |_| Vec::new(),
    input: |_| Ok(()),
    run,
};

/// The number of objects that each cache holds when its slabs are examined.
const OBJECTS: usize = 10_000;

fn run(_: &Scene<'_>) -> Result<Found, Error> {
    let arena = Arena::new(page::Config::default())?;
    let head = [
        "cache",
        "bytes",
        "before: document",
        "uzram",
        "after: document",
        "uzram",
        "native, a page of it",
    ];
    let mut table = Table::new("Objects of a slab", head);
    let mut found = Found::default();
    for (name, size, before, after) in CACHES {
        let mut row: Vec<Cell> = vec![name.into(), size.to_string().into()];
        for (layout, expected) in [(Layout::LinkedBufctl, before), (Layout::StackU32, after)] {
            let objects = filled(&arena, name, size, layout)?.slabinfo().objperslab as f64;
            let must = Bound::equal(expected as f64);
            row.push(expected.to_string().into());
            row.push(Cell::judged(objects.to_string(), objects, must));
            let what = format!("{name}: objects of a slab, {layout}");
            let figure = Figure::new("slabinfo", what, objects, "").must(must);
            found.add(&figure.rival("the document", expected as f64));
        }
        let native = filled(&arena, name, size, Layout::Native)?.shape();
        row.push(format!("{:.1}", native.objects as f64 / native.pages as f64).into());
        table.row(row);
    }
    found.tables.push(table);
    Ok(found)
}

fn filled(arena: &Arc<Arena>, name: &str, size: usize, layout: Layout) -> Result<RawCache, Error> {
    let options = Options { layout, ..Options::named(name) };
    let cache = RawCache::with_options(arena, size, line_align(size), options)?;
    (0..OBJECTS).try_for_each(|_| cache.alloc().map(|_| ()))?;
    Ok(cache)
}
