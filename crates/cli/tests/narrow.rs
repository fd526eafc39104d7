//! Tests servers whose address space is full (`ulimit -v`). A server saves acknowledged data when
//! it ends, whatever its clients do.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;
use support::host::Unmounted;
use support::nbd::Client;
use support::{Server, UZRAM, end, host, noise};
use testkit::random_seed;

const MIB: usize = 1 << 20;

/// The length of a write in bytes.
const PART: usize = 64 << 10;

/// The size of each disk in bytes.
const DISK: u64 = 512 << 20;

/// The maximum time in which a server must answer.
const PATIENCE: Duration = Duration::from_secs(100);

/// Returns the expected contents of the `PART` bytes with number `nth` of a disk.
fn part(disk: u64, nth: u64) -> Vec<u8> {
    noise(disk ^ nth, PART)
}

/// Connects a client whose requests have a time limit.
fn client(socket: &Path) -> Option<Client> {
    let client = Client::try_new(socket).ok()?;
    client.0.set_read_timeout(Some(PATIENCE)).unwrap();
    Some(client)
}

fn assert_in_time(error: &std::io::Error) {
    assert!(!matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "no answer");
}

/// Starts a server under `ulimit -FLAG`. The server saves its disk to `file`. Returns the server's
/// messages if it failed to start.
fn server(flag: char, mib: usize, file: &Path, args: &[&str]) -> Result<Server, String> {
    let dir = tempfile::tempdir().unwrap();
    let line = format!("ulimit -{flag} {} && exec \"$@\"", mib << 10);
    let mut command = Command::new("sh");
    command.args(["-c", &line, "sh", UZRAM, "serve", "--nbd", "unix:nbd.sock", "--size", "512M"]);
    command.args(["--mem-limit", "0", "--save-on-exit"]).arg(file).args(args);
    command.arg("--control").arg(dir.path().join("control.sock")).current_dir(dir.path());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut server = Server::begun(command.spawn().unwrap(), dir);
    if !server.announcement.is_empty() {
        return Ok(server);
    }
    let (code, _) = server.ended();
    let said = server.said();
    // If the limit is too low for the program itself, the loader reports an error, or the kernel
    // ends the process.
    let is_line = |line: &str| line.starts_with("uzram: ");
    let has_room = (mib * MIB) as u64 > std::fs::metadata(UZRAM).unwrap().len();
    let is_ended = code == Some(127) || code.is_none() && !has_room;
    let is_told = code == Some(1) && said.lines().all(is_line) || is_ended;
    assert!(is_told, "{mib} MiB: it did not start, {code:?}: {said}");
    Err(said)
}

/// Fills the disk until the server accepts no more writes. Returns the numbers of the acknowledged
/// writes. Occasionally a connection can break.
fn fill(socket: &Path, disk: u64, mib: usize) -> Vec<u64> {
    let (mut acknowledged, mut broken) = (Vec::new(), 0);
    let mut to = client(socket);
    for nth in 0..DISK / PART as u64 {
        let Some(open) = &mut to else { break };
        match open.try_write(nth * PART as u64, &part(disk, nth)) {
            Ok(()) => acknowledged.push(nth),
            // Error 28 (ENOSPC) means that the disk is full.
            Err(error) if error.raw_os_error() == Some(28) => return acknowledged,
            Err(error) => {
                assert_in_time(&error);
                broken += 1;
                assert!(broken < 20, "{mib} MiB: no client can stay: {error}");
                to = client(socket);
            }
        }
    }
    acknowledged
}

/// Sends requests from many clients at once. Returns the number of `stat` requests that the server
/// answered.
fn crowd(server: &Server, acknowledged: &[u64]) -> usize {
    let socket = server.socket();
    let there: Vec<Client> = (0..40).filter_map(|_| client(&socket)).collect();
    thread::scope(|scope| {
        for (nth, mut client) in there.into_iter().enumerate() {
            scope.spawn(move || {
                for step in 0..8 {
                    // Some requests are long. Memory might not suffice for many long requests at
                    // the same time.
                    let len = [512, PART, 300 << 10, 2 * MIB][(nth + step) % 4];
                    if let Err(error) = client.try_read(0, len) {
                        return assert_in_time(&error);
                    }
                    let at = acknowledged.len() as u64 * PART as u64 + MIB as u64;
                    if let Err(error) = client.try_write(at, &vec![7; len]) {
                        assert_in_time(&error);
                    }
                }
            });
        }
        let asked: Vec<_> = (0..4).map(|_| scope.spawn(|| server.ask("stat", &[]))).collect();
        let answers = asked.into_iter().map(|asked| asked.join().unwrap());
        answers.filter(|answer| answer.code == Some(0)).count()
    })
}

