//! Tests `uzram serve` with independent clients, with requests of many sizes, and with many
//! requests at a time. `make clients` runs these tests, because they take too long for `make test`.
//! If a program is missing, a line reports this, and the tests of the program are left out. All
//! changes to the machine are undone, even if a test fails.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use support::host::{Looped, Unmounted, has, run};
use support::{Server, noise, serve_unsized, text};
use testkit::random_seed;

const MIB: usize = 1 << 20;

/// The lengths of requests in bytes. The lengths lie around each threshold at which the server
/// handles requests differently. All lengths are multiples of 512, as the programs require.
const SIZES: [usize; 14] = [
    512, 4096, 5120, 32_256, 32_768, 33_280, 131_072, 131_584, 261_632, 262_144, 262_656, 278_528,
    279_040, 1_048_576,
];

fn shell(script: &str, server: &Server) -> String {
    let script =
        format!("set -e; export PATH=$PATH:/usr/sbin:/sbin; U='{}'; {script}", server.uri());
    run(Command::new("sh").args(["-c", &script]).current_dir(server.dir.path()))
}

/// Returns the factor by which `UZRAM_LONG` multiplies the amount of work.
fn times() -> usize {
    if std::env::var_os("UZRAM_LONG").is_some() { 5 } else { 1 }
}

/// Starts a server of 512 MiB, the minimum for xfs. The server mounts its disk at `mount`, if set.
fn server(args: &[&str], mount: Option<&Path>) -> Server {
    let dir = tempfile::tempdir().unwrap();
    let mut command = serve_unsized(dir.path());
    command.args(["--size", "512M", "--nbd", "unix:nbd.sock"]).args(args);
    if let Some(mount) = mount {
        command.arg("--mount").arg(mount);
    }
    Server::announced(command.spawn().unwrap(), dir)
}

#[test]
#[ignore = "for make clients"]
fn fio_of_many_sizes() {
    if !has(&["fio"]) {
        return;
    }
    let split: Vec<_> = SIZES.iter().map(|size| format!("{size}/7")).collect();
    let split = split.join(":").replace("512/7:4096/7", "512/9:4096/7");
    for threads in ["1", "2", "8"] {
        let server = server(&["--threads", threads], None);
        for how in ["randwrite", "randrw", "rw", "randtrimwrite"] {
            let verify = if how == "randtrimwrite" { "" } else { "--verify=crc32c --do_verify=1" };
            for depth in [1, 16, 64] {
                shell(
                    &format!(
                        "timeout -k 9 300 fio --thread --name=v --ioengine=nbd --uri=\"$U\" --rw={how} --bssplit={split} \
                         --iodepth={depth} --size={}M {verify} --verify_fatal=1 --randrepeat=0 >fio.log 2>&1 \
                         || {{ cat fio.log; exit 1; }}",
                        48 * times()
                    ),
                    &server,
                );
            }
        }
    }
}

/// Returns a seed of 32 bits for the client programs.
fn seed_of_programs() -> String {
    (random_seed() as u32).to_string()
}

/// Returns the path of `fsx`, the file system exerciser, if `make clients` has installed it.
fn fsx() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/bin/fsx");
    let path = path.canonicalize().ok();
    if path.is_none() {
        eprintln!("left out, as fsx is missing: run make clients");
    }
    path
}

/// Exercises a file by `fsx`. After a failure, prints the operations that led to the failure.
fn exercise(fsx: &Path, file: &Path, config: &str, operations: usize) {
    let dir = tempfile::tempdir().unwrap();
    let settings = dir.path().join("fsx.toml");
    fs::write(&settings, config).unwrap();
    let seed = seed_of_programs();
    let mut command = Command::new("timeout");
    command.args(["-k", "9", "600"]).arg(fsx).args(["-S", &seed, "-N", &operations.to_string()]);
    run(command.arg("-P").arg(dir.path()).arg("-f").arg(settings).arg(file));
}

fn can_mount() -> bool {
    let devices = ["/dev/fuse", "/dev/loop-control"];
    let can = rustix::process::geteuid().is_root()
        && devices.iter().all(|device| Path::new(device).exists())
        && has(&["losetup", "mount", "umount"]);
    if !can {
        eprintln!("left out, as it takes root, /dev/fuse and loop devices");
    }
    can
}

