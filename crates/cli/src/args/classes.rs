//! The command line of `uzram classes`.

use super::Form;
use crate::error::Error;
use crate::geometry::GeometryLine;
use clap::Args;

/// Print a table of size classes: how objects of each size share zspages
///
/// By default the kernel's table of today, as that is what others are compared with; --geometry
/// native is what `uzram fill` uses. Nothing is stored.
#[derive(Debug, Args)]
#[command(mut_arg("geometry", |arg| arg.default_value("kernel")), after_help = "\
Columns:
  class             number of the class, as the kernel counts; merged sizes have the largest one's
  size              bytes from one object to the next
  pages_per_zspage  pages that are taken together
  objs_per_zspage   objects that fit them
  waste             bytes of a full zspage that no object covers
  merged            sizes that share the class, - if it has only one

The last line: how many classes there are, the largest size of which a zspage holds more than
one object (watermark), and the length from which data is stored whole (huge).

Examples:
  uzram classes
  uzram classes --chain 16 --rule used-percent
  uzram classes --order 2 --json
  uzram classes --geometry native")]
pub(super) struct ClassesLine {
    #[command(flatten)]
    geometry: GeometryLine,
    /// Add the classes above a page, for blocks of 4096 << K bytes, K from 0 to 4; zspages of those
    /// are counted in blocks, so the longest chain is 256 >> K
    #[arg(long, value_name = "K", default_value_t = 0, value_parser = order, allow_negative_numbers = true)]
    order: u32,
    /// Print one JSON object instead of a table; watermark and huge size are the order's
    #[arg(long)]
    json: bool,
}

/// `uzram classes`, checked.
#[derive(Debug)]
pub(crate) struct ClassesArgs {
    pub(crate) table: zsmalloc::ClassTable,
    /// The table's.
    pub(crate) order: u32,
    pub(crate) form: Form,
}

fn order(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("expected 0 to {}", zsmalloc::ORDER_MAX))
}

impl TryFrom<ClassesLine> for ClassesArgs {
    type Error = Error;

    fn try_from(line: ClassesLine) -> Result<Self, Error> {
        let table = line.geometry.table(line.order)?;
        Ok(ClassesArgs { table, order: line.order, form: Form::new(line.json) })
    }
}
