//! Tests `uzram restore`: sparse images, the memory limit, missing data in files, and cancelled
//! jobs.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::Command;
use std::thread;
use support::{Ended, Server, UZRAM, end, noise, serve_unsized, text};
use testkit::wait::{patience, within};
use zram::{Backing, Config, Device, SaveOptions, SaveTo, Selection};

fn restore(args: &[&str], file: &Path) -> Ended {
    end(Command::new(UZRAM).arg("restore").args(args).arg(file))
}

/// Saves a device after `fill` has written its data.
fn saved(path: &Path, config: Config, fill: impl FnOnce(&Device)) {
    let device = Device::new(config).unwrap();
    fill(&device);
    device.save(SaveTo::File(path), &SaveOptions::default()).unwrap();
}

#[test]
fn images_take_what_is_stored_and_not_what_the_disk_has() {
    let dir = tempfile::tempdir().unwrap();
    let [file, image] = ["saved", "image"].map(|name| dir.path().join(name));
    let (bytes, at) = (256 << 30, [0, 5 << 30, (256 << 30) - 4096]);
    saved(&file, Config::new(bytes).unwrap(), |device| {
        at.iter().for_each(|&at| device.write(at, &text(at, 4096)).unwrap());
    });
    // If `restore` wrote all 256 GiB to the image, it would take hours.
    let ended = within(patience(), || restore(&["--output", image.to_str().unwrap()], &file));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let metadata = fs::metadata(&image).unwrap();
    assert_eq!(metadata.len(), bytes);
    assert!(metadata.blocks() <= 3 * 128, "{} blocks of 512 bytes", metadata.blocks());
    let image = File::open(&image).unwrap();
    for at in at {
        let mut back = [0; 4096];
        image.read_exact_at(&mut back, at).unwrap();
        assert!(back == *text(at, 4096), "at {at}");
    }
}

#[test]
fn a_disk_goes_on_where_it_was_saved() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("disk");
    let command = |own: &Path, more: &[&str]| {
        let mut command = serve_unsized(own);
        command.args(["--nbd", "unix:nbd.sock"]).args(more).arg("--save-on-exit").arg(&file);
        command
    };
    for round in 0..3 {
        let own = tempfile::tempdir().unwrap();
        let mut command = command(own.path(), &["--size", "16M"]);
        let mut server =
            Server::announced(command.arg("--restore").arg(&file).spawn().unwrap(), own);
        let mut client = server.client();
        // The file does not exist in the first round.
        assert_eq!(client.read(0, 4096), [round; 4096]);
        client.write(0, &[round + 1; 4096]);
        drop(client);
        server.signal("TERM");
        assert_eq!(server.ended().0, Some(0), "{}", server.said());
    }
    // A server that starts without the file logs a warning.
    let own = tempfile::tempdir().unwrap();
    let other = command(own.path(), &["--size", "16M"]).spawn().unwrap();
    let mut server = Server::announced(other, own);
    server.signal("TERM");
    assert_eq!(server.ended().0, Some(0));
    let said = server.said();
    assert!(
        said.contains("does not start with its contents") && said.contains("--restore"),
        "{said}"
    );
    fs::remove_file(&file).unwrap();
    let ended = end(command(dir.path(), &[]).arg("--restore").arg(&file));
    assert!(ended.code == Some(2) && ended.err.contains("is not known; give --size"), "{ended:?}");
}

#[test]
fn memory_is_limited() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("saved");
    let bytes = noise(1, 8 << 20);
    saved(&file, Config::new(1 << 30).unwrap(), |device| device.write(0, &bytes).unwrap());
    let refused = restore(&["--mem-limit", "4M"], &file);
    assert!(refused.code == Some(1) && refused.err.contains("limit"), "{refused:?}");
    for limit in ["16M", "0"] {
        assert_eq!(restore(&["--mem-limit", limit], &file).code, Some(0));
    }
    let served = restore(&["--mem-limit", "4M", "--served"], &file);
    assert_eq!(served.code, Some(2), "{served:?}");
}

/// A backing store whose reads all fail.
#[derive(Debug)]
struct Unreadable;

impl Backing for Unreadable {
    fn name(&self) -> String {
        "unreadable".to_owned()
    }

    fn bytes(&self) -> u64 {
        1 << 20
    }

    fn read_at(&self, _buf: &mut [u8], _offset: u64) -> std::io::Result<()> {
        Err(std::io::Error::from_raw_os_error(5))
    }

    fn write_at(&self, _bytes: &[u8], _offset: u64) -> std::io::Result<()> {
        Ok(())
    }

