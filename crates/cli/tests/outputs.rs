//! Tests every command that writes a file, with every kind of target. A command writes the whole
//! file if it is allowed to write to the target. Otherwise the command refuses the target before it
//! changes anything.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::host::{Looped, Unmounted, has, run};
use support::{Ended, Server, UZRAM, end, serve, text};

const OLD: &[u8] = b"the only copy of this text";

/// How a command handles an existing file.
#[derive(Clone, Copy, PartialEq)]
enum Existing {
    Replaced,
    Appended,
    /// The command appends to a file in its own format, and refuses files in other formats.
    OfItsOwn,
}

/// A command that writes a file.
struct Writer {
    name: &'static str,
    existing: Existing,
    /// Whether the command reads inputs, such as the file `in` or a directory of files.
    reads: bool,
}

const WRITERS: [Writer; 8] = [
    Writer { name: "fill --save", existing: Existing::Replaced, reads: true },
    Writer { name: "restore --output", existing: Existing::Replaced, reads: true },
    Writer { name: "train-dictionary --output", existing: Existing::Replaced, reads: true },
    Writer { name: "analyze --parquet", existing: Existing::OfItsOwn, reads: true },
    Writer { name: "run --stats-file", existing: Existing::Appended, reads: false },
    Writer { name: "save", existing: Existing::Replaced, reads: false },
    Writer { name: "serve --save-on-exit", existing: Existing::Replaced, reads: false },
    Writer { name: "generate", existing: Existing::Replaced, reads: false },
];

/// A directory with inputs, and a server.
struct Place {
    dir: tempfile::TempDir,
    server: Server,
}

