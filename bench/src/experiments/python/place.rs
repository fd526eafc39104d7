//! A directory with the scripts and the package, and beside the inputs a virtual environment with
//! numpy and diskcache, which is kept between runs.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Error;
use crate::inputs::{Cache, target_dir};
use crate::tool::Tool;
use crate::undo::{Undo, folder};

const ROOM: &str = "set UZRAM_BENCH_DIR to a directory on a disk with 3 GB free";
const BUILD: &str = "build the Python package with cargo build --release -p uzram-python";
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/python/python/uzram");
/// The library's name as cargo builds it, and its name as a Python module.
const LIBRARY: (&str, &str) = ("lib_uzram.so", "_uzram.abi3.so");
/// The packages from the package index.
const PACKAGES: [&str; 2] = ["numpy", "diskcache"];
const SCRIPTS: [(&str, &str); 7] = [
    ("asked.py", include_str!("asked.py")),
    ("calls.py", include_str!("calls.py")),
    ("columns.py", include_str!("columns.py")),
    ("documents.py", include_str!("documents.py")),
    ("kept.py", include_str!("kept.py")),
    ("lines.py", include_str!("lines.py")),
    ("trees.py", include_str!("trees.py")),
];

const PYTHON: Tool =
    Tool { name: "python3", package: "python3", remedy: "install the package python3-venv" };
const PIP: Tool = Tool {
    name: "pip install",
    package: "python3-venv",
    remedy: "let pip reach a package index (see pip config)",
};
const MAKER: Tool = Tool {
    name: "a script that makes an input",
    package: "python3",
    remedy: "see its message; where the disk is full, set UZRAM_BENCH_DIR",
};

/// The directory, which is removed on drop and when a signal ends the run.
#[derive(Debug)]
pub(in crate::experiments) struct Place {
    path: PathBuf,
    python: PathBuf,
    _undo: Undo,
}

impl Place {
    /// Creates a directory with the package as it was built beside this program.
    pub(super) fn new(cache: &Cache) -> Result<Place, Error> {
        // A missing library is detected first because this costs nothing.
        let library = beside(LIBRARY.0);
        fs::metadata(&library).map_err(Error::file("find", &library, BUILD))?;
        let place = Place::with_scripts(cache.root(), environment()?.join("bin/python"))?;
        place.take_package(&library)?;
        Ok(place)
    }

    /// Creates a directory below `root` with the scripts alone, for the interpreter `python`.
    pub(in crate::experiments) fn with_scripts(
        root: &Path,
        python: PathBuf,
    ) -> Result<Place, Error> {
        fs::create_dir_all(root).map_err(Error::file("create", root, ROOM))?;
        // The directory must be on a disk, because a table is mapped from it.
        let (path, undo) = folder("python-", root, ROOM)?;
        let place = Place { path, python, _undo: undo };
        for (name, text) in SCRIPTS {
            let path = place.script(name);
            fs::write(&path, text).map_err(Error::file("write to", &path, ROOM))?;
        }
        Ok(place)
    }

    fn take_package(&self, library: &Path) -> Result<(), Error> {
        let (package, sources) = (self.path.join("uzram"), Path::new(SOURCES));
        fs::create_dir(&package).map_err(Error::file("create", &package, ROOM))?;
        let copy = |from: &Path, name: &str| {
            let copied = fs::copy(from, package.join(name)).map(drop);
            copied.map_err(Error::file("copy", from, BUILD))
        };
        let remedy = "run this program where its sources are";
        let files = fs::read_dir(sources).map_err(Error::file("list", sources, remedy))?;
        for file in files.filter_map(Result::ok).map(|file| file.path()) {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.ends_with(".py") {
                copy(&file, &name)?;
            }
        }
        copy(library, LIBRARY.1)
    }

    pub(super) fn python(&self) -> &Path {
        &self.python
    }

    pub(super) fn script(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Returns the path of a file in the directory, as an argument.
    pub(in crate::experiments) fn file(&self, name: &str) -> String {
        self.script(name).to_string_lossy().into_owned()
    }

    /// Runs a script that creates an input, and returns the JSON that it prints.
    pub(in crate::experiments) fn make(
        &self,
        script: &str,
        arguments: &[String],
        folders: &[PathBuf],
    ) -> Result<serde_json::Value, Error> {
        let mut command = Command::new(&self.python);
        command.args(["-s", "-E"]).arg(self.script(script)).args(arguments).args(folders);
        let told = MAKER.run(&mut command)?.stdout;
        serde_json::from_slice(&told).map_err(|error| MAKER.failed(error.to_string()))
    }
}

/// Returns the path of a file that was built beside this program.
fn beside(name: &str) -> PathBuf {
    env::current_exe().unwrap_or_default().with_file_name(name)
}

/// Returns the directory of the virtual environment, which is created if it does not exist.
fn environment() -> Result<PathBuf, Error> {
    Cache::at(target_dir().join("python")).ensure("venv", |place| {
        PYTHON.run(PYTHON.command().args(["-s", "-m", "venv"]).arg(place))?;
        let mut pip = Command::new(place.join("bin/python"));
        pip.args(["-s", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        PIP.run(pip.args(PACKAGES)).map(drop)
    })
}