    fn sync(&self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn what_a_file_lacks_is_told_and_the_rest_is_served() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("saved");
    let backing = Some(std::sync::Arc::new(Unreadable) as _);
    saved(&file, Config { backing, ..Config::new(256 << 20).unwrap() }, |device| {
        device.write(0, &text(1, 32 << 10)).unwrap();
        let slots = vec![1..=1, 4..=5];
        device.write_back(&Selection { slots, ..Selection::default() }).unwrap();
    });
    let strict = restore(&[], &file);
    assert_eq!(strict.code, Some(1), "{strict:?}");
    assert!(strict.err.contains("slot 1 could not be read when this was saved"), "{strict:?}");
    let rest = restore(&["--salvage"], &file);
    assert_eq!(rest.code, Some(1), "{rest:?}");
    let lost = "lost: bytes 4096 to 8191 (4.0 KiB)\nlost: bytes 16384 to 24575 (8.0 KiB)\n";
    assert!(rest.out.ends_with(lost), "{rest:?}");

    let refused = end(serve_unsized(dir.path()).args(["--restore", "saved", "--nbd", "unix:n"]));
    assert!(refused.code == Some(1) && refused.err.contains("slot 1 "), "{refused:?}");
    let mut server = Server::restored(&file, &["--salvage"]);
    let mut expected = text(1, 32 << 10);
    expected[4096..8192].fill(0);
    expected[16384..24576].fill(0);
    assert!(server.client().read(0, 32 << 10) == expected);
    server.signal("TERM");
    assert_eq!(server.ended().0, Some(0));
    let said = server.said();
    assert!(
        said.contains("lost: bytes 4096 to 8191 (4.0 KiB); this range reads as zeros"),
        "{said}"
    );
}

#[test]
fn a_job_is_cancelled() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("saved");
    let server = Server::new(&["--mem-limit", "0"]);
    let none = server.ask("cancel", &[]);
    assert!(none.code == Some(1) && none.err.contains("no job is under way"), "{none:?}");
    server.client().write(0, &noise(1, 200 << 20));
    // A job that ends before it is cancelled tests nothing, so the test repeats the job.
    let cancelled = (0..20).any(|_| {
        thread::scope(|scope| {
            let saving = scope.spawn(|| server.ask("save", &[file.to_str().unwrap()]));
            let was = loop {
                match server.ask("cancel", &[]).code {
                    Some(0) => break true,
                    _ if saving.is_finished() => break false,
                    _ => {}
                }
            };
            let ended = saving.join().unwrap();
            assert!(ended.code == Some(i32::from(ended.err.contains("cancelled"))), "{ended:?}");
            was && ended.code == Some(1)
        })
    });
    assert!(cancelled);
}

#[test]
fn a_size_that_can_not_be_leaves_no_backing_file() {
    let dir = tempfile::tempdir().unwrap();
    let before = fs::read_dir(dir.path()).unwrap().count();
    for size in ["16777215T", "16T", "9223372036854775807", "18446744073709551615"] {
        let mut command = serve_unsized(dir.path());
        command.args(["--size", size, "--nbd", "unix:nbd", "--backing", "cold"]);
        let ended = end(&mut command);
        assert!(ended.code == Some(2) && ended.err.lines().count() == 1, "{size}: {ended:?}");
        assert!(ended.err.contains("--size"), "{size}: {ended:?}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), before, "{size}");
    }
}

/// A refusal names the reason, and the option of the command line that is the remedy.
#[test]
fn refusals_name_the_remedy() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("junk"), "hello").unwrap();
    let server = Server::new(&[]);
    server.client().write(0, &support::noise(1, 3 << 20));
    let saved = dir.path().join("s").display().to_string();
    assert_eq!(server.ask("save", &[&saved]).code, Some(0));
    let asked = |line: &str| {
        let mut command = Command::new(support::UZRAM);
        support::end(command.args(line.split(' ')).current_dir(dir.path()))
    };
    let long = "c".repeat(200);
    for (line, code, says) in [
        ("restore --mem-limit 1M s", 1, "'s' can't be restored: "),
        ("restore --mem-limit 1M s", 1, "; raise --mem-limit"),
        (
            "restore --mem-limit 64K s",
            1,
            "'s' can't be restored: it needs more than the limit of 64",
        ),
        ("restore --mem-limit 65535 s", 2, "at least 65536 (64.0 KiB)"),
        ("serve --nbd unix:n --control c --mem-limit 1M --restore s", 1, "; raise --mem-limit"),
        ("serve --nbd unix:n --control c --salvage --restore junk", 1, "; restore an earlier save"),
        ("restore junk", 1, "salvage what is intact"),
        ("restore --salvage junk", 1, "nothing of 'junk' can be restored"),
        ("restore -o no/x s", 1, "No such file or directory (os error 2); give another path"),
        ("serve --size 1M --level abc", 2, "a whole number from -2147483648 to 2147483647"),
        ("serve --nbd unix:n --control c", 2, "<--size <SIZE>|--restore <FILE>>"),
        ("idle --older abc", 2, "a whole number from 0 to "),
        ("idle --older 18446744073709551616", 2, "a whole number from 0 to "),
        (&format!("stat --control {long}"), 1, "give a shorter path with --control"),
        (&format!("fill --save {} junk", "n".repeat(248)), 2, "too long"),
        (&format!("fill --save {} junk", "n".repeat(247)), 0, ""),
    ] {
        let ended = asked(line);
        assert!(ended.code == Some(code) && ended.err.contains(says), "{line}: {ended:?}");
        assert!(!ended.err.contains("discard"), "{line}: {ended:?}");
    }
    for (command, args, says) in [
        ("attr", &["reset", "1"][..], "stop its server"),
        ("idle", &["--older", "5"], "'uzram serve --set track_access=1'"),
        ("writeback", &["idle"], "'uzram serve --backing FILE'"),
        ("recompress", &[], "'uzram serve --set recomp_algorithm=algo=NAME'"),
    ] {
        let refused = server.ask(command, args);
        assert!(refused.code == Some(1) && refused.err.contains(says), "{command}: {refused:?}");
    }
}
