//! What is saved by `uzram fill` comes back by `uzram restore`, and cold pages go through a file.
#![allow(clippy::unwrap_used)]

mod support;

use std::fs;
use std::process::Command;
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
    assert!(there.code == Some(2) && there.err.contains("not there yet"), "{there:?}");
    let alone = end(fill().args(["--idle-after", "3", file]));
    assert!(alone.code == Some(2) && alone.err.contains("--backing"), "{alone:?}");
    let young = dir.path().join("young").to_str().unwrap().to_owned();
    let young = end(fill().args(["--backing", &young, "--idle-after", "999", "--json", file]));
    assert_eq!(young.json()["written_back_pages"].as_u64(), Some(0), "{young:?}");
}
