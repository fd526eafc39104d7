//! Settings in words, both ways.

use crate::{Compaction, Fork};
use std::fmt::Write;
use zsmalloc::{ChainRule, Geometry, KernelGeometry};

pub(super) const COMPACTION: [(&str, Compaction); 3] =
    [("auto", Compaction::Auto), ("manual", Compaction::Manual), ("off", Compaction::Off)];
pub(super) const FORK: [(&str, Fork); 2] = [("copy", Fork::Copy), ("leave", Fork::Leave)];
const RULES: [(&str, ChainRule); 2] =
    [("used-percent", ChainRule::UsedPercent), ("least-waste", ChainRule::LeastWaste)];
/// Yes and no, as the kernel reads them.
pub(super) const SWITCH: [(&str, bool); 6] =
    [("0", false), ("1", true), ("n", false), ("y", true), ("off", false), ("on", true)];

/// All of `names`, the current one in brackets, each with a space behind it.
pub(super) fn bracketed<'n>(names: impl Iterator<Item = &'n str>, current: &str) -> String {
    names.fold(String::new(), |mut line, name| {
        let _ = if name == current { write!(line, "[{name}] ") } else { write!(line, "{name} ") };
        line
    })
}

/// What `word` means, or which words there are.
pub(super) fn parse_keyword<T: Copy>(words: &[(&str, T)], word: &str) -> Result<T, String> {
    let found = words.iter().find(|(other, _)| *other == word);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
        format!("expected one of {}", words.join(", "))
    })
}

pub(super) fn geometry_line(geometry: Geometry) -> String {
    match geometry {
        Geometry::Native { .. } => "native".to_owned(),
        Geometry::Kernel(KernelGeometry { chain, rule, merge, .. }) => {
            let rule = RULES.iter().find(|(_, other)| *other == rule).map_or("", |(name, _)| name);
            format!("kernel chain={chain} rule={rule} merge={}", u8::from(merge))
        }
    }
}

/// The geometry that a line names, with the kernel's own choices where it says nothing.
pub(super) fn geometry(line: &str) -> Result<Geometry, String> {
    let mut words = line.split_whitespace();
    let geometry = match words.next() {
        Some("native") => match words.next() {
            None => Geometry::default(),
            Some(_) => return Err("native has no options".to_owned()),
        },
        Some("kernel") => {
            let mut kernel = KernelGeometry::default();
            words.try_for_each(|word| choose(&mut kernel, word))?;
            Geometry::Kernel(kernel)
        }
        _ => return Err("expected native or kernel".to_owned()),
    };
    geometry.table().map_err(|error| error.to_string())?;
    Ok(geometry)
}

fn choose(kernel: &mut KernelGeometry, word: &str) -> Result<(), String> {
    match word.split_once('=') {
        Some(("chain", pages)) => {
            kernel.chain = pages.parse().map_err(|_| "expected chain=PAGES".to_owned())?;
        }
        Some(("rule", name)) => kernel.rule = parse_keyword(&RULES, name)?,
        Some(("merge", switch)) => kernel.merge = parse_keyword(&SWITCH, switch)?,
        _ => return Err("expected kernel [chain=N] [rule=NAME] [merge=0|1]".to_owned()),
    }
    Ok(())
}
