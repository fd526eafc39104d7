//! Tests mounts of a device. A server unmounts only its own mount, and answers requests whatever
//! happens to its mount.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use rustix::process::Signal;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;
use support::host::{Looped, Unmounted, directory, has, run};
use support::{Server, end, noise, text, until};

const MIB: usize = 1 << 20;
const NOBODY: u32 = 65534;

fn tmpfs(at: &Path, name: &str) {
    run(Command::new("mount").args(["-t", "tmpfs", "tmpfs"]).arg(at));
    fs::write(at.join(name), name).unwrap();
}

/// Unmounts `at`, and retries while the mount is busy. A child that another test starts holds
/// copies of this process's descriptors until the child executes a program.
fn unmount(at: &Path) {
    until(&format!("{} is in use", at.display()), || {
        end(Command::new("umount").arg(at)).code == Some(0)
    });
}

/// Returns all mounts of this machine, including mounts of other tests. The paths of mounts can
/// contain any bytes.
fn mounts() -> String {
    String::from_utf8_lossy(&fs::read("/proc/self/mounts").unwrap()).into_owned()
}

fn server(mount: &Path) -> Server {
    Server::new(&["--mount", mount.to_str().unwrap()])
}

fn ended(mut server: Server) -> String {
    server.signal("TERM");
    assert_eq!(server.ended().0, Some(0));
    server.said()
}

#[test]
fn what_lies_below_stays() {
    let Some((_dir, mount, _unmounted)) = directory() else { return };
    tmpfs(&mount, "below");
    for _ in 0..3 {
        let server = server(&mount);
        assert!(mount.join("disk").exists());
        // An open file in the mount does not delay the end of the server.
        let _open = fs::File::open(mount.join("disk")).unwrap();
        ended(server);
        assert_eq!(fs::read(mount.join("below")).unwrap(), b"below");
    }
    unmount(&mount);
}

#[test]
fn what_was_mounted_there_since_stays() {
    let Some((_dir, mount, _unmounted)) = directory() else { return };
    let over = server(&mount);
    tmpfs(&mount, "since");
    let said = ended(over);
    assert_eq!(fs::read(mount.join("since")).unwrap(), b"since");
    assert!(said.contains("something else is mounted over it"), "{said}");
    unmount(&mount);
    // The ended server left a dead mount, because another file system was mounted over its mount.
    // The next server unmounts the dead mount.
    ended(server(&mount));
    // Another process has unmounted the server's mount, and mounted another file system in its
    // place.
    let gone = server(&mount);
    unmount(&mount);
    tmpfs(&mount, "since");
    ended(gone);
    assert_eq!(fs::read(mount.join("since")).unwrap(), b"since");
    unmount(&mount);
    // Another mount lies inside the server's mount.
    let within = server(&mount);
    tmpfs(&mount.join("attr"), "within");
    let said = ended(within);
    assert!(said.contains("is mounted"), "{said}");
    let mounts = mounts();
    assert!(mounts.contains(&format!("{}/attr tmpfs", mount.display())), "{mounts}");
    run(Command::new("umount").arg("-l").arg(&mount));
}

/// If mounts could be stacked, users would not know which disk they use.
#[test]
fn the_mount_of_a_live_server_is_refused() {
    let Some((dir, mount, _unmounted)) = directory() else { return };
    let first = server(&mount);
    for at in [mount.clone(), mount.join("attr")] {
        let mut second = support::serve(dir.path());
        let second = support::end(second.args(["--nbd", "unix:n", "--mount"]).arg(at));
        assert_eq!(second.code, Some(1), "{second:?}");
        assert!(second.err.contains("the mount of another server"), "{second:?}");
    }
    fs::write(mount.join("attr/mem_limit"), "9").unwrap();
    assert_eq!(first.ask("attr", &["mm_stat"]).code, Some(0));
    ended(first);
    assert_eq!(fs::read_dir(&mount).unwrap().count(), 0);
}