/// Runs a server under `ulimit -FLAG` with a limit of `mib` MiB. Returns the number of acknowledged
/// bytes, or `None` if the server did not start.
fn live(flag: char, mib: usize, seed: u64) -> Option<usize> {
    let dir = tempfile::tempdir().unwrap();
    let file: PathBuf = dir.path().join("saved");
    let mut server = server(flag, mib, &file, &[]).ok()?;
    let acknowledged = fill(&server.socket(), seed, mib);
    let answers = crowd(&server, &acknowledged);
    assert_eq!(answers, 4, "{mib} MiB: stat was not answered: {:?}", server.child.try_wait());
    if host::has(&["nbdinfo"]) {
        // The server can refuse the client, but must survive.
        let _ = end(Command::new("timeout").args(["30", "nbdinfo", &server.uri()]));
    }
    let answer = server.ask("attr", &["mm_stat"]);
    assert_eq!(answer.code, Some(0), "{mib} MiB: {answer:?} {:?}", server.child.try_wait());
    server.signal("TERM");
    let (code, _) = server.ended();
    let said = server.said();
    assert_eq!(code, Some(0), "{mib} MiB: {said}");
    let restored = Server::restored(&file, &[]);
    let mut reads = restored.client();
    for &nth in &acknowledged {
        let read = reads.read(nth * PART as u64, PART);
        assert!(read == part(seed, nth), "{mib} MiB: part {nth} of {}", acknowledged.len());
    }
    Some(acknowledged.len() * PART)
}

#[test]
fn a_full_address_space_costs_no_acknowledged_write() {
    let seed = random_seed();
    let is_long = std::env::var_os("UZRAM_LONG").is_some();
    let sizes: Vec<usize> = if is_long {
        (8..128).step_by(4).chain((128..512).step_by(32)).collect()
    } else {
        // If the program did not fit within the limit, the kernel would kill it before its first
        // instruction.
        vec![20, 28, 40, 56, 90, 200]
    };
    let lived: Vec<_> = sizes.iter().map(|&mib| (mib, live('v', mib, seed))).collect();
    println!("{lived:?}");
    let started = lived.iter().filter(|(_, stored)| stored.is_some()).count();
    assert!(started * 2 >= sizes.len(), "{lived:?}");
    let stored = lived.iter().filter_map(|&(mib, stored)| Some((mib, stored?)));
    for (mib, stored) in stored {
        assert!(mib < 90 || stored >= (mib - 64) * MIB / 2, "{stored} bytes in {mib} MiB");
    }
}

#[test]
fn so_it_is_where_data_are_limited() {
    let seed = random_seed();
    assert_eq!(live('d', 8, seed), None);
    for mib in [48, 70, 120] {
        assert!(live('d', mib, seed).is_some_and(|stored| stored > 0), "{mib} MiB");
    }
}

#[test]
fn a_mount_that_has_room_has_it_to_the_end() {
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        eprintln!("left out, as it takes root and /dev/fuse");
        return;
    }
    let mut started = 0;
    for mib in [40, 70, 110, 150, 300] {
        let dir = tempfile::tempdir().unwrap();
        let (file, mount) = (dir.path().join("saved"), dir.path().join("m"));
        std::fs::create_dir(&mount).unwrap();
        let _unmounted = Unmounted(mount.clone());
        let args = ["--threads", "2", "--mount", mount.to_str().unwrap()];
        let Ok(mut server) = server('v', mib, &file, &args) else { continue };
        started += 1;
        let disk = File::options().read(true).write(true).open(mount.join("disk")).unwrap();
        let write = |nth: &u64| disk.write_all_at(&part(1, *nth), nth * PART as u64).is_ok();
        let acknowledged = (0..DISK / PART as u64).take_while(write).count() as u64;
        // A loop device issues reads of this length. The read can fail for lack of memory.
        let _ = disk.read_at(&mut vec![0; MIB], 0);
        assert_eq!(server.ask("stat", &[]).code, Some(0), "{mib} MiB");
        drop(disk);
        server.signal("TERM");
        assert_eq!(server.ended().0, Some(0), "{mib} MiB: {}", server.said());
        let restored = Server::restored(&file, &[]);
        let mut reads = restored.client();
        for nth in 0..acknowledged {
            assert!(reads.read(nth * PART as u64, PART) == part(1, nth), "{mib} MiB: part {nth}");
        }
    }
    assert!(started >= 2, "{started}");
}

/// Clients that send nothing use up the memory. The server must still admit clients that send
/// requests.
#[test]
fn the_silent_keep_nobody_out_where_there_is_little_room() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["--threads", "4"];
    let server = server('v', 90, &dir.path().join("saved"), &args).unwrap();
    let socket = server.socket();
    fill(&socket, 1, 90);
    let silent: Vec<_> = (0..20).map(|_| UnixStream::connect(&socket).unwrap()).collect();
    thread::sleep(Duration::from_millis(500));
    let is_let_in = (0..5).any(|_| {
        thread::sleep(Duration::from_millis(200));
        client(&socket).is_some_and(|mut client| client.try_read(0, PART).is_ok())
    });
    drop(silent);
    assert!(is_let_in, "{:?}", server.announcement);
}

#[test]
fn a_small_stack_is_enough() {
    let line = "ulimit -s 256; exec \"$@\"";
    let told = end(Command::new("sh").args(["-c", line, "sh", UZRAM, "attributes"]));
    assert_eq!(told.code, Some(0), "{told:?}");
}
