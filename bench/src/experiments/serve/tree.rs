//! A file system on our mounted device beside one on the kernel's zram: a source tree is unpacked on each.

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
        ours.push(unpack(packed.path(), &looped.0)?);
    }
    let ratios: Vec<f64> = ours.iter().zip(&rivals).map(|(ours, rival)| ours / rival).collect();
    let median = |values: &[f64]| Summary::of(values).map_or(f64::NAN, |summary| summary.median);
    let ratio = Figure::new(NAME, WHAT, median(&ratios), "").must(Bound::at_most(TIME_MAX));
    report.add(ratio.rival("kernel zram, seconds", median(&rivals)))
}

fn pack(tree: &Path) -> Result<NamedTempFile, Error> {
    let dir = std::env::temp_dir();
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
    let made = TempDir::new();
    let dir =
        made.map_err(Error::file("create a directory in", &std::env::temp_dir(), "set TMPDIR"))?;
    run("mount", "mount", Command::new("mount").arg(device).arg(dir.path()))?;
    let mounted = Mounted(dir.path());
    let begun = Instant::now();
    run("tar", "tar", Command::new("tar").arg("-xf").arg(packed).arg("-C").arg(dir.path()))?;
    drop(mounted);
    Ok(begun.elapsed().as_secs_f64())
}

/// Unmounts, whatever became of it.
struct Mounted<'d>(&'d Path);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

/// A loop device, detached when this goes.
struct Looped(PathBuf);

impl Looped {
    fn new(file: &Path) -> Result<Looped, Error> {
        let mut command = Command::new("losetup");
        let told =
            run("losetup", "mount", command.args(["-f", "--show", "--direct-io=on"]).arg(file))?;
        Ok(Looped(told.trim_end().into()))
    }
}

impl Drop for Looped {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("-d").arg(&self.0).status();
        // It goes once no one uses it any more, which may take a moment.
        for _ in 0..100 {
            let backing = Path::new("/sys/block").join(self.0.file_name().unwrap_or_default());
            if !fs::exists(backing.join("loop/backing_file")).unwrap_or(false) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}