impl Place {
    fn new() -> Self {
        let place = Place { dir: tempfile::tempdir().unwrap(), server: Server::new(&[]) };
        fs::create_dir_all(place.path("man/man1")).unwrap();
        fs::create_dir(place.path("read")).unwrap();
        fs::write(place.path("read/text"), text(1, 1 << 20)).unwrap();
        let saved = ["fill", "--save", "saved", "read"];
        assert_eq!(end(place.uzram().args(saved)).code, Some(0));
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Returns the path of the file that every command writes. `generate` can write no other file.
    fn target(&self) -> PathBuf {
        self.path("man/man1/uzram.1")
    }

    fn uzram(&self) -> Command {
        let mut command = Command::new(UZRAM);
        command.current_dir(self.dir.path());
        command
    }

    /// Runs `writer` with the output `target`, and with the input `input` if `writer` reads inputs.
    fn write(&self, writer: &Writer, input: &str, target: &Path) -> Ended {
        let target = target.to_str().unwrap();
        let args: &[&str] = match writer.name {
            "fill --save" => &["fill", "--save", target, input],
            "restore --output" if input == "read" => &["restore", "-o", target, "saved"],
            "restore --output" => &["restore", "-o", target, input],
            "train-dictionary --output" => &["train-dictionary", "-o", target, input],
            "analyze --parquet" => &["analyze", "--sample", "1M", "--parquet", target, input],
            "run --stats-file" => &["run", "--limit", "64M", "--stats-file", target, "--", "true"],
            "save" => return self.server.ask("save", &[target]),
            "serve --save-on-exit" => return self.save_on_exit(&[], target),
            "generate" => &["generate", self.dir.path().to_str().unwrap()],
            name => unreachable!("{name}"),
        };
        end(self.uzram().args(args))
    }

    /// Starts and ends a server with `--save-on-exit`.
    fn save_on_exit(&self, args: &[&str], target: &str) -> Ended {
        let dir = tempfile::tempdir().unwrap();
        let args = [&["--nbd", "unix:nbd.sock", "--save-on-exit", target], args].concat();
        let child = serve(dir.path()).args(args).spawn().unwrap();
        let mut server = Server::begun(child, dir);
        if !server.announcement.is_empty() {
            // The server also saves a disk that no client has used.
            server.signal("TERM");
        }
        let code = server.ended().0;
        Ended { code, out: String::new(), err: server.said() }
    }

    /// Runs every command with the target that `make` creates. `check` checks the result.
    fn each(&self, make: impl Fn(&Path), check: impl Fn(&Writer, &Path, Ended)) {
        let target = self.target();
        for writer in &WRITERS {
            clear(&target);
            make(&target);
            let ended = self.write(writer, "read", &target);
            check(writer, &target, ended);
        }
        clear(&target);
    }

    /// Checks that every command refuses the target that `make` creates. After each command,
    /// `is_there` must return true for the target.
    fn each_refuses(&self, make: impl Fn(&Path), is_there: impl Fn(&Path) -> bool) {
        self.each(make, |writer, target, ended| {
            assert_eq!(ended.code, Some(1), "{}: {ended:?}", writer.name);
            assert!(ended.err.contains(';'), "{}: no remedy: {ended:?}", writer.name);
            assert!(is_there(target), "{}: {ended:?}", writer.name);
        });
    }
}

fn clear(target: &Path) {
    if target.is_dir() {
        fs::remove_dir(target).unwrap();
    } else if target.symlink_metadata().is_ok() {
        fs::remove_file(target).unwrap();
    }
}

/// Returns whether a command has written a file to the target.
fn is_written(target: &Path) -> bool {
    fs::read(target).is_ok_and(|bytes| !bytes.is_empty() && bytes != OLD)
}

#[test]
fn targets_that_may_be_written_are_and_links_stay() {
    let place = Place::new();
    place.each(
        |_| {},
        |writer, target, ended| {
            assert_eq!(ended.code, Some(0), "{}: {ended:?}", writer.name);
            assert!(is_written(target), "{}: nothing is there", writer.name);
        },
    );
    let end = place.path("end");
    for is_there in [true, false] {
        let make = |target: &Path| {
            clear(&end);
            if is_there {
                fs::write(&end, OLD).unwrap();
            }
            // The target is a relative link to another relative link.
            clear(&place.path("man/middle"));
            symlink("../end", place.path("man/middle")).unwrap();
            symlink("../middle", target).unwrap();
        };
        place.each(make, |writer, target, ended| {
            let keeps_others = is_there && writer.existing == Existing::OfItsOwn;
            let code = if keeps_others { 1 } else { 0 };
            assert_eq!(ended.code, Some(code), "{}, {is_there}: {ended:?}", writer.name);
            assert!(fs::symlink_metadata(target).unwrap().is_symlink(), "{}", writer.name);
            assert_eq!(is_written(&end), !keeps_others, "{}, {is_there}", writer.name);
            let starts_old = fs::read(&end).unwrap().starts_with(OLD);
            assert_eq!(starts_old, is_there && writer.existing != Existing::Replaced);
        });
    }
}

#[test]
fn targets_that_are_no_files_are_refused_and_stay() {
    let place = Place::new();
    place.each_refuses(|target| fs::create_dir(target).unwrap(), Path::is_dir);
    let kind = |target: &Path| fs::symlink_metadata(target).unwrap().file_type();
    let pipe = |target: &Path| mknodat(CWD, target, FileType::Fifo, Mode::RWXU, 0).unwrap();
    place.each_refuses(pipe, |target| kind(target).is_fifo());
    let socket = |target: &Path| drop(UnixListener::bind(target).unwrap());
    place.each_refuses(socket, |target| kind(target).is_socket());
    let null = |target: &Path| symlink("/dev/null", target).unwrap();
    place.each_refuses(null, |target| kind(target).is_symlink());
    let circle = |target: &Path| symlink("uzram.1", target).unwrap();
    place.each_refuses(circle, |target| kind(target).is_symlink());
}

#[test]
fn a_dash_is_no_file() {
    let place = Place::new();
    for writer in WRITERS.iter().filter(|writer| writer.name != "generate") {
        let ended = place.write(writer, "read", Path::new("-"));
        assert_eq!(ended.code, Some(2), "{}: {ended:?}", writer.name);
        assert!(ended.err.contains("'./-'"), "{}: {ended:?}", writer.name);
        assert!(!place.path("-").exists(), "{}", writer.name);
    }
}

#[test]
fn an_input_is_not_replaced() {
    let place = Place::new();
    let saved = fs::read(place.path("saved")).unwrap();
    let refuses = |ended: Ended, named: &str| {
        assert!(ended.code == Some(1) && ended.err.contains(named), "{ended:?}");
    };
    for writer in WRITERS.iter().filter(|writer| writer.reads) {
        let input = place.path("read/input");
        fs::write(&input, &saved).unwrap();
        symlink("read/input", place.path("link")).unwrap();
        for target in ["read/input", "link"].map(|name| place.path(name)) {
            refuses(place.write(writer, "read/input", &target), "it is an input");
            refuses(place.write(writer, "link", &target), "it is an input");
        }
        if writer.name != "restore --output" {
            refuses(place.write(writer, "read", &input), "below 'read'");
        }
        assert!(fs::read(&input).unwrap() == saved, "{}", writer.name);
        fs::remove_file(place.path("link")).unwrap();
        fs::remove_file(input).unwrap();
    }
    let config = place.path("config");
    fs::write(&config, "[a]\nsize = 1M\n").unwrap();
    let config = config.to_str().unwrap();
    refuses(place.save_on_exit(&["--config", config], config), "it is an input");
}

#[test]
fn files_that_can_not_be_replaced_are_refused() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("left out, as it takes root");
    }
    let place = Place::new();
    let target = place.target();
    for writer in WRITERS.iter().filter(|writer| writer.existing == Existing::Replaced) {
        fs::write(place.path("below"), OLD).unwrap();
        fs::write(&target, OLD).unwrap();
        run(Command::new("mount").arg("--bind").arg(place.path("below")).arg(&target));
        let mounted = Unmounted(target.clone());
        let ended = place.write(writer, "read", &target);
        assert!(ended.code == Some(1) && ended.err.contains("mounted"), "{ended:?}");
        assert_eq!(fs::read(&target).unwrap(), OLD);
        drop(mounted);
        // Makes the target immutable, which not every file system supports.
        if end(Command::new("chattr").arg("+i").arg(&target)).code == Some(0) {
            let ended = place.write(writer, "read", &target);
            run(Command::new("chattr").arg("-i").arg(&target));
            assert!(ended.code == Some(1) && ended.err.contains("ermission"), "{ended:?}");
        }
        assert_eq!(fs::read(&target).unwrap(), OLD, "{}", writer.name);
    }
}