/// The names of other programs' mount points can contain any bytes.
#[test]
fn mount_points_are_of_any_bytes() {
    let Some((dir, mount, _unmounted)) = directory() else { return };
    let odd = dir.path().join(OsStr::from_bytes(b"o \xff\\d"));
    fs::create_dir(&odd).unwrap();
    let _unmounted = Unmounted(odd.clone());
    tmpfs(&odd, "there");
    let beside = server(&mount);
    assert!(mount.join("disk").exists());
    ended(beside);
    assert_eq!(fs::read_dir(&mount).unwrap().count(), 0);
    let mut command = support::serve(dir.path());
    command.args(["--nbd", "unix:nbd.sock", "--mount"]).arg(&odd);
    let over = Server::announced(command.spawn().unwrap(), tempfile::tempdir().unwrap());
    assert!(odd.join("disk").exists());
    ended(over);
    assert_eq!(fs::read(odd.join("there")).unwrap(), b"there");
    unmount(&odd);
}

/// The server refuses a mount that would hide a path that the server needs. The server also refuses
/// two sockets with the same path.
#[test]
fn what_a_server_needs_is_not_in_its_mount() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |args: &str| {
        let mut command = std::process::Command::new(support::UZRAM);
        command.args(["serve", "--size", "1M"]).args(args.split(' ')).current_dir(dir.path());
        let refused = support::end(&mut command);
        assert_eq!(refused.code, Some(2), "{args}: {refused:?}");
        refused.err
    };
    fs::create_dir(dir.path().join("m")).unwrap();
    symlink("m", dir.path().join("link")).unwrap();
    symlink("m/saved", dir.path().join("saved")).unwrap();
    for (args, flag) in [
        ("--nbd unix:n --control c --save-on-exit m/f", "--save-on-exit"),
        ("--nbd unix:n --control c --save-on-exit link/disk", "--save-on-exit"),
        ("--nbd unix:n --control c --save-on-exit saved", "--save-on-exit"),
        ("--nbd unix:n --control c --backing ./m/x", "--backing"),
        ("--nbd unix:m/n --control c", "--nbd"),
        ("--nbd unix:n --control m/c", "--control"),
    ] {
        let said = refused(&format!("{args} --mount m"));
        assert!(said.contains(&format!("{flag} '")) && said.contains("--mount"), "{said}");
    }
    let said = refused("--nbd unix:s --control m/../s");
    assert!(said.contains("--nbd and --control"), "{said}");
    assert_eq!(fs::read_dir(dir.path().join("m")).unwrap().count(), 0);
}

#[test]
fn a_dead_mount_of_ours_is_taken_off() {
    let Some((dir, mount, _unmounted)) = directory() else { return };
    // The next server can mount at the directory of the killed server's mount.
    for _ in 0..2 {
        let mut killed = server(&mount);
        assert!(mount.join("disk").exists());
        killed.child.kill().unwrap();
        killed.child.wait().unwrap();
        assert!(fs::read_dir(&mount).is_err());
        let mut again = server(&mount);
        assert!(fs::read_dir(&mount).is_ok());
        again.signal("TERM");
        assert_eq!(again.ended().0, Some(0));
        let said = again.said();
        assert!(said.contains("/m', where a killed server had left its mount"), "{said}");
    }
    assert_eq!(fs::read_dir(&mount).unwrap().count(), 0);
    // The server does not unmount a dead mount of another program.
    if !has(&["nbdfuse"]) {
        return;
    }
    let disk = Server::new(&[]);
    let mut other = Command::new("nbdfuse").arg(&mount).arg(disk.uri()).spawn().unwrap();
    until("nbdfuse mounts it", || mount.join("nbd").exists());
    let _ = (other.kill(), other.wait());
    assert!(fs::read_dir(&mount).is_err());
    let refused =
        support::end(support::serve(dir.path()).args(["--nbd", "unix:n"]).args(["--mount", "m"]));
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let mounts = mounts();
    assert!(mounts.contains(&format!(" {} fuse", mount.display())), "{mounts}");
}

