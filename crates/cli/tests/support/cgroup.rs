//! Memory cgroups of a test's own.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

/// A memory cgroup of the test's own, gone when dropped.
pub struct Group(PathBuf);

impl Group {
    /// With this limit; `None` where none may be made.
    pub fn new(name: &str, limit: usize) -> Option<Self> {
        let membership = fs::read_to_string("/proc/self/cgroup").ok()?;
        let own = |controller: &str| {
            let named = |line: &&str| line.split(':').nth(1) == Some(controller);
            let line = membership.lines().find(named)?;
            Some(line.splitn(3, ':').nth(2)?.trim_start_matches('/').to_owned())
        };
        let v1 = Path::new("/sys/fs/cgroup/memory");
        let (mount, own, file) = match own("memory").filter(|_| v1.is_dir()) {
            Some(own) => (v1, own, "memory.limit_in_bytes"),
            None => (Path::new("/sys/fs/cgroup"), own("")?, "memory.max"),
        };
        let parent = Some(mount.join(own)).filter(|dir| dir.is_dir()).unwrap_or(mount.to_owned());
        let group = Group(parent.join(format!("uzram-test-{name}-{}", std::process::id())));
        fs::create_dir(&group.0).ok()?;
        // Dropped, and so removed, if the controller is missing here.
        fs::write(group.0.join(file), limit.to_string()).ok()?;
        Some(group)
    }

    /// A line of shell that has a command be of the group: the one it is given.
    pub fn enter(&self) -> String {
        let procs = self.0.join("cgroup.procs");
        format!("echo $$ > '{}' && exec \"$@\"", procs.display())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The last process may take a moment to leave it.
        for _ in 0..1500 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            sleep(Duration::from_millis(20));
        }
        eprintln!("{} could not be removed", self.0.display());
    }
}
