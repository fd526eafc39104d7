//! Tests a server whose disk is used by its own machine while memory is short. The kernel can then
//! free a page only after the server has stored the page's data.
//!
//! The server runs in its own cgroup. In the cgroup of the writers (version 1, without
//! PR_SET_IO_FLUSHER), the server would deadlock. The kernel would make the server's threads wait
//! for pages that these threads must store.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use support::host::{Looped, Unmounted, has, run};
use support::{Server, text, until};
use testkit::cgroup::Group;

const MIB: usize = 1 << 20;

/// The size of each write, and the memory limits of two cgroups: that of the writers, and that of
/// the server. All are in bytes.
const DATA: usize = 96 * MIB;
const OF_WRITERS: usize = 48 * MIB;
const OF_SERVER: usize = 96 * MIB;

/// Aborts requests to a mount when this value is dropped during a panic. A process that waits for
/// such a request can't be killed.
struct Aborted<'m>(&'m Path);

impl Drop for Aborted<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = Command::new("umount").arg("-f").arg(self.0).stderr(Stdio::null()).status();
        }
    }
}

/// A process that is killed when this value is dropped.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        // A process that waits for a mount ends only when the mount is aborted. So this thread does
        // not wait for the process.
        let _ = self.0.kill();
    }
}

/// Runs a shell line as a process in the cgroup.
fn run_in(group: &Group, line: &str, dir: &Path) {
    let mut command = Command::new("sh");
    command.args(["-c", &group.enter(), "sh", "sh", "-ec", line]).current_dir(dir);
    let mut ending = Ending(command.stdin(Stdio::null()).spawn().unwrap());
    until(&format!("this ends: {line}"), || ending.0.try_wait().unwrap().is_some());
    let status = ending.0.wait().unwrap();
    assert!(status.success(), "{line}: {status}");
}

#[test]
fn what_is_written_back_through_it_gets_there() {
    const NAME: &str = "what_is_written_back_through_it_gets_there";
    let is_here = |path: &str| Path::new(path).exists();
    if !rustix::process::geteuid().is_root()
        || !is_here("/dev/fuse")
        || !is_here("/dev/loop-control")
    {
        eprintln!("{NAME}: skipped, it takes root, /dev/fuse and loop devices");
        return;
    }
    if !has(&["losetup", "mkfs.ext4"]) {
        return;
    }
    let groups = Group::new("server", OF_SERVER).zip(Group::new("writers", OF_WRITERS));
    let Some((of_server, of_writers)) = groups else {
        eprintln!("{NAME}: skipped, no memory cgroup may be made here");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let (mount, mnt) = (dir.path().join("m"), dir.path().join("mnt"));
    [&mount, &mnt].into_iter().for_each(|dir| fs::create_dir(dir).unwrap());
    let _unmounted = Unmounted(mount.clone());
    let args = ["--size", "512M", "--mem-limit", "64M", "--mount", mount.to_str().unwrap()];
    let server = Server::within(&of_server.enter(), &args);
    let attached =
        run(Command::new("/usr/sbin/losetup").args(["-f", "--show"]).arg(mount.join("disk")));
    let device = attached.trim_end();
    let _looped = Looped(device.to_owned(), mnt.clone());
    let _aborted = Aborted(&mount);
    run(Command::new("/usr/sbin/mkfs.ext4").args(["-q", "-F", device]));
    run(Command::new("mount").arg(device).arg(&mnt));
    fs::write(dir.path().join("data"), text(1, DATA)).unwrap();
    // The data exceed the memory limit of the writers, so the kernel must free pages. The kernel
    // can free a page only after the server has stored the page's data.
    for round in 0..3 {
        let write = format!("dd if=data of=mnt/{round} bs=1M conv=fsync");
        run_in(&of_writers, &write, dir.path());
        run(Command::new("umount").arg(&mnt));
        run(Command::new("mount").arg(device).arg(&mnt));
        run_in(&of_writers, &format!("cmp data mnt/{round}; rm mnt/{round}"), dir.path());
        run(Command::new("sync").arg("-f").arg(&mnt));
        run(Command::new("fstrim").arg(&mnt));
    }
    let stat = server.ask("stat", &["--json"]).json();
    assert!(stat["mem_used_max"].as_u64() > Some(10 << 20), "too little was stored: {stat}");
}