/// A user without the privilege to mount uses fusermount3.
#[test]
fn a_user_mounts_and_unmounts_too() {
    let Some((dir, mount, _unmounted)) = directory() else { return };
    let mode = fs::metadata("/dev/fuse").unwrap().permissions().mode();
    if mode & 0o006 != 0o006 || !has(&["fusermount3", "setpriv"]) {
        eprintln!("left out, as only root may open /dev/fuse");
        return;
    }
    for at in [dir.path(), &mount] {
        fs::set_permissions(at, fs::Permissions::from_mode(0o755)).unwrap();
        chown(at, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let binary = dir.path().join("uzram");
    // A separate process writes the copy. If this process wrote the copy, a child of another test
    // could hold the copy open for writing. The copy could then not be executed.
    run(Command::new("cp").arg(support::UZRAM).arg(&binary));
    let started = || {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&binary);
        command.args(["serve", "--size", "16M", "--nbd", "unix:nbd.sock", "--control", "c.sock"]);
        command.args(["--mount", "m"]).current_dir(dir.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Server::announced(command.spawn().unwrap(), tempfile::tempdir().unwrap())
    };
    let as_nobody = |line: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-ec", line]);
        run(command.current_dir(dir.path()))
    };
    tmpfs(&mount, "below");
    chown(&mount, Some(NOBODY), Some(NOBODY)).unwrap();
    let first = started();
    as_nobody(
        "echo hello | dd of=m/disk conv=notrunc status=none; head -c 5 m/disk | grep -q hello",
    );
    ended(first);
    assert_eq!(fs::read(mount.join("below")).unwrap(), b"below");
    let mut killed = started();
    killed.child.kill().unwrap();
    killed.child.wait().unwrap();
    let again = started();
    as_nobody("cat m/attr/disksize");
    let said = ended(again);
    assert!(said.contains("where a killed server had left its mount"), "{said}");
    assert_eq!(fs::read(mount.join("below")).unwrap(), b"below");
    unmount(&mount);
}

/// Opening the disk with truncation has no effect, as on a block device. Only writes change data.
#[test]
fn the_disk_is_opened_to_be_cut_and_is_not() {
    let Some((dir, mount, _unmounted)) = directory() else { return };
    let server = server(&mount);
    fs::write(dir.path().join("part"), text(1, 3 * MIB + 777)).unwrap();
    server.client().write(0, &noise(1, 8 * MIB));
    for line in [
        "cat part > m/disk",
        "cp part m/disk",
        "dd if=part of=m/disk bs=64K status=none",
        "dd if=part of=m/disk bs=4K seek=5 status=none; cat part > m/disk",
    ] {
        run(Command::new("sh").args(["-ec", line]).current_dir(dir.path()));
        assert_eq!(fs::metadata(mount.join("disk")).unwrap().len(), 256 << 20, "{line}");
        run(Command::new("sh").args(["-ec", "cmp -n 3146505 part m/disk"]).current_dir(dir.path()));
        let behind = server.client().read(4 * MIB as u64, 4 * MIB);
        assert!(behind == noise(1, 8 * MIB)[4 * MIB..], "{line}");
    }
    let disk = fs::File::options().write(true).open(mount.join("disk")).unwrap();
    assert_eq!(disk.set_len((256 << 20) + 1).unwrap_err().raw_os_error(), Some(22));
    drop(disk);
    ended(server);
}

#[test]
fn a_job_of_an_attribute_holds_up_no_reader() {
    let Some((dir, mount, _unmounted)) = directory() else { return };
    let args = ["--size", "256M", "--mem-limit", "0", "--mount", mount.to_str().unwrap()];
    let server = Server::within("exec taskset -c 0 \"$@\"", &args);
    server.client().write(0, &noise(1, 200 * MIB));
    let (saved, saving) = (dir.path().join("saved"), dir.path().join(".saved.saving"));
    let disk = fs::File::open(mount.join("disk")).unwrap();
    let reads_amid = || {
        let mut reads = 0;
        let mut block = [0; 4096];
        thread::scope(|scope| {
            let save = || fs::write(mount.join("attr/save"), saved.to_str().unwrap()).unwrap();
            let job = scope.spawn(save);
            while !saving.exists() && !job.is_finished() {
                thread::sleep(Duration::from_millis(1));
            }
            while saving.exists() {
                disk.read_exact_at(&mut block, 4096 * (reads % 1000)).unwrap();
                reads += u64::from(saving.exists());
            }
            job.join().unwrap();
        });
        fs::remove_file(&saved).unwrap();
        reads
    };
    // A save that ends before this thread runs again tests nothing, so the test repeats the save.
    assert!((0..20).any(|_| reads_amid() > 3), "no reads are answered meanwhile");
    // A relative path is refused, because the writer of the attribute does not know the server's
    // working directory.
    let relative = fs::write(mount.join("attr/save"), "relative").unwrap_err();
    assert_eq!(relative.raw_os_error(), Some(22));
    drop(disk);
    ended(server);
}

/// A save through the mount is treated as a save by the server itself, before and during the
/// server's end.
#[test]
fn a_save_through_the_mount_is_no_strangers() {
    let Some((dir, mount, _unmounted)) = directory() else { return };
    let (file, saving) = (dir.path().join("saved"), dir.path().join(".saved.saving"));
    let save = || fs::write(mount.join("attr/save"), format!("{}\n", file.display()));
    let flags = ["--save-on-exit", file.to_str().unwrap(), "--mount", mount.to_str().unwrap()];
    for is_amid in [false, true] {
        let server = Server::new(&flags);
        server.client().write(0, &noise(1, 64 * MIB));
        save().unwrap();
        server.client().write(64 * MIB as u64, &text(2, MIB));
        thread::scope(|scope| {
            // Either the save completes before the server's end, or the server's end cancels the
            // save.
            let job = is_amid.then(|| scope.spawn(|| drop(save())));
            until("it saves", || {
                saving.exists() || job.as_ref().is_none_or(|job| job.is_finished())
            });
            let said = ended(server);
            assert!(!said.contains("saved.1"), "{said}");
        });
        let restored = Server::restored(&file, &[]);
        assert!(restored.client().read(64 * MIB as u64, MIB) == text(2, MIB));
        let mut left: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["m", "saved"]);
        fs::remove_file(&file).unwrap();
    }
}

