//! A file system on our mounted device beside one on the kernel's zram: a source tree is unpacked
//! on each.

use std::env::temp_dir;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use tempfile::{NamedTempFile, TempDir};

use super::super::Request;
use super::clients::run;
use super::host::{Disk, Host};
use crate::Error;
use crate::inputs::source_tree;
use crate::kernel::{KernelZram, Rival};
use crate::report::{Bound, Figure, Report};
use crate::size::GIB;
use crate::summary::Summary;
use crate::undo::{Action, Undo};

const NAME: &str = "fuse";
const ROUNDS: usize = 3;
/// Parts of the tree: 30,000 small files or so.
const PARTS: [&str; 5] = ["fs", "net", "kernel", "include", "sound"];
const DISK: u64 = 2 * GIB;
const TIME_MAX: f64 = 2.0;
const WHAT: &str = "ext4 on a loop device, a source tree unpacked: time over ext4 on kernel zram";

/// Measures, where this user may mount and the kernel has zram.
pub fn compare(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        let missing = Figure::missing(NAME, WHAT, "").rival_absent("it takes root and /dev/fuse");
        return report.add(missing.must(Bound::at_most(TIME_MAX)));
    }
    let packed = pack(&source_tree(&request.cache)?)?;
    let (mut ours, mut rivals) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        match KernelZram::acquire("lz4", DISK)? {
            Rival::Absent(reason) => {
                let missing = Figure::missing(NAME, WHAT, "").rival_absent(&reason);
                return report.add(missing.must(Bound::at_most(TIME_MAX)));
            }
            Rival::Present(device) => {
                let node = PathBuf::from(format!("/dev/zram{}", device.number()));
                rivals.push(unpack(packed.path(), &node)?);
            }
        }
        let host = Host::mounted(&Disk::lz4(), DISK)?;
        let looped = Looped::new(&host.file())?;
        ours.push(unpack(packed.path(), &looped.node)?);
    }
    let ratios: Vec<f64> = ours.iter().zip(&rivals).map(|(ours, rival)| ours / rival).collect();
    let median = |values: &[f64]| Summary::of(values).map_or(f64::NAN, |summary| summary.median);
    let ratio = Figure::new(NAME, WHAT, median(&ratios), "").must(Bound::at_most(TIME_MAX));
    report.add(ratio.rival("kernel zram, seconds", median(&rivals)))
}

fn pack(tree: &Path) -> Result<NamedTempFile, Error> {
    let dir = temp_dir();
    let file = NamedTempFile::new().map_err(Error::file("create a file in", &dir, "set TMPDIR"))?;
    run(
        "tar",
        "tar",
        Command::new("tar").arg("-cf").arg(file.path()).arg("-C").arg(tree).args(PARTS),
    )?;
    Ok(file)
}

/// Seconds from the first file to the last byte on the device.
fn unpack(packed: &Path, device: &Path) -> Result<f64, Error> {
    run("mkfs.ext4", "e2fsprogs", Command::new("mkfs.ext4").args(["-q", "-F"]).arg(device))?;
    let mounted = Mounted::new(device)?;
    let begun = Instant::now();
    run("tar", "tar", Command::new("tar").arg("-xf").arg(packed).arg("-C").arg(&mounted.dir))?;
    drop(mounted);
    Ok(begun.elapsed().as_secs_f64())
}

/// Where a device is mounted, until this goes.
struct Mounted {
    dir: PathBuf,
    _undo: Undo,
}

impl Mounted {
    fn new(device: &Path) -> Result<Mounted, Error> {
        let (dir, undo) = Undo::of(|| {
            let dir = TempDir::new();
            let remedy = "set TMPDIR";
            let dir = dir.map_err(Error::file("create a directory in", &temp_dir(), remedy))?;
            run("mount", "mount", Command::new("mount").arg(device).arg(dir.path()))?;
            let path = dir.path().to_owned();
            let unmount: Action = Box::new(move || {
                let unmount = |how: &[&str]| {
                    Command::new("umount")
                        .args(how)
                        .arg(dir.path())
                        .status()
                        .is_ok_and(|done| done.success())
                };
                // What is in use, when a signal comes, goes when it is used no more.
                let _ = unmount(&[]) || unmount(&["-l"]);
                Ok(())
            });
            Ok::<_, Error>((path, unmount))
        })?;
        Ok(Mounted { dir, _undo: undo })
    }
}

/// A loop device, detached when this goes.
struct Looped {
    node: PathBuf,
    _undo: Undo,
}

impl Looped {
    fn new(file: &Path) -> Result<Looped, Error> {
        let (node, undo) = Undo::of(|| {
            let mut command = Command::new("losetup");
            let command = command.args(["-f", "--show", "--direct-io=on"]).arg(file);
            let node = PathBuf::from(run("losetup", "mount", command)?.trim_end());
            let gone = node.clone();
            let detach: Action = Box::new(move || {
                detach(&gone);
                Ok(())
            });
            Ok::<_, Error>((node, detach))
        })?;
        Ok(Looped { node, _undo: undo })
    }
}

fn detach(node: &Path) {
    let _ = Command::new("losetup").arg("-d").arg(node).status();
    // It goes once no one uses it any more, which may take a moment.
    for _ in 0..100 {
        let backing = Path::new("/sys/block").join(node.file_name().unwrap_or_default());
        if !fs::exists(backing.join("loop/backing_file")).unwrap_or(false) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}
