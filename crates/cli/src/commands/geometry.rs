//! The choice of size classes and zspages, as arguments and in reports.

use crate::error::Error;
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::fmt;
use zsmalloc::{ChainRule, ClassTable, Geometry, GeometryError, KernelGeometry};

/// The kind of a geometry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// The kernel's: classes 16 bytes apart, short zspages that are committed whole
    Kernel,
    /// uzram's own: classes 8 bytes apart, long zspages of which only pages in use are committed
    Native,
}

/// The kernel's rule for the length of a class's zspages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Rule {
    /// The shortest with the highest whole percentage in use, as until Linux 6.2
    UsedPercent,
    /// The shortest with the fewest bytes wasted, as in current kernels
    LeastWaste,
}

/// The arguments of both commands; each has its own default of `--geometry`.
#[derive(Clone, Debug, Args)]
pub(crate) struct GeometryLine {
    /// Size classes and zspages
    #[arg(long, value_name = "KIND", required = false)]
    geometry: Kind,
    /// With the kernel's geometry: the longest zspage in pages, 1 to 256 [default: 8]
    #[arg(long, value_name = "N", value_parser = pages, allow_negative_numbers = true)]
    chain: Option<usize>,
    /// With the kernel's geometry: the rule for the length of zspages [default: least-waste]
    #[arg(long)]
    rule: Option<Rule>,
    /// With the kernel's geometry: do not merge sizes whose zspages are alike
    #[arg(long)]
    no_merge: bool,
}

/// A geometry in reports, as names and numbers. Fields that do not apply to a native geometry are
/// null.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct GeometryNames {
    pub(crate) geometry: Kind,
    /// The pages of the longest zspage.
    pub(crate) chain: Option<usize>,
    pub(crate) rule: Option<Rule>,
    /// True if sizes with equal zspages share a class.
    pub(crate) merge: Option<bool>,
}

fn pages(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| "expected a number of pages, such as 8".to_owned())
}

impl GeometryLine {
    /// Returns the classes for objects of up to 4096 << `order` bytes.
    ///
    /// # Errors
    /// The order or the combination of options is not valid.
    pub(crate) fn table(&self, order: u32) -> Result<ClassTable, Error> {
        let geometry = match self.geometry {
            Kind::Native => self.native(order)?,
            Kind::Kernel => Geometry::Kernel(self.kernel(order)),
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
            Ok(Geometry::Native { order })
        } else {
            let flags = foreign.join(", ");
            Err(Error::Usage(format!(
                "{flags}: only --geometry kernel has such options, and the geometry is native; add \
                 --geometry kernel, or leave out {flags}"
            )))
        }
    }

    fn kernel(&self, order: u32) -> KernelGeometry {
        let default = KernelGeometry::default();
        KernelGeometry {
            chain: self.chain.unwrap_or(default.chain),
            rule: self.rule.map_or(default.rule, ChainRule::from),
            merge: !self.no_merge,
            order,
        }
    }
}

impl From<Rule> for ChainRule {
    fn from(rule: Rule) -> Self {
        match rule {
            Rule::UsedPercent => ChainRule::UsedPercent,
            Rule::LeastWaste => ChainRule::LeastWaste,
        }
    }
}

impl From<ChainRule> for Rule {
    fn from(rule: ChainRule) -> Self {
        match rule {
            ChainRule::UsedPercent => Rule::UsedPercent,
            ChainRule::LeastWaste => Rule::LeastWaste,
        }
    }
}

impl From<Geometry> for GeometryNames {
    fn from(geometry: Geometry) -> Self {
        let (kind, kernel) = match geometry {
            Geometry::Native { .. } => (Kind::Native, None),
            Geometry::Kernel(kernel) => (Kind::Kernel, Some(kernel)),
        };
        GeometryNames {
            geometry: kind,
            chain: kernel.map(|kernel| kernel.chain),
            rule: kernel.map(|kernel| kernel.rule.into()),
            merge: kernel.map(|kernel| kernel.merge),
        }
    }
}

impl fmt::Display for GeometryNames {
    /// Formats as in `kernel geometry, chain 8, least-waste, merged`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} geometry", name(&self.geometry))?;
        if let Some(chain) = self.chain {
            write!(f, ", chain {chain}")?;
        }
        if let Some(rule) = self.rule {
            write!(f, ", {}", name(&rule))?;
        }
        match self.merge {
            Some(true) => f.write_str(", merged"),
            Some(false) => f.write_str(", not merged"),
            None => Ok(()),
        }
    }
}

/// Returns the value's name on the command line.
pub(crate) fn name(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: GeometryLine =
        GeometryLine { geometry: Kind::Native, chain: None, rule: None, no_merge: false };
    const KERNEL: GeometryLine = GeometryLine { geometry: Kind::Kernel, ..NONE };

    fn names(line: &GeometryLine) -> GeometryNames {
        line.table(0).unwrap().geometry().into()
    }

    #[test]
    fn what_is_not_said_is_as_in_todays_kernel() {
        let default = Geometry::Kernel(KernelGeometry::default());
        assert_eq!(KERNEL.table(0).unwrap().geometry(), default);
        let rule = Some(Rule::UsedPercent);
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
        let rule = Some(Rule::UsedPercent);
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
        let rule = Some(Rule::LeastWaste);
        let line = GeometryLine { chain: Some(8), rule, no_merge: true, ..NONE };
        let message = line.table(0).unwrap_err().to_string();
        assert!(message.starts_with("--chain, --rule, --no-merge: "), "{message}");
        let order = NONE.table(5).unwrap_err().to_string();
        assert!(order.starts_with("--order: "), "{order}");
        let chain = GeometryLine { chain: Some(17), ..KERNEL }.table(4).unwrap_err().to_string();
        assert!(chain.starts_with("--chain: ") && chain.contains("1 to 16 "), "{chain}");
    }
}