#[test]
fn a_disk_is_not_saved_to_itself() {
    let Some((dir, mount, _unmounted)) = directory() else { return };
    if !Path::new("/dev/loop-control").exists() || !has(&["losetup", "mkfs.ext4"]) {
        return;
    }
    let server = server(&mount);
    let losetup = || Command::new("/usr/sbin/losetup");
    let attached = run(losetup().args(["-f", "--show"]).arg(mount.join("disk")));
    let (device, mnt) = (attached.trim_end().to_owned(), dir.path().join("mnt"));
    let _looped = Looped(device.clone(), mnt.clone());
    fs::create_dir(&mnt).unwrap();
    run(Command::new("/usr/sbin/mkfs.ext4").args(["-q", "-F", &device]));
    run(Command::new("mount").arg(&device).arg(&mnt));
    // The second loop device uses a file in the file system on the first loop device.
    let (inner, image) = (dir.path().join("inner"), mnt.join("image"));
    fs::create_dir(&inner).unwrap();
    fs::File::create(&image).unwrap().set_len(16 << 20).unwrap();
    let attached = run(losetup().args(["-f", "--show"]).arg(&image));
    let upper = Looped(attached.trim_end().to_owned(), inner.clone());
    run(Command::new("/usr/sbin/mkfs.ext4").args(["-q", "-F", &upper.0]));
    run(Command::new("mount").arg(&upper.0).arg(&inner));
    for target in [mnt.join("saved"), inner.join("saved"), mount.join("saved")] {
        let path = target.to_str().unwrap();
        let saved = server.ask("save", &[path]);
        assert!(saved.code == Some(1) && saved.err.contains("lies on the disk"), "{saved:?}");
        let by_name = server.ask("attr", &["save", path]);
        assert!(by_name.code == Some(1) && by_name.err.contains("lies on the disk"), "{by_name:?}");
        let by_file = fs::write(mount.join("attr/save"), path).unwrap_err();
        assert_eq!(by_file.raw_os_error(), Some(35), "{by_file}");
    }
    let elsewhere = dir.path().join("saved");
    assert_eq!(server.ask("save", &[elsewhere.to_str().unwrap()]).code, Some(0));
    drop(upper);
    drop(_looped);
    ended(server);
}

