//! Where the library lies that is loaded into programs, and the host of those that load none.

use crate::error::{Error, failed};
use measure::text::escaped;
use std::env;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf, absolute};

/// The variable by which the system's loader is told what to load.
pub(super) const VARIABLE: &str = "LD_PRELOAD";

/// A file that is installed with the command.
#[derive(Debug)]
pub(super) struct Part {
    name: &'static str,
    package: &'static str,
    /// The variable that names its path.
    variable: &'static str,
    purpose: &'static str,
    /// Bytes that its path can't have.
    refused: &'static [u8],
    why_refused: &'static str,
}

/// The library. The loader takes a list of paths, and replaces words with a dollar.
pub(super) const PRELOADED: Part = Part {
    name: "libuzram_preload.so",
    package: "uzram-preload",
    variable: "UZRAM_PRELOAD",
    purpose: "the library to be loaded into programs",
    refused: b" :$",
    why_refused: "a space, a colon or a dollar",
};

/// The host. Its path is a part of settings, which commas separate.
pub(super) const HOST: Part = Part {
    name: "uzram-host",
    package: "uzram-cli",
    variable: "UZRAM_HOST",
    purpose: "the host of programs that load no library",
    refused: b",",
    why_refused: "a comma",
};

/// Returns the path of a part.
pub(super) fn find(part: &Part) -> Result<PathBuf, Error> {
    let Part { package, variable, purpose, why_refused, .. } = part;
    let places = match env::var_os(variable).filter(|path| !path.is_empty()) {
        Some(path) => absolute(path).into_iter().collect(),
        None => env::current_exe().map(|command| beside(&command, part.name)).unwrap_or_default(),
    };
    let Some(found) = places.iter().find(|path| path.is_file()) else {
        let places: Vec<_> = places.iter().map(|path| format!("'{}'", escaped(path))).collect();
        return Err(failed(format!(
            "{purpose} was not found: it is not at {}; build it with 'cargo build --release -p \
             {package}', or name it by the variable {variable}",
            places.join(" nor at ")
        )));
    };
    if found.as_os_str().as_bytes().iter().any(|byte| part.refused.contains(byte)) {
        return Err(failed(format!(
            "'{}' can't be used as {purpose}: {why_refused} is in its path; copy it elsewhere, and \
             name that by the variable {variable}",
            escaped(found)
        )));
    }
    Ok(found.clone())
}

/// Returns where a part is looked for, in this order.
fn beside(command: &Path, name: &str) -> Vec<PathBuf> {
    let dir = command.parent().unwrap_or(Path::new("/"));
    let installed = ["lib/uzram", "lib"].map(|lib| dir.parent().unwrap_or(dir).join(lib));
    [dir.to_owned()].into_iter().chain(installed).map(|dir| dir.join(name)).collect()
}

/// Returns what is loaded: what would be without the library, then the library. So functions of the
/// C library's that others stand in for stay theirs, and it begins before they do.
pub(super) fn preloads(library: &Path) -> OsString {
    let mut list = env::var_os(VARIABLE).unwrap_or_default();
    if !list.is_empty() {
        list.push(":");
    }
    list.push(library);
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_looked_for_in_three_places() {
        let name = PRELOADED.name;
        let places = beside(Path::new("/usr/bin/uzram"), name);
        let expected = ["/usr/bin", "/usr/lib/uzram", "/usr/lib"];
        assert_eq!(places, expected.map(|dir| Path::new(dir).join(name)));
    }
}
