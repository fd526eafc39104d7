//! Memory cgroups of a test's or an experiment's own.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

/// A memory cgroup, gone when dropped.
#[derive(Debug)]
pub struct Group {
    dir: PathBuf,
    /// The file that says the most it has held.
    peak: &'static str,
}

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
        let (mount, own, file, peak) = match own("memory").filter(|_| v1.is_dir()) {
            Some(own) => (v1, own, "memory.limit_in_bytes", "memory.max_usage_in_bytes"),
            None => (Path::new("/sys/fs/cgroup"), own("")?, "memory.max", "memory.peak"),
        };
        let parent = Some(mount.join(own)).filter(|dir| dir.is_dir()).unwrap_or(mount.to_owned());
        let dir = parent.join(format!("uzram-{name}-{}", std::process::id()));
        fs::create_dir(&dir).ok()?;
        let group = Group { dir, peak };
        // Dropped, and so removed, if the controller is missing here.
        fs::write(group.dir.join(file), limit.to_string()).ok()?;
        Some(group)
    }

    /// The file that a process which is to be of the group is written to.
    pub fn members(&self) -> PathBuf {
        self.dir.join("cgroup.procs")
    }

    /// The most bytes that it has held, where the system says so.
    pub fn peak(&self) -> Option<u64> {
        fs::read_to_string(self.dir.join(self.peak)).ok()?.trim().parse().ok()
    }

    /// A line of shell that has a command be of the group: the one it is given.
    pub fn enter(&self) -> String {
        format!("echo $$ > '{}' && exec \"$@\"", self.members().display())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The last process may take a moment to leave it.
        for _ in 0..1500 {
            if fs::remove_dir(&self.dir).is_ok() {
                return;
            }
            sleep(Duration::from_millis(20));
        }
        eprintln!("{} could not be removed", self.dir.display());
    }
}