/// The operations neither change the size of the mounted file nor map the file.
#[test]
#[ignore = "for make clients"]
fn fsx_on_the_mounted_file() {
    let Some(fsx) = fsx().filter(|_| can_mount()) else { return };
    for block in ["4K", "64K"] {
        let dir = tempfile::tempdir().unwrap();
        let _unmounted = Unmounted(dir.path().to_owned());
        let server = server(&["--block", block], Some(dir.path()));
        for align in [1, 512, 4096] {
            let config = format!(
                "flen = 8388608\nblockmode = true\n[opsize]\nmax = 300000\nmin = 0\nalign = {align}\n[weights]\n\
                 truncate = 0\nmapread = 0\nmapwrite = 0\nread = 10\nwrite = 10\nfsync = 1\nfdatasync = 1\npunch_hole = 3\n"
            );
            let config = if align == 1 { config.replace("align = 1\n", "") } else { config };
            exercise(&fsx, &dir.path().join("disk"), &config, 5_000 * times());
        }
        ended(server);
    }
}

fn ended(mut server: Server) {
    server.signal("TERM");
    let (code, took) = server.ended();
    assert_eq!(code, Some(0));
    assert!(took < Duration::from_secs(30), "{took:?}");
}

/// Exercises a file by `fsx`. The file lies in a file system on a loop device, whose backing file
/// is the mounted disk.
fn fsx_on_a_file_system(make: &str, check: &str) {
    let program = make.split(' ').next().unwrap();
    if !Path::new("/usr/sbin").join(program).exists() {
        eprintln!("left out, as {program} is missing: run make setup-long");
        return;
    }
    let Some(fsx) = fsx().filter(|_| can_mount()) else { return };
    for block in ["4K", "64K"] {
        let dir = tempfile::tempdir().unwrap();
        let _unmounted = Unmounted(dir.path().to_owned());
        let server = server(&["--block", block], Some(dir.path()));
        let losetup = ["-f", "--show", "--direct-io=on"];
        let attached =
            run(Command::new("/usr/sbin/losetup").args(losetup).arg(dir.path().join("disk")));
        let mnt = server.dir.path().join("mnt");
        fs::create_dir(&mnt).unwrap();
        let looped = Looped(attached.trim_end().to_owned(), mnt.clone());
        shell(&format!("{make} {0}; mount -o discard {0} mnt", looped.0), &server);
        let config = "flen = 4194304\n[opsize]\nmax = 300000\n[weights]\nclose_open = 1\ninvalidate = 1\nmapread = 10\n\
                      mapwrite = 10\nread = 10\nwrite = 10\ntruncate = 3\nfsync = 1\nfdatasync = 1\n\
                      posix_fallocate = 3\npunch_hole = 3\nsendfile = 2\nposix_fadvise = 1\ncopy_file_range = 3\n";
        exercise(&fsx, &mnt.join("file"), config, 10_000 * times());
        shell(&format!("fstrim mnt; umount mnt; {check} {}", looped.0), &server);
        drop(looped);
        ended(server);
    }
}

#[test]
#[ignore = "for make clients"]
fn fsx_on_ext4() {
    fsx_on_a_file_system("mkfs.ext4 -q -F", "e2fsck -fn");
}

#[test]
#[ignore = "for make clients"]
fn fsx_on_xfs() {
    fsx_on_a_file_system("mkfs.xfs -q -f", "xfs_repair -n");
}

#[test]
#[ignore = "for make clients"]
fn qemu_of_many_sizes() {
    if !has(&["qemu-img", "qemu-io"]) {
        return;
    }
    let server = server(&["--threads", "4"], None);
    for size in SIZES {
        let count = (64 * MIB / size).clamp(64, 4000) * times();
        for write in ["", "-w --pattern=90 --flush-interval=64"] {
            let bench = "timeout -k 9 300 qemu-img bench -f raw -t none -d 64";
            shell(&format!("{bench} -c {count} -s {size} {write} \"$U\" >/dev/null"), &server);
        }
    }
    // Starts another server, whose disk is empty beyond the image.
    let server = self::server(&["--threads", "4"], None);
    fs::write(server.dir.path().join("image"), [text(1, 60 * MIB), noise(2, 9 * MIB)].concat())
        .unwrap();
    for how in ["-m 1", "-m 16 -W", "-m 16 -W -S 0"] {
        shell(
            &format!(
                "timeout -k 9 300 qemu-img convert -n {how} -f raw -O raw image \"$U\"; \
                 timeout -k 9 300 qemu-img compare -f raw -F raw image \"$U\"; \
                 timeout -k 9 300 qemu-img convert {how} -f raw -O raw \"$U\" back; cmp -n {} image back; rm back",
                69 * MIB
            ),
            &server,
        );
    }
    // All writes, each at a different offset, are in flight at the same time. After all writes, the
    // data of each write are read.
    let mut asked = String::new();
    for (write, check) in [("aio_write", ""), ("aio_read", "")] {
        for (nth, size) in SIZES.into_iter().cycle().take(128).enumerate() {
            let at = nth * 2 * MIB;
            asked += &format!(" -c '{write} {check} -P {} {at} {size}'", 1 + nth % 255);
        }
        asked += " -c aio_flush";
    }
    let said = shell(&format!("timeout -k 9 300 qemu-io -f raw {asked} \"$U\" 2>&1"), &server);
    assert!(!said.contains("fail") && !said.contains("error"), "{said}");
}