/// The server of the existing mount is stopped, so requests to this mount never return.
#[test]
fn a_stuck_mount_there_holds_nothing_up() {
    let Some((dir, mount, _unmounted)) = directory() else { return };
    let stuck = server(&mount);
    stuck.signal("STOP");
    // The other server must not unmount this mount, because the stopped server can continue later.
    let mut over = support::serve(dir.path());
    let over = support::end(over.args(["--nbd", "unix:n", "--mount"]).arg(&mount));
    assert_eq!(over.code, Some(1), "{over:?}");
    assert!(over.err.contains("the mount of another server"), "{over:?}");
    stuck.signal("CONT");
    ended(stuck);
}

/// The server's mount fails after clients have connected.
#[test]
fn what_was_acknowledged_before_it_could_not_start_is_saved() {
    let Some((dir, mount, _unmounted)) = directory() else { return };
    let stuck = server(&mount);
    stuck.signal("STOP");
    let (file, socket) = (dir.path().join("saved"), dir.path().join("nbd.sock"));
    let mut command = support::serve(dir.path());
    command.args(["--nbd", "unix:nbd.sock", "--mount"]).arg(mount.join("attr"));
    let mut server = command.arg("--save-on-exit").arg(&file).spawn().unwrap();
    until("it listens", || socket.exists());
    support::nbd::Client::new(&socket).write(0, &text(1, MIB));
    let mut killed = stuck;
    killed.child.kill().unwrap();
    let ended = server.wait().unwrap();
    assert_eq!(ended.code(), Some(1));
    assert!(Server::restored(&file, &[]).client().read(0, MIB) == text(1, MIB));
}

/// If the second signal ended the server at once, the mount would remain.
#[test]
fn a_signal_that_comes_twice_leaves_no_mount() {
    let Some((_dir, mount, _unmounted)) = directory() else { return };
    for _ in 0..8 {
        let mut server = server(&mount);
        // While this client is connected, the server does not end at once.
        let client = server.client();
        server.signal_at_once(&[Signal::TERM; 2], Duration::ZERO);
        assert_eq!(server.ended().0, Some(0), "{}", server.said());
        drop(client);
        assert!(fs::read_dir(&mount).unwrap().next().is_none(), "it is mounted still");
    }
}

