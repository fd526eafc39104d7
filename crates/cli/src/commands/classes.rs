//! `uzram classes`: the size classes of a geometry, as a table for people or as JSON.

mod args;

use crate::commands::geometry::GeometryNames;
use crate::error::Error;
use crate::text::json;
use measure::page::PAGE_SIZE;
use serde::Serialize;
use std::fmt::Display;
use zsmalloc::{ClassShape, ClassTable, Geometry, KernelGeometry};

pub(crate) use args::ClassesArgs;

/// The JSON output. Missing values are null.
#[derive(Debug, Serialize)]
struct Listing {
    #[serde(flatten)]
    names: GeometryNames,
    /// The order of the blocks; a block has 4096 << `order` bytes, and an object at most as many.
    order: u32,
    /// The number of classes.
    class_count: usize,
    /// For blocks of order `order`: the largest class size whose zspages hold more than one object.
    watermark: usize,
    /// For blocks of order `order`: the minimum compressed length at which a block is stored
    /// uncompressed.
    huge_size: usize,
    /// The number of classes for objects larger than a page, if the order is not 0.
    classes_above_page: Option<usize>,
    /// The number of object sizes that share these classes, plus one for the size of a page, which
    /// the kernel counts too.
    sizes_above_page: Option<usize>,
    classes: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    /// The index of the class's largest size, which is the class's index in the kernel.
    index: u32,
    size: usize,
    pages_per_zspage: usize,
    objs_per_zspage: usize,
    /// The bytes of a full zspage that lie in no slot.
    waste: usize,
    /// The smallest object size in the class.
    size_min: usize,
}

/// Fails if the geometry is not valid.
pub(crate) fn run(args: &ClassesArgs) -> Result<String, Error> {
    let table = args.table()?;
    Ok(if args.json { json(&Listing::new(&table, args.order)) } else { text(&table, args.order) })
}

impl Listing {
    fn new(table: &ClassTable, order: u32) -> Self {
        Listing {
            names: table.geometry().into(),
            order,
            class_count: table.classes().len(),
            watermark: table.watermark(order),
            huge_size: table.huge_size(order),
            classes_above_page: (order > 0).then(|| above_page(table)),
            sizes_above_page: sizes_above_page(table, order),
            classes: table.classes().iter().map(Row::from).collect(),
        }
    }
}

impl From<&ClassShape> for Row {
    fn from(class: &ClassShape) -> Self {
        Row {
            index: class.index,
            size: class.size,
            pages_per_zspage: class.pages,
            objs_per_zspage: class.objects,
            waste: class.waste(),
            size_min: class.size_min,
        }
    }
}

fn above_page(table: &ClassTable) -> usize {
    table.classes().iter().filter(|class| class.size > PAGE_SIZE).count()
}

/// Returns the number of object sizes that share the classes for objects larger than a page, plus
/// one for the size of a page. Returns `None` for a native geometry, and if the order is 0.
fn sizes_above_page(table: &ClassTable, order: u32) -> Option<usize> {
    let Geometry::Kernel(kernel) = table.geometry() else { return None };
    let unmerged = Geometry::Kernel(KernelGeometry { merge: false, ..kernel });
    let table = unmerged.table().ok().filter(|_| order > 0)?;
    // The kernel also counts the size of a page, although that size is not larger than a page.
    Some(above_page(&table) + 1)
}

fn text(table: &ClassTable, order: u32) -> String {
    let row = |cells: [&dyn Display; 6]| {
        let [class, size, pages, objs, waste, merged] = cells.map(|cell| cell.to_string());
        format!("{class:>5} {size:>6} {pages:>16} {objs:>15} {waste:>6}  {merged}\n")
    };
    let heads = ["class", "size", "pages_per_zspage", "objs_per_zspage", "waste", "merged"];
    let mut text = row(heads.each_ref().map(|head| head as &dyn Display));
    for class in table.classes() {
        let merged = match class.size_min {
            min if min < class.size => format!("{min}..{}", class.size),
            _ => "-".to_owned(),
        };
        let ClassShape { index, size, pages, objects, .. } = class;
        text += &row([index, size, pages, objects, &class.waste(), &merged]);
    }
    text + &closing_line(table, order)
}

/// Returns the last line: the numbers of classes, the watermarks and the huge sizes, for blocks of
/// one page and for blocks of order `order`.
fn closing_line(table: &ClassTable, order: u32) -> String {
    let above = above_page(table);
    let bounds = |order| {
        format!("watermark {}, huge from {}", table.watermark(order), table.huge_size(order))
    };
    let mut line = format!("{} classes, {}", table.classes().len() - above, bounds(0));
    if order > 0 {
        let sizes = sizes_above_page(table, order).map(|sizes| format!(" (of {sizes} sizes)"));
        let sizes = sizes.unwrap_or_default();
        line += &format!("; order {order}: {above} classes above a page{sizes}, {}", bounds(order));
    }
    line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(geometry: Geometry, order: u32) -> String {
        super::text(&geometry.table().unwrap(), order)
    }

    #[test]
    fn rows_line_up_under_their_heads() {
        let text = text(Geometry::Kernel(KernelGeometry { order: 4, ..Default::default() }), 4);
        let head = text.lines().next().unwrap();
        let end_of = |line: &str, column| {
            let cell = line.split_whitespace().nth(column).unwrap();
            line.match_indices(cell).map(|(at, _)| at + cell.len()).collect::<Vec<_>>()
        };
        for line in text.lines().skip(1).filter(|line| !line.contains("classes")) {
            assert_eq!(line.split_whitespace().count(), 6, "{line}");
            for column in 0..5 {
                let end = end_of(head, column)[0];
                assert!(end_of(line, column).contains(&end), "{line}");
            }
        }
    }

    #[test]
    fn native_classes_have_no_count_of_sizes() {
        let text = text(Geometry::Native { order: 1 }, 1);
        let closing = text.lines().last().unwrap();
        assert!(
            closing.contains(" classes, watermark 4096, huge from 4033; order 1: "),
            "{closing}"
        );
        assert!(
            closing.ends_with(" classes above a page, watermark 8192, huge from 8065"),
            "{closing}"
        );
    }
}