#[test]
#[ignore = "for make clients"]
fn nbdcopy_of_many_sizes() {
    if !has(&["nbdcopy"]) {
        return;
    }
    let server = server(&["--threads", "3"], None);
    let parts = [text(1, 40 * MIB), vec![0; 11 * MIB], noise(2, 9 * MIB)];
    fs::write(server.dir.path().join("image"), parts.concat()).unwrap();
    for size in [4096, 32_768, 131_072, 262_144, 524_288, 4 * MIB, 32 * MIB] {
        for how in [
            "--requests=1 --connections=1",
            "--requests=64 --connections=1",
            "--requests=7 --connections=4 --threads=3",
            "--requests=64 --connections=8 --sparse=512",
            "--synchronous",
            "--no-extents",
        ] {
            shell(
                &format!(
                    "timeout -k 9 300 nbdcopy --request-size={size} {how} --flush image \"$U\"; \
                     timeout -k 9 300 nbdcopy --request-size={size} {how} \"$U\" back; cmp -n {} image back; rm back",
                    60 * MIB
                ),
                &server,
            );
        }
    }
}

/// Sends asynchronous requests of any length by libnbd, 64 at a time.
#[test]
#[ignore = "for make clients"]
fn libnbd_of_many_sizes() {
    let is_here = Command::new("/usr/bin/python3").args(["-c", "import nbd"]).status();
    if !is_here.is_ok_and(|status| status.success()) {
        eprintln!("left out, as python3-libnbd is missing: run make setup");
        return;
    }
    let script = "
import nbd, os, random, sys, time
seed = int(sys.argv[2]); random.seed(seed)
h = nbd.NBD()
h.set_request_structured_replies(random.random() < 0.7)
h.connect_uri(sys.argv[1])
SPAN = 64 << 20
shadow = bytearray(SPAN)
busy = {}
def length():
    near = random.choice([512, 4096, 32768, 131072, 262144, 262144, 278528, 278600])
    return random.randrange(1, 5000) if random.random() < 0.5 else near + random.randrange(-30, 31)
until = time.time() + float(sys.argv[3]); done = 0
while busy or time.time() < until:
    while len(busy) < 64 and time.time() < until:
        n = length(); at = random.randrange(SPAN - n)
        if any(at < a + m and a < at + n for (_, a, m, _, _) in busy.values()): continue
        if random.random() < 0.6:
            b = nbd.Buffer(n); c = h.aio_pread(b, at); busy[c] = ('r', at, n, b, time.time())
        else:
            data = bytearray(random.randbytes(n)); b = nbd.Buffer.from_bytearray(data)
            c = h.aio_pwrite(b, at); busy[c] = ('w', at, n, data, time.time())
    h.poll(1000)
    for c in list(busy):
        kind, at, n, what, since = busy[c]
        if h.aio_command_completed(c):
            del busy[c]; done += 1
            if kind == 'w': shadow[at:at + n] = what
            else: assert what.to_bytearray() == shadow[at:at + n], (seed, at, n)
        else: assert time.time() - since < 20, ('an answer is lost', seed, kind, at, n)
assert done > 500, done
h.shutdown()
";
    for threads in ["1", "3", "8"] {
        let server = server(&["--threads", threads], None);
        let seed = seed_of_programs();
        let seconds = (5 * times()).to_string();
        let mut command = Command::new("timeout");
        command.args([
            "-k",
            "9",
            "300",
            "/usr/bin/python3",
            "-c",
            script,
            &server.uri(),
            &seed,
            &seconds,
        ]);
        run(&mut command);
    }
}
