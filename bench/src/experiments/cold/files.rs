//! Scratch files beside the inputs, and the timing of standard programs for the same bytes.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::Error;
use crate::inputs::Cache;

const REMEDY: &str = "give UZRAM_BENCH_DIR a directory with room";

/// A file that is removed on drop.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn new(cache: &Cache, name: &str) -> Result<Scratch, Error> {
        let root = cache.root();
        std::fs::create_dir_all(root).map_err(Error::file("make", root, REMEDY))?;
        Ok(Scratch(root.join(format!("cold-{}-{name}", std::process::id()))))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn open(&self) -> Result<File, Error> {
        File::open(&self.0).map_err(Error::file("open", &self.0, REMEDY))
    }

    /// Syncs the file, so that its write-back does not disturb later measurements.
    pub(super) fn sync(&self) -> Result<(), Error> {
        self.open()?.sync_all().map_err(Error::file("sync", &self.0, REMEDY))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The file may not exist.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Returns the seconds that `command` takes, which must succeed.
pub(super) fn seconds(command: &mut Command) -> Result<f64, Error> {
    let begun = Instant::now();
    let output = command.output().ok().filter(|output| output.status.success());
    match output {
        Some(_) => Ok(begun.elapsed().as_secs_f64()),
        None => Err(Error::Setup {
            reason: format!("{command:?} failed"),
            remedy: "install coreutils, and give UZRAM_BENCH_DIR a directory with room",
        }),
    }
}
