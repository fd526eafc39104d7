//! Where the library lies that is loaded into programs.

use crate::error::{Error, failed};
use measure::text::escaped;
use std::env;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf, absolute};

/// The variable by which the system's loader is told what to load.
pub(super) const VARIABLE: &str = "LD_PRELOAD";

/// A variable that names the library.
const ITS_PATH: &str = "UZRAM_PRELOAD";

const NAME: &str = "libuzram_preload.so";

/// Returns the path of the library.
pub(super) fn find() -> Result<PathBuf, Error> {
    let places = match env::var_os(ITS_PATH).filter(|path| !path.is_empty()) {
        Some(path) => absolute(path).into_iter().collect(),
        None => env::current_exe().map(|command| beside(&command)).unwrap_or_default(),
    };
    let Some(found) = places.iter().find(|path| path.is_file()) else {
        let places: Vec<_> = places.iter().map(|path| format!("'{}'", escaped(path))).collect();
        return Err(failed(format!(
            "the library to be loaded into programs was not found: it is not at {}; build it with \
             'cargo build --release -p uzram-preload', or name it by the variable {ITS_PATH}",
            places.join(" nor at ")
        )));
    };
    // The loader takes a list, and replaces words with a dollar in it.
    if found.as_os_str().as_bytes().iter().any(|byte| b" :$".contains(byte)) {
        return Err(failed(format!(
            "'{}' can't be loaded into programs: a space, a colon or a dollar is in its path; \
             copy it elsewhere, and name that by the variable {ITS_PATH}",
            escaped(found)
        )));
    }
    Ok(found.clone())
}

/// Returns where it is looked for, in this order.
fn beside(command: &Path) -> Vec<PathBuf> {
    let dir = command.parent().unwrap_or(Path::new("/"));
    let installed = ["lib/uzram", "lib"].map(|lib| dir.parent().unwrap_or(dir).join(lib));
    [dir.to_owned()].into_iter().chain(installed).map(|dir| dir.join(NAME)).collect()
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
        let places = beside(Path::new("/usr/bin/uzram"));
        let expected = ["/usr/bin", "/usr/lib/uzram", "/usr/lib"];
        assert_eq!(places, expected.map(|dir| Path::new(dir).join(NAME)));
    }
}
