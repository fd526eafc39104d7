//! Programs that are compiled or written for a test.

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

    /// Writes a file with the given contents and permissions.
    pub fn file(&self, name: &str, contents: &[u8], mode: u32) -> String {
        let path = self.path().join(name);
        fs::write(&path, contents).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        text(path)
    }

    /// Compiles a program that exits with 5, with the compiler flags `flags`.
    pub fn compiled(&self, name: &str, flags: &[&str]) -> String {
        let mut gcc = Command::new("gcc");
        gcc.args(["main.c", "-o", name]).args(flags).current_dir(self.path());
        assert!(gcc.status().expect("gcc").success());
        text(self.path().join(name))
    }

    /// Compiles the same program, and changes bytes of its file.
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
