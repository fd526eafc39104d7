//! Finds `uzram-host`, the executable that contains the runtime.

use crate::refusal::{Refusal, escaped};
use executable::Loading;
use std::env;
use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf, absolute};

const NAME: &str = "uzram-host";
/// The environment variable that holds the path of the host.
const VARIABLE: &str = "UZRAM_HOST";

/// Returns the path of the host.
pub(crate) fn find() -> Result<PathBuf, Refusal> {
    let places = match env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
        Some(path) => absolute(path).into_iter().collect(),
        // If /proc is not mounted, the message below shows paths next to /proc/self/exe.
        None => beside(&env::current_exe().unwrap_or_else(|_| "/proc/self/exe".into())),
    };
    let Some(found) = places.iter().find(|path| path.is_file()) else {
        let places: Vec<_> = places.iter().map(|path| format!("'{}'", escaped(path))).collect();
        let places = places.join(" nor at ");
        return Err(Refusal::Failed(format!(
            "the host of programs was not found: it is not at {places}; build it with 'make \
             build', mount /proc, or name it by the variable {VARIABLE}"
        )));
    };
    let loading = File::open(found).map(|file| Loading::of(file, |_| true));
    if !matches!(loading, Ok(Ok(Loading::Host))) {
        let reason = loading.err().map_or("it is not a uzram-host".to_owned(), |it| it.to_string());
        return Err(Refusal::Failed(format!(
            "'{}' can't be used as the host of programs: {reason}; install uzram again, or correct \
             the variable {VARIABLE}",
            escaped(found)
        )));
    }
    // The settings contain the path, and settings are separated by commas.
    if found.as_os_str().as_bytes().contains(&b',') {
        return Err(Refusal::Failed(format!(
            "'{}' can't be used as the host of programs: a comma is in its path; copy it \
             elsewhere, and name that by the variable {VARIABLE}",
            escaped(found)
        )));
    }
    Ok(found.clone())
}

/// Returns the possible paths of the host, in the order of the search.
fn beside(command: &Path) -> Vec<PathBuf> {
    let dir = command.parent().unwrap_or(Path::new("/"));
    let installed = dir.parent().unwrap_or(dir).join("lib/uzram");
    [dir.to_owned(), installed].map(|dir| dir.join(NAME)).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_looked_for_in_two_places() {
        let places = beside(Path::new("/usr/bin/uzram"));
        assert_eq!(places, ["/usr/bin/uzram-host", "/usr/lib/uzram/uzram-host"].map(PathBuf::from));
    }
}
