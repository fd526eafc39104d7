//! Tests real clients of `uzram serve`: the clients of libnbd and qemu, fio, and a file system. All
//! data that the clients read are compared.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;
use support::host::{Looped, Unmounted, has, run};
use support::{ENDS_WITHIN, Server, noise, text, until};

const MIB: usize = 1 << 20;

fn shell(script: &str, server: &Server) -> String {
    let script =
        format!("set -e; export PATH=$PATH:/usr/sbin:/sbin; U='{}'; {script}", server.uri());
    run(Command::new("sh").args(["-c", &script]).current_dir(server.dir.path()))
}

/// Creates an image of 48 MiB with text, noise and zeros.
fn image(dir: &Path) -> PathBuf {
    let path = dir.join("image");
    let parts = [text(1, 20 * MIB), noise(2, 5 * MIB), vec![0; 11 * MIB], text(3, 12 * MIB)];
    fs::write(&path, parts.concat()).unwrap();
    path
}

/// The options that set the algorithm for recompression in `meddled`.
const AGAIN: [&str; 2] = ["--set", "recomp_algorithm=algo=zstd"];

/// While `work` runs, repeatedly compacts and recompresses the disk, and changes its limit.
fn meddled<T>(server: &Server, work: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                for (name, value) in
                    [("compact", "1"), ("mem_limit", "200M"), ("idle", "all"), ("mem_limit", "0")]
                {
                    assert_eq!(server.ask("attr", &[name, value]).code, Some(0));
                }
                let again = server.ask("recompress", &["idle", "max_pages=2000"]);
                assert_eq!(again.code, Some(0), "{again:?}");
                thread::sleep(Duration::from_millis(20));
            }
        });
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        is_over.store(true, Relaxed);
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[test]
fn nbdinfo_and_nbdcopy() {
    if !has(&["nbdinfo", "nbdcopy"]) {
        return;
    }
    let server = Server::new(&[&["--export", "d"][..], &AGAIN].concat());
    image(server.dir.path());
    let told =
        shell("nbdinfo \"$U\"; nbdinfo --list \"$U\" >/dev/null; nbdinfo --size \"$U\"", &server);
    for can in ["multi_conn", "trim", "fua", "flush", "cache", "df", "fast_zero", "zero"] {
        assert!(told.contains(&format!("can_{can}: true")), "{can}: {told}");
    }
    for part in [
        "base:allocation",
        "block_size_minimum: 1\n",
        "block_size_preferred: 4096",
        "newstyle-fixed",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(told.ends_with(&format!("{}\n", 256 * MIB)), "{told}");
    meddled(&server, || {
        for how in ["", "--synchronous", "--connections=4 --requests=64", "--request-size=33554432"]
        {
            let script = "nbdcopy HOW --flush image \"$U\"; nbdcopy HOW \"$U\" back; \
                          cmp -n 50331648 image back; rm back";
            shell(&script.replace("HOW", how), &server);
        }
    });
    let map = shell("nbdinfo --map \"$U\"", &server);
    assert!(map.contains("3  hole,zero") && map.contains("0  data"), "{map}");
}

#[test]
fn libnbd_for_python() {
    if !has(&["nbdinfo"])
        || run(Command::new("/usr/bin/python3")
            .args(["-c", "try:\n import nbd\nexcept ImportError: print(0)"]))
            == "0\n"
    {
        eprintln!("left out, as python3-libnbd is missing");
        return;
    }
    let server = Server::new(&[]);
    let script = "
import nbd, os, sys
h = nbd.NBD(); h.add_meta_context('base:allocation'); h.connect_uri(sys.argv[1])
data = os.urandom(100000)
h.pwrite(data, 12345, nbd.CMD_FLAG_FUA)
assert h.pread(100000, 12345) == data
assert h.pread_structured(100000, 12345, lambda *a: 0, nbd.CMD_FLAG_DF) == data
h.zero(8192, 16384, nbd.CMD_FLAG_FAST_ZERO); h.trim(1 << 20, 1 << 20); h.cache(4096, 0); h.flush()
assert h.pread(8192, 16384) == bytes(8192)
found = []
h.block_status(1 << 20, 0, lambda name, at, extents, err: found.extend(extents) or 0)
assert sum(found[::2]) == 1 << 20 and found[1] == 3 and 0 in found[1::2], found
for bad in [lambda: h.pread(1, 1 << 40), lambda: h.trim(1, 1 << 40)]:
    h.set_strict_mode(0)
    try: bad()
    except nbd.Error as e: assert e.errno == 'EINVAL', e
    else: assert False
try: h.pwrite(b'x', 1 << 40)
except nbd.Error as e: assert e.errno == 'ENOSPC', e
cookies = [h.aio_pwrite(nbd.Buffer.from_bytearray(bytearray([n] * 4096)), n * 4096) for n in range(64)]
for cookie in cookies:
    while not h.aio_command_completed(cookie): h.poll(-1)
assert all(h.pread(4096, n * 4096) == bytes([n] * 4096) for n in range(64))
h.shutdown()
";
    run(Command::new("/usr/bin/python3").args(["-c", script, &server.uri()]));
}

#[test]
fn qemu_img_and_qemu_io() {
    if !has(&["qemu-img", "qemu-io"]) {
        return;
    }
    let server = Server::new(&[&["--algorithm", "lz4hc"][..], &AGAIN].concat());
    image(server.dir.path());
    meddled(&server, || {
        shell(
            "qemu-img info \"$U\" >/dev/null; qemu-img convert -n -W -m 16 -f raw -O raw image \"$U\"; \
             qemu-img compare -f raw -F raw image \"$U\"; qemu-img map -f raw --output=json \"$U\" >/dev/null; \
             qemu-img convert -f raw -O raw \"$U\" back; cmp -n 50331648 image back",
            &server,
        );
    });
    let said = shell(
        "qemu-io -f raw -c 'write -P 0x5a 1M 64k' -c 'read -P 0x5a 1M 64k' -c 'write -z 1M 32k' -c 'read -P 0 1M 32k' \
         -c 'discard 2M 1M' -c 'write -f -P 7 4097 513' -c 'read -P 7 4097 513' -c flush \"$U\" 2>&1",
        &server,
    );
    assert!(!said.contains("fail") && !said.contains("error"), "{said}");
}

#[test]
fn fio_verifies() {
    if !has(&["fio"]) {
        return;
    }
    let server = Server::new(&AGAIN);
    meddled(&server, || {
        for how in
            ["--bs=4k --iodepth=32", "--bsrange=512-128k --iodepth=16", "--bs=1M --iodepth=4"]
        {
            shell(
                &format!(
                    "fio --name=v --ioengine=nbd --uri=\"$U\" --rw=randwrite {how} --size=32M --verify=crc32c \
                     --do_verify=1 --verify_fatal=1 --randseed=7 >/dev/null"
                ),
                &server,
            );
        }
    });
}

/// A mounted disk with a loop device. Dropping this value undoes all steps in reverse order, even
/// after a failure.
struct Mounted {
    nbdfuse: Child,
    dir: PathBuf,
    device: String,
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let quiet = |command: &mut Command| {
            drop(command.stdout(Stdio::null()).stderr(Stdio::null()).status())
        };
        quiet(Command::new("umount").arg(self.dir.join("mnt")));
        if !self.device.is_empty() {
            quiet(Command::new("/usr/sbin/losetup").args(["-d", &self.device]));
        }
        quiet(Command::new("fusermount3").arg("-u").arg(self.dir.join("fuse")));
        let _ = self.nbdfuse.kill();
        let _ = self.nbdfuse.wait();
    }
}

