//! Tests that `uzram restore` restores disks saved by `uzram fill`, and that cold pages are written
//! to a file and read back.
#![allow(clippy::unwrap_used)]

mod support;

use std::fs;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::process::Command;
use std::thread;
use std::time::Duration;
use support::host::{Looped, has, run};
use support::{Ended, PAGE, UZRAM, end, fill, noise};

fn restore(args: &[&str]) -> Ended {
    end(Command::new(UZRAM).arg("restore").args(args))
}

#[test]
fn a_saved_device_is_restored() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let mut bytes = b"some words ".repeat(5000);
    bytes.extend(noise(1, 700 * PAGE));
    bytes.truncate(bytes.len() / PAGE * PAGE);
    fs::write(path("in"), &bytes).unwrap();
    let (saved, image, backing) = (path("saved"), path("image"), path("backing"));
    let filled = end(fill().args(["--save", &saved, "--backing", &backing, "--json", &path("in")]));
    assert_eq!(filled.code, Some(0), "{filled:?}");
    let report = filled.json();
    let pages = (bytes.len() / PAGE) as u64;
    assert_eq!(
        (report["mismatches"].as_u64(), report["written_back_pages"].as_u64()),
        (Some(0), Some(pages))
    );
    assert_eq!(report["saved_bytes"].as_u64(), Some(fs::metadata(&saved).unwrap().len()));
    assert_eq!(report["compr_data_size"].as_u64(), Some(0));
    assert!(!fs::exists(&backing).unwrap());

    let restored = restore(&["--json", "--output", &image, &saved]);
    assert_eq!(restored.code, Some(0), "{restored:?}");
    assert_eq!(restored.json()["pages"].as_u64(), Some(pages));
    assert!(fs::read(&image).unwrap() == bytes);

    let mut broken = fs::read(&saved).unwrap();
    let at = broken.len() / 2;
    broken[at] ^= 1;
    fs::write(&saved, &broken).unwrap();
    let refused = restore(&[&saved]);
    assert_eq!((refused.code, refused.out.as_str()), (Some(1), ""));
    assert!(refused.err.contains("offset") && refused.err.contains("checksum"), "{refused:?}");
    let salvaged = restore(&["--salvage", "-o", &image, &saved]);
    assert_eq!(salvaged.code, Some(1), "{salvaged:?}");
    assert!(salvaged.out.contains("lost: bytes") && salvaged.err.contains("are lost"));
    let back = fs::read(&image).unwrap();
    assert!(back.len() == bytes.len() && back[..PAGE] == bytes[..PAGE]);
}

#[test]
fn what_can_not_be_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("in");
    fs::write(&file, noise(2, 3 * PAGE)).unwrap();
    let file = file.to_str().unwrap();
    let refused = restore(&[file]);
    assert!(refused.code == Some(1) && refused.err.contains("offset 0"), "{refused:?}");
    let there = end(fill().args(["--backing", file, file]));
    assert!(there.code == Some(1) && there.err.contains("does not exist yet"), "{there:?}");
    let alone = end(fill().args(["--idle-after", "3", file]));
    assert!(alone.code == Some(2) && alone.err.contains("--backing"), "{alone:?}");
    let young = dir.path().join("young").to_str().unwrap().to_owned();
    let young = end(fill().args(["--backing", &young, "--idle-after", "999", "--json", file]));
    assert_eq!(young.json()["written_back_pages"].as_u64(), Some(0), "{young:?}");
}

