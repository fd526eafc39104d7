//! Debian's Linux source tree, unpacked.

use std::fs;
use std::path::{Path, PathBuf};

use super::Cache;
use crate::Error;
use crate::tool::Tool;

/// The directories of the tree in the order in which the removal experiment discards them.
pub const REMOVAL_ORDER: [&str; 9] =
    ["drivers", "arch", "fs", "sound", "include", "net", "Documentation", "kernel", "tools"];

const PACKAGE: &str = "linux-source-6.1";
const ROOM: &str = "set UZRAM_BENCH_DIR to a directory with 3 GB free";

const APT: Tool = Tool {
    name: "apt-get",
    package: "apt",
    remedy: "see that apt has a source with linux-source-6.1 (Debian 12) and run apt-get update as root",
};
const DPKG: Tool = Tool { name: "dpkg-deb", package: "dpkg", remedy: ROOM };
const TAR: Tool = Tool { name: "tar", package: "tar", remedy: ROOM };
const XZ: Tool = Tool { name: "xz", package: "xz-utils", remedy: ROOM };

pub(super) fn ensure(cache: &Cache) -> Result<PathBuf, Error> {
    cache.ensure(PACKAGE, |place| {
        // Checks the programs before the download. tar would report a missing xz only after the
        // download.
        XZ.run(XZ.command().arg("--version"))?;
        TAR.run(TAR.command().arg("--version"))?;
        make(place)
    })
}

fn make(place: &Path) -> Result<(), Error> {
    let packed = place.join("packed");
    fs::create_dir_all(&packed).map_err(Error::file("create", &packed, ROOM))?;
    download(&packed)?;
    let deb = with_suffix(&packed, ".deb")?;
    DPKG.run(DPKG.command().arg("-x").arg(&deb).arg(&packed))?;
    let tarball = packed.join("usr/src").join(format!("{PACKAGE}.tar.xz"));
    let mut tar = TAR.command();
    // Removes the first component of each path, which is the name of the tree.
    tar.arg("-xJf")
        .arg(&tarball)
        .args(["--no-same-owner", "--strip-components=1", "-C"])
        .arg(place);
    TAR.run(&mut tar)?;
    fs::remove_dir_all(&packed).map_err(Error::file("remove", &packed, ROOM))
}

fn download(dir: &Path) -> Result<(), Error> {
    let attempt = || APT.run(APT.command().args(["-q", "download", PACKAGE]).current_dir(dir));
    if attempt().is_ok() {
        return Ok(());
    }
    // The package list may be old or missing, so a failed download is tried again after an update
    // of the list.
    if let Err(error) = APT.run(APT.command().args(["-q", "update"])) {
        eprintln!("bench: {error}");
    }
    attempt().map(drop)
}

fn with_suffix(dir: &Path, suffix: &str) -> Result<PathBuf, Error> {
    let entries = fs::read_dir(dir).map_err(Error::file("list", dir, ROOM))?;
    let fits = |path: &PathBuf| path.to_string_lossy().ends_with(suffix);
    let found = entries.filter_map(|entry| Some(entry.ok()?.path())).find(fits);
    found.ok_or_else(|| APT.failed(format!("it left no {suffix} file in {}", dir.display())))
}