/// Creates a loop device of `bytes` bytes that all have the same value.
fn looped(place: &Place, bytes: u64) -> Looped {
    let file = place.path(&format!("device-{bytes}"));
    fs::write(&file, vec![7; bytes as usize]).unwrap();
    let device = run(Command::new("/usr/sbin/losetup").args(["-f", "--show"]).arg(file));
    Looped(device.trim_end().to_owned(), place.path("mounted"))
}

fn contents(device: &Looped) -> Vec<u8> {
    // Flushes the cache, so that the test reads from the device.
    run(Command::new("/usr/sbin/blockdev").args(["--flushbufs", &device.0]));
    fs::read(&device.0).unwrap()
}

#[test]
fn a_block_device_is_written_only_if_it_is_free_and_large_enough() {
    let is_possible =
        rustix::process::geteuid().is_root() && Path::new("/dev/loop-control").exists();
    if !is_possible || !has(&["mkfs.ext4", "mount", "losetup"]) {
        return eprintln!("left out, as it takes root and loop devices");
    }
    let place = Place::new();
    fs::create_dir(place.path("mounted")).unwrap();
    let disk = fs::read(place.path("read/text")).unwrap();
    let restore = |device: &Looped| end(place.uzram().args(["restore", "-o", &device.0, "saved"]));

    // This device is one sector smaller than the disk.
    let small = looped(&place, disk.len() as u64 - 512);
    let before = contents(&small);
    let ended = restore(&small);
    assert!(ended.code == Some(1) && ended.err.contains("too small"), "{ended:?}");
    assert!(contents(&small) == before, "it was changed");

    let large = looped(&place, 8 << 20);
    run(Command::new("/usr/sbin/mkfs.ext4").args(["-q", "-F", &large.0]));
    run(Command::new("mount").arg(&large.0).arg(&large.1));
    fs::write(large.1.join("mine"), OLD).unwrap();
    let ended = restore(&large);
    assert!(ended.code == Some(1) && ended.err.contains("in use"), "{ended:?}");
    run(Command::new("umount").arg(&large.1));
    run(Command::new("mount").arg(&large.0).arg(&large.1));
    assert_eq!(fs::read(large.1.join("mine")).unwrap(), OLD);
    run(Command::new("umount").arg(&large.1));

    let ended = restore(&large);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(contents(&large)[..disk.len()] == disk, "it has something else");

    // The file to restore can be a block device.
    let held = looped(&place, 4 << 20);
    let saved = fs::read(place.path("saved")).unwrap();
    let mut all = contents(&held);
    all[..saved.len()].copy_from_slice(&saved);
    fs::write(&held.0, &all).unwrap();
    let ended = end(place.uzram().args(["restore", "-o", &held.0, &held.0]));
    assert!(ended.code == Some(1) && ended.err.contains("it is an input"), "{ended:?}");
    assert!(contents(&held) == all, "it was changed");
}

#[test]
fn other_commands_write_no_block_device() {
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/loop-control").exists() {
        return eprintln!("left out, as it takes root and loop devices");
    }
    let place = Place::new();
    let device = looped(&place, 8 << 20);
    let before = contents(&device);
    let others = WRITERS.iter().filter(|of| !["restore --output", "generate"].contains(&of.name));
    for writer in others {
        let ended = place.write(writer, "read", Path::new(&device.0));
        assert_eq!(ended.code, Some(1), "{}: {ended:?}", writer.name);
    }
    assert!(contents(&device) == before, "it was changed");
}
