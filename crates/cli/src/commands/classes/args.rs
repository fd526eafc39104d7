//! The command line of `uzram classes`.

use crate::commands::geometry::GeometryLine;
use crate::error::Error;
use clap::Args;
use zsmalloc::ClassTable;

/// Print a table of size classes: how objects of each size share zspages
///
/// By default, the table is that of the current kernel's zsmalloc, for comparison. With --geometry
/// native, the table shows uzram's own size classes, which `uzram fill` uses by default. No data
/// are stored.
#[derive(Clone, Debug, Args)]
#[command(mut_arg("geometry", |arg| arg.default_value("kernel")), after_help = "\
Columns:
  class             number of the class, as the kernel counts; merged sizes have the largest one's
  size              bytes from one object to the next
  pages_per_zspage  pages of a zspage
  objs_per_zspage   objects that fit into it
  waste             bytes of a full zspage that no object covers
  merged            sizes that share the class, - if there is only one

The last line: the number of classes, the largest size of which a zspage holds more than one
object (watermark), and the length from which data are stored uncompressed (huge).

Examples:
  uzram classes
  uzram classes --chain 16 --rule used-percent
  uzram classes --order 2 --json
  uzram classes --geometry native")]
pub(crate) struct ClassesArgs {
    #[command(flatten)]
    geometry: GeometryLine,
    /// Add the size classes above 4096 bytes, for blocks of 4096 << K bytes, K from 0 to 4. For
    /// these classes, the unit of --chain is a block, and its maximum is 256 >> K
    #[arg(long, value_name = "K", default_value_t = 0, value_parser = order)]
    #[arg(allow_negative_numbers = true)]
    pub(super) order: u32,
    /// Print one JSON object instead of a table; its fields watermark and huge_size apply to blocks
    /// of 4096 << K bytes
    #[arg(long)]
    pub(super) json: bool,
}

impl ClassesArgs {
    pub(super) fn table(&self) -> Result<ClassTable, Error> {
        self.geometry.table(self.order)
    }
}

fn order(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("expected 0 to {}", zsmalloc::ORDER_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use zsmalloc::{Geometry, KernelGeometry};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: ClassesArgs,
    }

    #[test]
    fn the_kernels_table_is_the_default_one() {
        let parsed = |args: &[&str]| Line::try_parse_from(["classes"].iter().chain(args)).unwrap();
        let args = parsed(&[]).args;
        assert_eq!(args.table().unwrap().geometry(), Geometry::Kernel(KernelGeometry::default()));
        assert_eq!((args.order, args.json), (0, false));
        let args = parsed(&["--geometry", "native", "--order=3", "--json"]).args;
        assert_eq!(args.table().unwrap().geometry(), Geometry::Native { order: 3 });
        assert_eq!((args.order, args.json), (3, true));
    }
}
