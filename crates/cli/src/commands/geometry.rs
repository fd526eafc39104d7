//! The geometry (the choice of size classes and zspages) in arguments and reports.

use crate::error::Error;
use crate::values::{Names, name_of, named};
use clap::Args;
use serde::Serialize;
use std::fmt;
use zsmalloc::{ChainRule, ClassTable, Geometry, GeometryError, KernelGeometry};

/// The kinds of geometry. The value is true for uzram's own geometry.
const KINDS: Names<bool> = &[
    (
        "kernel",
        "The kernel's: classes 16 bytes apart, short zspages that are committed whole",
        false,
    ),
    (
        "native",
        "uzram's own: classes 8 bytes apart, long zspages of which only pages in use are committed",
        true,
    ),
];

/// The kernel's rules for the length of a class's zspages.
const RULES: Names<ChainRule> = &[
    (
        "used-percent",
        "The zspages with the highest percentage in use (rounded down), of these the shortest, as \
         in Linux up to 6.2",
        ChainRule::UsedPercent,
    ),
    (
        "least-waste",
        "The zspages with the fewest wasted bytes, of these the shortest, as in current kernels",
        ChainRule::LeastWaste,
    ),
];

/// The arguments that `uzram fill` and `uzram classes` share. Each of these commands has its own
/// default of `--geometry`.
#[derive(Clone, Debug, Args)]
pub(crate) struct GeometryLine {
    /// Kind of size classes and zspages
    #[arg(long = "geometry", id = "geometry", value_name = "KIND", required = false)]
    #[arg(value_parser = named(KINDS), action = clap::ArgAction::Set)]
    is_native: bool,
    /// Length of the longest zspage of the kernel's geometry in pages, 1 to 256 [default: 8]
    #[arg(long, value_name = "N", value_parser = pages, allow_negative_numbers = true)]
    chain: Option<usize>,
    /// Rule by which the kernel's geometry chooses the length of zspages [default: least-waste]
    #[arg(long, value_parser = named(RULES))]
    rule: Option<ChainRule>,
    /// Do not merge size classes of the kernel's geometry that have zspages with equal numbers of
    /// pages and objects
    #[arg(long)]
    no_merge: bool,
}

/// A geometry in JSON reports. If the geometry is native, the fields that only the kernel's
/// geometry has are null.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct GeometryNames {
    geometry: &'static str,
    /// The number of pages of the longest zspage.
    chain: Option<usize>,
    rule: Option<&'static str>,
    /// True if object sizes with equal zspages share a class.
    merge: Option<bool>,
}

fn pages(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| "expected a number of pages, such as 8".to_owned())
}

impl GeometryLine {
    /// Returns the classes for objects of up to 4096 << `order` bytes.
    ///
    /// # Errors
    /// Fails if the order or the combination of options is not valid.
    pub(crate) fn table(&self, order: u32) -> Result<ClassTable, Error> {
        let default = KernelGeometry::default();
        let geometry = match self.is_native {
            true => self.native(order)?,
            false => Geometry::Kernel(KernelGeometry {
                chain: self.chain.unwrap_or(default.chain),
                rule: self.rule.unwrap_or(default.rule),
                merge: !self.no_merge,
                order,
            }),
        };
        geometry.table().map_err(|source| {
            let flag = match source {
                GeometryError::Chain { .. } => "--chain",
                GeometryError::Order { .. } => "--order",
                _ => "--geometry",
            };
            Error::Usage(format!("{flag}: {source}"))
        })
    }

    fn native(&self, order: u32) -> Result<Geometry, Error> {
        let flags = [
            self.chain.is_some().then_some("--chain"),
            self.rule.is_some().then_some("--rule"),
            self.no_merge.then_some("--no-merge"),
        ];
        let foreign: Vec<&str> = flags.into_iter().flatten().collect();
        if foreign.is_empty() {
            return Ok(Geometry::Native { order });
        }
        let flags = foreign.join(", ");
        Err(Error::Usage(format!(
            "{flags}: only --geometry kernel has such options, and the geometry is native; add \
             --geometry kernel, or leave out {flags}"
        )))
    }
}

impl From<Geometry> for GeometryNames {
    fn from(geometry: Geometry) -> Self {
        let kernel = match geometry {
            Geometry::Native { .. } => None,
            Geometry::Kernel(kernel) => Some(kernel),
        };
        GeometryNames {
            geometry: name_of(KINDS, kernel.is_none()),
            chain: kernel.map(|kernel| kernel.chain),
            rule: kernel.map(|kernel| name_of(RULES, kernel.rule)),
            merge: kernel.map(|kernel| kernel.merge),
        }
    }
}

impl fmt::Display for GeometryNames {
    /// Formats the geometry, for example as `kernel geometry, chain 8, least-waste, merged`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} geometry", self.geometry)?;
        if let (Some(chain), Some(rule), Some(merge)) = (self.chain, self.rule, self.merge) {
            let merged = if merge { "merged" } else { "not merged" };
            write!(f, ", chain {chain}, {rule}, {merged}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: GeometryLine =
        GeometryLine { is_native: true, chain: None, rule: None, no_merge: false };
    const KERNEL: GeometryLine = GeometryLine { is_native: false, ..NONE };

    fn names(line: &GeometryLine) -> GeometryNames {
        line.table(0).unwrap().geometry().into()
    }

    #[test]
    fn what_is_not_said_is_as_in_todays_kernel() {
        let default = Geometry::Kernel(KernelGeometry::default());
        assert_eq!(KERNEL.table(0).unwrap().geometry(), default);
        let rule = Some(ChainRule::UsedPercent);
        let line = GeometryLine { chain: Some(16), rule, no_merge: true, ..KERNEL };
        let expected = KernelGeometry {
            chain: 16,
            rule: ChainRule::UsedPercent,
            merge: false,
            ..KernelGeometry::default()
        };
        assert_eq!(line.table(0).unwrap().geometry(), Geometry::Kernel(expected));
    }

    #[test]
    fn a_geometry_is_named_in_words_and_in_json() {
        assert_eq!(names(&NONE).to_string(), "native geometry");
        assert_eq!(names(&KERNEL).to_string(), "kernel geometry, chain 8, least-waste, merged");
        let rule = Some(ChainRule::UsedPercent);
        let other = names(&GeometryLine { chain: Some(4), rule, no_merge: true, ..KERNEL });
        assert_eq!(other.to_string(), "kernel geometry, chain 4, used-percent, not merged");
        let json = |names| serde_json::to_string(&names).unwrap();
        let expected = r#"{"geometry":"native","chain":null,"rule":null,"merge":null}"#;
        assert_eq!(json(names(&NONE)), expected);
        let expected = r#"{"geometry":"kernel","chain":4,"rule":"used-percent","merge":false}"#;
        assert_eq!(json(other), expected);
    }

    #[test]
    fn all_that_is_of_the_kernel_alone_is_named() {
        let rule = Some(ChainRule::LeastWaste);
        let line = GeometryLine { chain: Some(8), rule, no_merge: true, ..NONE };
        let message = line.table(0).unwrap_err().to_string();
        assert!(message.starts_with("--chain, --rule, --no-merge: "), "{message}");
        let order = NONE.table(5).unwrap_err().to_string();
        assert!(order.starts_with("--order: "), "{order}");
        let chain = GeometryLine { chain: Some(17), ..KERNEL }.table(4).unwrap_err().to_string();
        assert!(chain.starts_with("--chain: ") && chain.contains("1 to 16 "), "{chain}");
    }
}