/// An unsuitable target is reported before the work begins, and the command leaves no file at the
/// target.
#[test]
fn files_are_whole_and_where_they_are_to_be() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("in"), noise(3, 9 * PAGE)).unwrap();
    for there in ["no/such", "slash/", "."] {
        let refused = end(fill().args(["--save", &path(there), &path("in")]));
        assert_eq!((refused.code, refused.out.as_str()), (Some(1), ""), "{refused:?}");
    }
    // Another user put a link at the temporary path of the save. The save does not follow the link,
    // and does not write to the link's target.
    fs::write(path("victim"), "his").unwrap();
    symlink("victim", path(".saved.saving")).unwrap();
    let planted = end(fill().args(["--json", "--save", &path("saved"), &path("in")]));
    assert!(planted.code == Some(1) && planted.err.contains(".saving'"), "{planted:?}");
    assert_eq!(planted.json()["pages"].as_u64(), Some(9), "the report is there all the same");
    assert_eq!(fs::read(path("victim")).unwrap(), b"his");
    fs::remove_file(path(".saved.saving")).unwrap();
    // The save reuses a leftover temporary file. Only the owner of the saved file can read it.
    fs::write(path(".saved.saving"), "rest").unwrap();
    assert_eq!(end(fill().args(["--save", &path("saved"), &path("in")])).code, Some(0));
    let mode = |name: &str| fs::metadata(path(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("saved"), 0o600);

    let saved = fs::read(path("saved")).unwrap();
    let onto = restore(&["-o", &path("saved"), &path("saved")]);
    assert!(onto.code == Some(1) && onto.err.contains("it is an input"), "{onto:?}");
    assert!(fs::read(path("saved")).unwrap() == saved);
    let nowhere = restore(&["-o", &path("no/such"), &path("saved")]);
    assert_eq!(nowhere.code, Some(1), "{nowhere:?}");
    assert_eq!(restore(&["-o", &path("image"), &path("saved")]).code, Some(0));
    assert_eq!(mode("image"), 0o600);
    let mut names: Vec<_> =
        fs::read_dir(dir.path()).unwrap().map(|of| of.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["image", "in", "saved", "victim"]);
}

#[test]
fn an_interrupt_ends_a_save() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("in"), noise(4, 64 << 20)).unwrap();
    let interrupted = || {
        let mut child = fill().args(["--save", &path("saved"), &path("in")]).spawn().unwrap();
        while !fs::exists(path(".saved.saving")).unwrap() && child.try_wait().unwrap().is_none() {
            thread::sleep(Duration::from_millis(1));
        }
        let _ = Command::new("kill").args(["-s", "INT", &child.id().to_string()]).output();
        Ended::from(child.wait_with_output().unwrap())
    };
    // A run that ends before the signal arrives tests nothing, so the test repeats the run.
    let ended = (0..20).map(|_| interrupted()).find(|ended| ended.code != Some(0)).unwrap();
    assert_eq!((ended.code, ended.err.as_str()), (Some(130), "uzram: interrupted\n"), "{ended:?}");
    assert!(!fs::exists(path(".saved.saving")).unwrap());
}

#[test]
fn a_backing_device_that_is_in_use_is_named_so() {
    if !rustix::process::geteuid().is_root() || !has(&["losetup"]) {
        eprintln!("left out, as loop devices are root's");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("image"), vec![0; 8 << 20]).unwrap();
    let mut losetup = Command::new("/usr/sbin/losetup");
    let attached = run(losetup.args(["-f", "--show"]).arg(dir.path().join("image")));
    let looped = Looped(attached.trim().to_owned(), dir.path().join("nowhere"));
    let device = looped.0.as_str();
    // The test opens the device exclusively, like a mount.
    let excl = rustix::fs::OFlags::EXCL.bits() as i32;
    let held = fs::File::options().read(true).custom_flags(excl).open(device).unwrap();
    let serve = || end(support::serve(dir.path()).args(["--nbd", "unix:n", "--backing", device]));
    let with_backing = || end(fill().args(["--backing", device]).arg(dir.path().join("image")));
    for ended in [serve(), with_backing()] {
        assert_eq!((ended.code, ended.err.lines().count()), (Some(1), 1), "{ended:?}");
        for part in [device, "is in use: ", "mounted", "'umount'", "name another device"] {
            assert!(ended.err.contains(part), "{part}: {ended:?}");
        }
    }
    drop(held);
    assert_eq!(with_backing().code, Some(0));
}
