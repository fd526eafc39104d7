//! Helpers for programs and devices of this machine. Changes to the machine are undone even if a
//! test fails.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Returns whether all programs are installed. Panics if a program is missing that `make setup`
/// could install.
pub fn has(programs: &[&str]) -> bool {
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let is_here = |name: &str| path.split(':').any(|dir| Path::new(dir).join(name).exists());
    let Some(missing) = programs.iter().find(|name| !is_here(name)) else { return true };
    assert!(!rustix::process::geteuid().is_root(), "{missing} is missing: run make setup");
    eprintln!("left out, as {missing} is missing: run make setup as root");
    false
}

/// Runs a program that must succeed. Returns the output of the program.
pub fn run(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let [out, err] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success(), "{command:?}: {}\n{out}\n{err}", output.status);
    out
}

/// Unmounts a directory, when this value is dropped, if the server has not done so.
pub struct Unmounted(pub PathBuf);

impl Drop for Unmounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).stderr(Stdio::null()).status();
    }
}

/// Returns a directory at which a server can mount its disk. Returns `None` if this user is not
/// allowed to mount. Dropping the guard unmounts the directory.
pub fn directory() -> Option<(tempfile::TempDir, PathBuf, Unmounted)> {
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        eprintln!("left out, as it takes root and /dev/fuse");
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    let mount = dir.path().join("m");
    std::fs::create_dir(&mount).unwrap();
    Some((dir, mount.clone(), Unmounted(mount)))
}

/// A loop device and the directory where it is mounted.
pub struct Looped(pub String, pub PathBuf);

impl Drop for Looped {
    fn drop(&mut self) {
        let quiet = |command: &mut Command| {
            drop(command.stdout(Stdio::null()).stderr(Stdio::null()).status())
        };
        // If the mount is still in use, for example after an error, the kernel unmounts it when its
        // last user ends.
        quiet(Command::new("umount").arg(&self.1));
        quiet(Command::new("umount").arg("-l").arg(&self.1));
        quiet(Command::new("/usr/sbin/losetup").args(["-d", &self.0]));
    }
}
