//! The directory that keeps the inputs between runs.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::Error;
use crate::undo::{Action, Undo};

const VARIABLE: &str = "UZRAM_BENCH_DIR";
const REMEDY: &str = "set UZRAM_BENCH_DIR to a directory that can be written to, with 3 GB free";

/// The directory in which inputs are created and kept.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
}

impl Cache {
    /// Returns `$UZRAM_BENCH_DIR`, or `bench-inputs` in cargo's target directory.
    pub fn from_env() -> Cache {
        match env::var_os(VARIABLE) {
            Some(root) if !root.is_empty() => Cache::at(PathBuf::from(root)),
            _ => Cache::at(target_dir().join("bench-inputs")),
        }
    }

    /// Returns the cache in directory `root`, which is created when it is first needed.
    pub fn at(root: PathBuf) -> Cache {
        Cache { root }
    }

    /// Returns the directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the path of the entry `name`, a file or a directory. If the entry does not exist,
    /// `make` creates it at a temporary path. The path is renamed when the entry is complete.
    /// Concurrent runs wait for each other.
    pub fn ensure(
        &self,
        name: &str,
        make: impl FnOnce(&Path) -> Result<(), Error>,
    ) -> Result<PathBuf, Error> {
        let entry = self.root.join(name);
        // An existing entry is complete, so its use needs neither the lock nor write permission.
        if entry.exists() {
            return Ok(entry);
        }
        fs::create_dir_all(&self.root).map_err(Error::file("create", &self.root, REMEDY))?;
        let lock = self.root.join("lock");
        let file = File::create(&lock).map_err(Error::file("create", &lock, REMEDY))?;
        file.lock().map_err(Error::file("lock", &lock, REMEDY))?;
        if entry.exists() {
            return Ok(entry);
        }
        eprintln!("bench: making the input {name} in {}", self.root.display());
        let partial = self.root.join(format!("{name}.partial"));
        clear(&partial)?;
        let left = partial.clone();
        // Removes a partial entry after a failure. After a success nothing remains at the temporary
        // path.
        let (_, _undo) = Undo::of(|| {
            let action: Action = Box::new(move || clear(&left));
            Ok::<_, Error>(((), action))
        })?;
        make(&partial)?;
        fs::rename(&partial, &entry).map_err(Error::file("rename to", &entry, REMEDY))?;
        Ok(entry)
    }
}

fn clear(path: &Path) -> Result<(), Error> {
    let removed = if path.is_dir() {
        fs::remove_dir_all(path)
    } else if path.exists() {
        fs::remove_file(path)
    } else {
        Ok(())
    };
    removed.map_err(Error::file("remove", path, REMEDY))
}

// Returns the nearest directory above the program that contains cargo's file `CACHEDIR.TAG`, or
// else the nearest directory named `target`. If there is neither, returns the directory that cargo
// would choose.
fn target_dir() -> PathBuf {
    let program = env::current_exe().unwrap_or_default();
    let marked = program.ancestors().find(|path| path.join("CACHEDIR.TAG").is_file());
    let named = || program.ancestors().find(|path| path.ends_with("target"));
    let asked_for = || env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let found = marked.or_else(named).map(Path::to_path_buf).or_else(asked_for);
    found.unwrap_or_else(|| PathBuf::from("target"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_once_and_only_kept_whole() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path().join("deep/cache"));
        let failed = cache.ensure("thing", |path| {
            fs::write(path, "half").unwrap();
            Err(Error::Setup { reason: "on purpose".into(), remedy: "none" })
        });
        assert!(failed.is_err());
        assert!(!dir.path().join("deep/cache/thing").exists());
        assert!(!dir.path().join("deep/cache/thing.partial").exists());
        let made = cache.ensure("thing", |path| {
            fs::write(path, "whole").unwrap();
            Ok(())
        });
        assert_eq!(fs::read_to_string(made.unwrap()).unwrap(), "whole");
        let again = cache.ensure("thing", |_| panic!("it is there"));
        assert_eq!(fs::read_to_string(again.unwrap()).unwrap(), "whole");
    }
}