/// Maps the disk as databases do, and uses the disk through all other front ends.
#[test]
fn the_disk_can_be_mapped_shared_if_nbd_clients_only_read() {
    let Some((dir, mount, _unmounted)) = directory() else { return };
    let script = dir.path().join("map.py");
    fs::write(
        &script,
        "\
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
try:
    m = mmap.mmap(fd, 1 << 20, mmap.MAP_SHARED)
except OSError as error:
    sys.exit(error.errno)
m[5000:5004] = b'seen'
m.flush()
os.pwrite(fd, b'direct', 70000)
assert m[70000:70006] == b'direct', m[70000:70006]
m[200000:200003] = b'old'
os.pwrite(fd, b'new', 200000)
assert m[200000:200003] == b'new' and os.pread(fd, 4, 5000) == b'seen'
m[300000:300006] = b'unread'
assert os.pread(fd, 6, 300000) == b'unread'
os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
assert os.pread(fd, 10, (256 << 20) + 5) == b'' and os.pread(fd, 10, (256 << 20) - 4) == bytes(4)
",
    )
    .unwrap();
    let map = |server: &Server| {
        let _serves = server;
        end(Command::new("python3").arg(&script).arg(mount.join("disk")))
    };
    let without = server(&mount);
    assert_eq!(map(&without).code, Some(19), "ENODEV");
    ended(without);

    let server = Server::new(&["--mmap", "--mount", mount.to_str().unwrap()]);
    let mapped = map(&server);
    assert_eq!(mapped.code, Some(0), "{mapped:?}");
    let mut client = server.client();
    assert_eq!(client.read(5000, 4), b"seen");
    assert_eq!(client.read(70000, 6), b"direct");
    assert_eq!(client.read(200000, 3), b"new");
    assert_eq!(client.try_write(0, b"no").unwrap_err().raw_os_error(), Some(1), "EPERM");
    ended(server);
}

#[test]
fn files_of_a_mount_are_neither_made_nor_removed() {
    let Some((_dir, mount, _unmounted)) = directory() else { return };
    let server = server(&mount);
    let (disk, new) = (mount.join("disk"), mount.join("new"));
    let refused = |done: std::io::Result<()>| {
        assert_eq!(done.map_err(|error| error.raw_os_error()), Err(Some(1)), "EPERM");
    };
    refused(fs::remove_file(&disk));
    refused(fs::rename(&disk, &new));
    refused(fs::create_dir(&new));
    refused(fs::remove_dir(mount.join("attr")));
    refused(fs::write(&new, "text"));
    refused(symlink("disk", &new));
    refused(fs::hard_link(&disk, &new));
    ended(server);
}

/// A file system on the disk loses the data that it has not written yet, so the server reports an
/// error.
#[test]
fn a_disk_that_is_in_use_when_it_is_saved_is_an_error() {
    let Some((dir, mount, _unmounted)) = directory() else { return };
    if !Path::new("/dev/loop-control").exists() || !has(&["losetup", "mkfs.ext4"]) {
        return;
    }
    let (saved, mnt) = (dir.path().join("saved"), dir.path().join("mnt"));
    fs::create_dir(&mnt).unwrap();
    let args = ["--mount", mount.to_str().unwrap(), "--save-on-exit", saved.to_str().unwrap()];
    let mut server = Server::new(&args);
    let disk = mount.join("disk");
    let attached =
        run(Command::new("/usr/sbin/losetup").args(["-f", "--show", "--direct-io=on"]).arg(disk));
    let looped = Looped(attached.trim_end().to_owned(), mnt.clone());
    run(Command::new("/usr/sbin/mkfs.ext4").args(["-q", "-F", &looped.0]));
    run(Command::new("mount").arg(&looped.0).arg(&mnt));
    fs::write(mnt.join("late"), "not synced").unwrap();
    server.signal("TERM");
    assert_eq!(server.ended().0, Some(1));
    let said = server.said();
    assert!(said.contains(&format!("loop device {}", looped.0)), "{said}");
    assert!(said.contains(&format!("mounted at '{}'", mnt.display())), "{said}");
    assert!(said.contains("missing from the saved file") && saved.exists(), "{said}");
    drop(looped);
    // An open file is no error, because writes to the file reach the disk directly.
    let mut server = Server::new(&args);
    let _open = fs::File::options().write(true).open(mount.join("disk")).unwrap();
    server.signal("TERM");
    assert_eq!(server.ended().0, Some(0));
}