/// Mounts a server's disk by nbdfuse, and attaches the mounted file to a loop device. Returns
/// `None` if this user is not allowed to do so.
fn looped(server: &Server) -> Option<Mounted> {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root || !Path::new("/dev/fuse").exists() || !Path::new("/dev/loop-control").exists() {
        eprintln!("left out, as it takes root, /dev/fuse and loop devices");
        return None;
    }
    if !has(&["nbdfuse", "losetup", "mkfs.ext4", "e2fsck", "fusermount3"]) {
        return None;
    }
    let dir = server.dir.path().to_owned();
    ["fuse", "mnt"].iter().for_each(|name| fs::create_dir(dir.join(name)).unwrap());
    let disk = dir.join("fuse/disk");
    let nbdfuse = Command::new("nbdfuse").arg(&disk).arg(server.uri()).spawn().unwrap();
    let mut mounted = Mounted { nbdfuse, dir, device: String::new() };
    until("nbdfuse mounts it", || disk.exists());
    let attached = run(Command::new("/usr/sbin/losetup").args(["-f", "--show"]).arg(&disk));
    mounted.device = attached.trim_end().to_owned();
    Some(mounted)
}

/// nbdfuse, and a loop device on nbdfuse's file, convert a new hole in the file to TRIM, for any
/// range of sectors.
#[test]
fn holes_are_zeros_to_the_byte() {
    let server = Server::new(&[]);
    let Some(mounted) = looped(&server) else { return };
    let disk = mounted.dir.join("fuse/disk");
    let expects = |path: &Path, holes: &[(u64, u64)]| {
        let mut expected = vec![7; 64 << 10];
        let file = fs::File::options().read(true).write(true).open(path).unwrap();
        file.write_all_at(&expected, 0).unwrap();
        file.sync_all().unwrap();
        for (at, len) in holes {
            let hole = [at, len].map(ToString::to_string);
            run(Command::new("fallocate").args(["-p", "-o", &hole[0], "-l", &hole[1]]).arg(path));
            expected[*at as usize..(at + len) as usize].fill(0);
        }
        let mut client = server.client();
        let stored = client.read(0, expected.len());
        let differs = stored.iter().zip(&expected).position(|(a, b)| a != b);
        assert_eq!(differs, None, "{}: {holes:?}", path.display());
    };
    expects(&disk, &[(100, 3000), (4095, 2), (8191, 4098), (20000, 20000)]);
    expects(Path::new(&mounted.device), &[(512, 1024), (8192, 5120), (30720, 1024)]);
}

