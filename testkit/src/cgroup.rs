//! Memory cgroups that a test or an experiment creates.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

/// The file of cgroups of version 1 that controls the reaction to a memory shortage.
const OOM: &str = "memory.oom_control";

/// A memory cgroup, removed on drop.
#[derive(Debug)]
pub struct Group {
    dir: PathBuf,
    limit: usize,
    /// The file that contains the group's limit.
    file: &'static str,
}

impl Group {
    /// Creates a group with the limit `limit`. Returns `None` if groups can't be created.
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
        let dir = parent.join(format!("uzram-{name}-{}", std::process::id()));
        fs::create_dir(&dir).ok()?;
        let group = Group { dir, limit, file };
        // If the memory controller is missing, the function returns here, and the drop removes the
        // group.
        group.set(limit)?;
        Some(group)
    }

    /// Returns the file to which the id of a process is written to add it to the group.
    pub fn members(&self) -> PathBuf {
        self.dir.join("cgroup.procs")
    }

    /// After this call, the kernel no longer kills the group's processes when memory runs out, but
    /// makes them wait for [`let_on`](Self::let_on). With cgroups of version 2, this function has
    /// no effect.
    pub fn keep(&self) {
        let _version_2 = fs::write(self.dir.join(OOM), "1");
    }

    /// Lets the waiting processes continue. Returns true if any process was waiting.
    pub fn let_on(&self) -> bool {
        let state = fs::read_to_string(self.dir.join(OOM)).unwrap_or_default();
        let waits = state.lines().any(|line| line == "under_oom 1");
        if waits {
            // Raises the limit for a moment, because waiting processes try again when the limit
            // rises.
            let _raised = self.set(self.limit + (1 << 20)).and_then(|()| self.set(self.limit));
        }
        waits
    }

    fn set(&self, limit: usize) -> Option<()> {
        fs::write(self.dir.join(self.file), limit.to_string()).ok()
    }

    /// Returns a line of shell that adds its process to the group and then runs the command in its
    /// arguments.
    pub fn enter(&self) -> String {
        format!("echo $$ > '{}' && exec \"$@\"", self.members().display())
    }
}

impl Group {
    /// Removes the group, if it still exists. The group must have no process any more.
    pub fn remove(&self) {
        // The last process can take a moment to leave the group.
        for _ in 0..1500 {
            if fs::remove_dir(&self.dir).is_ok() || !self.dir.exists() {
                return;
            }
            sleep(Duration::from_millis(20));
        }
        eprintln!("{} could not be removed", self.dir.display());
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.remove();
    }
}
