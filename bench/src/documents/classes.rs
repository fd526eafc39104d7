//! The tables of size classes, for page chains of increasing length.

use zsmalloc::{ChainRule, Geometry, KernelGeometry};

use super::found::{Cell, Found, Table};
use super::scene::Scene;
use super::{Experiment, Name};
use crate::Error;
use crate::report::{Bound, Figure};
use testkit::s3::COUNTS;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: Name::Classes,
    source: "The kernel's zsmalloc document",
    about: "How many size classes are there with chains of up to so many pages, and from which \
            size on is an object stored by itself? The document's table follows the rule that \
            kernels up to 6.2 had: the chain with the largest share used, in whole percent. \
            Kernels since then take the chain that wastes the fewest bytes; the counts that this \
            gives stand beside it.",
    needs: |_| Vec::new(),
    input: |_| Ok(()),
    run,
};

fn run(_: &Scene<'_>) -> Result<Found, Error> {
    let head = [
        "chain",
        "classes: document",
        "uzram",
        "classes, since 6.3: kernel",
        "uzram",
        "watermark: document",
        "uzram",
    ];
    let mut table = Table::new("Size classes and the largest size below a page", head);
    let mut found = Found::default();
    for (chain, used_percent, least_waste, watermark) in COUNTS {
        let of = |rule| {
            Geometry::Kernel(KernelGeometry { chain, rule, ..KernelGeometry::default() }).table()
        };
        let (old, new) = (of(ChainRule::UsedPercent), of(ChainRule::LeastWaste));
        let (old, new) = old.and_then(|old| Ok((old, new?))).map_err(zsmalloc::Error::from)?;
        let mut row: Vec<Cell> = vec![chain.to_string().into()];
        for (what, expected, is) in [
            ("classes", used_percent, old.classes().len()),
            ("classes since 6.3", least_waste, new.classes().len()),
            ("watermark", watermark, old.watermark(0)),
        ] {
            let must = Bound::equal(expected as f64);
            row.push(expected.to_string().into());
            row.push(Cell::judged(is.to_string(), is as f64, must));
            let figure = Figure::new("classes", format!("chain {chain}: {what}"), is as f64, "");
            found.add(&figure.must(must).rival("the document", expected as f64));
        }
        table.row(row);
    }
    found.tables.push(table);
    Ok(found)
}