#[test]
fn a_file_system_lives_on_it() {
    let server = Server::new(&AGAIN);
    let Some(mounted) = looped(&server) else { return };
    let device = &mounted.device;
    meddled(&server, || {
        shell(
            &format!(
                "mkfs.ext4 -q -F {device}; mount {device} mnt; cp -r /usr/share/doc/[a-l]* mnt/; \
                 (cd mnt; find . -type f -exec sha256sum {{}} +) > sums; umount mnt; mount {device} mnt; \
                 (cd mnt; sha256sum -c --quiet ../sums); rm -r mnt/[a-f]*; fstrim mnt; umount mnt; e2fsck -fn {device} 2>&1"
            ),
            &server,
        );
    });
    let sums = fs::read_to_string(mounted.dir.join("sums")).unwrap();
    assert!(sums.lines().count() > 20, "too little was copied");
}

#[test]
fn files_of_a_mount() {
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        eprintln!("left out, as it takes root and /dev/fuse");
        return;
    }
    if !has(&["losetup", "mkfs.ext4", "e2fsck", "fallocate"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mount = dir.path().join("m");
    fs::create_dir(&mount).unwrap();
    let _unmounted = Unmounted(mount.clone());
    let mut server = Server::new(&["--mount", mount.to_str().unwrap()]);
    let (disk, attr) = (mount.join("disk"), mount.join("attr"));
    assert_eq!(fs::metadata(&disk).unwrap().len(), 256 << 20);
    let names = |dir: &Path| {
        let mut names: Vec<_> =
            fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&mount), ["attr", "classes", "disk"]);
    assert_eq!(names(&attr).len(), zram::attributes().len());
    // Each front end reads the data that the other front end has written.
    let data = [text(5, 3 * MIB), noise(6, MIB + 777)].concat();
    let file = fs::File::options().read(true).write(true).open(&disk).unwrap();
    file.write_all_at(&data, 12345).unwrap();
    file.sync_all().unwrap();
    let mut back = vec![0; data.len()];
    file.read_exact_at(&mut back, 12345).unwrap();
    assert!(back == data);
    assert_eq!(file.read_at(&mut back, 256 << 20).unwrap(), 0);
    assert!(file.write_all_at(&[1], 256 << 20).is_err());
    if has(&["nbdcopy"]) {
        shell("nbdcopy \"$U\" copy", &server);
        assert!(fs::read(server.dir.path().join("copy")).unwrap()[12345..][..data.len()] == data);
    }
    // A hole in the file frees the stored data.
    let stored = || {
        fs::read_to_string(attr.join("mm_stat"))
            .unwrap()
            .split_whitespace()
            .next()
            .unwrap()
            .parse::<u64>()
            .unwrap()
    };
    let before = stored();
    run(Command::new("fallocate").args(["-p", "-o", "1M", "-l", "2M"]).arg(&disk));
    assert_eq!(stored(), before - (2 << 20));
    file.read_exact_at(&mut back[..4096], 1 << 20).unwrap();
    assert_eq!(back[..4096], [0; 4096]);
    assert!(file.set_len(5).is_err());
    // The attributes behave as in sysfs.
    fs::write(attr.join("mem_limit"), "64M\n").unwrap();
    assert_eq!(fs::read_to_string(attr.join("disksize")).unwrap(), format!("{}\n", 256 << 20));
    fs::write(attr.join("compact"), "1").unwrap();
    for (name, value, errno) in
        [("mem_limit", "x", 22), ("comp_algorithm", "zstd", 16), ("reset", "1", 16)]
    {
        assert_eq!(
            fs::write(attr.join(name), value).unwrap_err().raw_os_error(),
            Some(errno),
            "{name}"
        );
    }
    assert!(fs::read_to_string(mount.join("classes")).unwrap().contains("pages_per_zspage"));
    assert!(!fs::read_to_string(attr.join("block_state")).unwrap().is_empty());
    fs::write(attr.join("mem_limit"), "0").unwrap();
    drop(file);
    // Tests a file system on the disk. The server ends while the file system is in use.
    let attached =
        run(Command::new("/usr/sbin/losetup").args(["-f", "--show", "--direct-io=on"]).arg(&disk));
    let device = attached.trim_end();
    let looped = Looped(device.to_owned(), server.dir.path().join("mnt"));
    fs::create_dir(&looped.1).unwrap();
    shell(
        &format!(
            "mkfs.ext4 -q -F {device}; mount {device} mnt; cp -r /usr/share/doc/[a-f]* mnt/; \
             (cd mnt; find . -type f -exec sha256sum {{}} +) > sums; umount mnt; mount {device} mnt; \
             (cd mnt; sha256sum -c --quiet ../sums); rm -r mnt/a*; fstrim mnt; umount mnt; e2fsck -fn {device} 2>&1"
        ),
        &server,
    );
    server.signal("TERM");
    let (code, took) = server.ended();
    assert_eq!(code, Some(0));
    assert!(took < ENDS_WITHIN, "{took:?}");
    assert!(names(&mount).is_empty(), "it is mounted still");
}

#[test]
fn clients_of_a_killed_server_see_an_error() {
    if !has(&["fio"]) {
        return;
    }
    let mut server = Server::new(&[]);
    let mut client = Command::new("fio");
    client.args([
        "--name=v",
        "--ioengine=nbd",
        "--rw=randwrite",
        "--time_based",
        "--runtime=30",
        "--size=64M",
    ]);
    client.arg(format!("--uri={}", server.uri())).stdout(Stdio::null()).stderr(Stdio::null());
    let mut client = client.spawn().unwrap();
    thread::sleep(Duration::from_millis(1500));
    assert!(client.try_wait().unwrap().is_none(), "it ended before");
    server.child.kill().unwrap();
    assert!(!client.wait().unwrap().success());
}
