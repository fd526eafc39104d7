//! The memory limit of this process's cgroup, version 1 or 2.
//!
//! The limit of a group also applies to the groups below it. So the smallest limit from the
//! process's group up to the mount point applies. In a container, the mount can show only a
//! subtree, which begins at the mount's root. This root is then removed from the path of the
//! process's group. If the path does not begin with the root, the mount point itself is used as the
//! group.

use std::fs;
use std::path::{Path, PathBuf};

/// The limits of the directories from `group` up to `mount` apply to this process.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CgroupDir {
    mount: PathBuf,
    group: PathBuf,
    /// The name of the file with the limit.
    file: &'static str,
}

/// Returns the smallest memory limit of this process in bytes, or `None` if it has none.
pub(crate) fn memory_limit() -> Option<u64> {
    let membership = fs::read_to_string("/proc/self/cgroup").ok()?;
    // Mount points need not be UTF-8.
    let mounts = fs::read("/proc/self/mountinfo").ok()?;
    cgroup_dirs(&membership, &String::from_utf8_lossy(&mounts)).iter().filter_map(least_limit).min()
}

/// Returns the directories whose limits apply, in the hierarchies of cgroup versions 1 and 2.
fn cgroup_dirs(membership: &str, mounts: &str) -> Vec<CgroupDir> {
    membership.lines().filter_map(|line| cgroup_dir(line, mounts)).collect()
}

/// Parses a line of `/proc/self/cgroup`: `4:memory:/group` in version 1, `0::/group` in version 2.
/// Returns `None` if the line is not for the memory controller.
fn cgroup_dir(line: &str, mounts: &str) -> Option<CgroupDir> {
    let mut fields = line.splitn(3, ':');
    let (number, controllers, group) = (fields.next()?, fields.next()?, fields.next()?);
    let is_v2 = number == "0" && controllers.is_empty();
    if !is_v2 && !controllers.split(',').any(|name| name == "memory") {
        return None;
    }
    let (root, mount) = mounts.lines().find_map(|line| mount_of(line, is_v2))?;
    let inside = Path::new(group).strip_prefix(&root).unwrap_or(Path::new(""));
    let file = if is_v2 { "memory.max" } else { "memory.limit_in_bytes" };
    Some(CgroupDir { group: mount.join(inside), mount, file })
}

/// Parses a line of `/proc/self/mountinfo`, such as `36 35 0:30 /root /mount/point rw,relatime -
/// cgroup source rw,memory`. Returns the root and the mount point if the hierarchy has the memory
/// controller.
fn mount_of(line: &str, is_v2: bool) -> Option<(PathBuf, PathBuf)> {
    let (before, after) = line.split_once(" - ")?;
    let mut after = after.split(' ');
    let (kind, options) = (after.next()?, after.nth(1)?);
    let found = match is_v2 {
        true => kind == "cgroup2",
        false => kind == "cgroup" && options.split(',').any(|option| option == "memory"),
    };
    let mut before = before.split(' ').skip(3);
    let (root, mount) = (before.next()?, before.next()?);
    found.then(|| (PathBuf::from(root), PathBuf::from(mount)))
}

fn least_limit(cgroup: &CgroupDir) -> Option<u64> {
    let group = if cgroup.group.is_dir() { &cgroup.group } else { &cgroup.mount };
    group
        .ancestors()
        .take_while(|dir| dir.starts_with(&cgroup.mount))
        .filter_map(|dir| fs::read_to_string(dir.join(cgroup.file)).ok())
        .filter_map(|text| text.trim().parse().ok())
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &str = "9:name=systemd:/\n4:cpu,memory:/jobs/a:b\n1:cpuset:/x\n0::/\n";
    const V2: &str = "0::/user.slice/one\n";
    const MOUNTS_V1: &str = "\
        31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
        32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n\
        35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:5 - cgroup cgroup rw,memory\n";
    const MOUNTS_V2: &str =
        "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";

    fn expected(mount: &str, group: &str, file: &'static str) -> Vec<CgroupDir> {
        vec![CgroupDir { mount: mount.into(), group: group.into(), file }]
    }

    #[test]
    fn both_versions_are_found() {
        let mount = "/sys/fs/cgroup/memory";
        let group = "/sys/fs/cgroup/memory/jobs/a:b";
        assert_eq!(cgroup_dirs(V1, MOUNTS_V1), expected(mount, group, "memory.limit_in_bytes"));
        let (mount, group) = ("/sys/fs/cgroup", "/sys/fs/cgroup/user.slice/one");
        assert_eq!(cgroup_dirs(V2, MOUNTS_V2), expected(mount, group, "memory.max"));
        assert_eq!(cgroup_dirs(V2, MOUNTS_V1), []);
        assert_eq!(cgroup_dirs("", MOUNTS_V1), []);
        assert_eq!(cgroup_dirs("nonsense\n4:memory\n", "more - nonsense\n\n"), []);
    }

    #[test]
    fn the_root_of_a_mount_is_cut_off() {
        let mounts = "9 8 0:1 /user.slice /cg rw - cgroup2 none rw\n";
        assert_eq!(cgroup_dirs(V2, mounts), expected("/cg", "/cg/one", "memory.max"));
        let elsewhere = "9 8 0:1 /machine.slice /cg rw - cgroup2 none rw\n";
        assert_eq!(cgroup_dirs(V2, elsewhere), expected("/cg", "/cg/", "memory.max"));
    }

    #[test]
    fn the_least_limit_on_the_way_up_counts() {
        let dir = tempfile::tempdir().unwrap();
        let (mount, group) = (dir.path().join("m"), dir.path().join("m/a/b"));
        fs::create_dir_all(&group).unwrap();
        fs::write(dir.path().join("memory.max"), "1\n").unwrap();
        let mut cgroup =
            CgroupDir { mount: mount.clone(), group: group.clone(), file: "memory.max" };
        assert_eq!(least_limit(&cgroup), None);
        fs::write(group.join("memory.max"), "max\n").unwrap();
        fs::write(mount.join("a/memory.max"), "4096\n").unwrap();
        fs::write(mount.join("memory.max"), "8192\n").unwrap();
        assert_eq!(least_limit(&cgroup), Some(4096));
        cgroup.group = mount.join("gone");
        assert_eq!(least_limit(&cgroup), Some(8192));
    }
}
