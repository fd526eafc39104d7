//! Programs that a test compiles or writes.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A folder of programs.
pub struct Programs(pub TempDir);

impl Programs {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("main.c"), "int main(void) { return 5; }\n").unwrap();
        Programs(dir)
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file with these contents and permissions. Returns the path of the file.
    pub fn file(&self, name: &str, contents: &[u8], mode: u32) -> String {
        let path = self.path().join(name);
        fs::write(&path, contents).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        text(path)
    }

    /// Compiles a program that exits with code 5. `flags` are the compiler flags.
    pub fn compiled(&self, name: &str, flags: &[&str]) -> String {
        let mut gcc = Command::new("gcc");
        gcc.args(["main.c", "-o", name]).args(flags).current_dir(self.path());
        assert!(gcc.status().expect("gcc").success());
        text(self.path().join(name))
    }

    /// Compiles a program that exits with code 5, and overwrites bytes of the file at offset `at`.
    pub fn patched(&self, name: &str, at: usize, bytes: &[u8]) -> String {
        let program = self.compiled(name, &[]);
        let mut contents = fs::read(&program).unwrap();
        contents[at..at + bytes.len()].copy_from_slice(bytes);
        self.file(name, &contents, 0o755)
    }
}

fn text(path: PathBuf) -> String {
    path.into_os_string().into_string().unwrap()
}
