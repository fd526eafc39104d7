//! Settings that are words: parsing and display.

use super::value::{Value, parse_keyword};
use crate::{Compaction, Config, Error, Fork, Zram};
use std::fmt::{self, Write};
use zsmalloc::{ChainRule, Geometry, KernelGeometry};

pub(super) const COMPACTION: [(&str, Compaction); 3] =
    [("auto", Compaction::Auto), ("manual", Compaction::Manual), ("off", Compaction::Off)];
pub(super) const FORK: [(&str, Fork); 2] = [("copy", Fork::Copy), ("leave", Fork::Leave)];
const RULES: [(&str, ChainRule); 2] =
    [("used-percent", ChainRule::UsedPercent), ("least-waste", ChainRule::LeastWaste)];
/// The words for false and true, as the kernel accepts them.
pub(super) const SWITCH: [(&str, bool); 6] =
    [("0", false), ("1", true), ("n", false), ("y", true), ("off", false), ("on", true)];

/// Writes all words, with the current one in brackets.
pub(super) fn show_keyword<T: PartialEq>(
    out: &mut dyn Write,
    words: &[(&str, T)],
    set: T,
) -> fmt::Result {
    let set = words.iter().find(|(_, value)| *value == set).map_or("", |(word, _)| word);
    writeln!(out, "{}", bracketed(words.iter().map(|(word, _)| *word), set))
}

/// Sets a field of the settings to the value that a word denotes.
pub(super) fn store_keyword<T: Copy>(
    zram: &Zram,
    value: Value<'_>,
    words: &[(&str, T)],
    field: fn(&mut Config) -> &mut T,
) -> Result<(), Error> {
    let meaning = value.keyword(words)?;
    zram.configure(value.name, |settings| {
        *field(settings) = meaning;
        Ok(())
    })
}

/// Returns all of `names`, each followed by a space, with the current name in brackets.
pub(super) fn bracketed<'n>(names: impl Iterator<Item = &'n str>, current: &str) -> String {
    names.fold(String::new(), |mut line, name| {
        let _ = if name == current { write!(line, "[{name}] ") } else { write!(line, "{name} ") };
        line
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

/// Returns the geometry that `line` describes. An omitted option has the default of the kernel's
/// geometry.
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
