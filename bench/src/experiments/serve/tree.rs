//! Unpacks a source tree on a file system of a mounted uzram device. The time is compared with the
//! time on the kernel's zram.

use std::env::temp_dir;
use std::fs::File;
use std::io::Seek;
use std::path::Path;
use std::time::Instant;

use tempfile::tempfile;

use super::super::Request;
use super::host::{Disk, Host};
use crate::Error;
use crate::disk::{Looped, Mounted, make_ext4};
use crate::inputs::source_tree;
use crate::kernel::{KernelZram, Rival};
use crate::report::{Bound, Figure, Report};
use crate::size::GIB;
use crate::summary::{median, ratio};
use crate::tool::Tool;
use crate::turns::in_turns;

const NAME: &str = "fuse";
const ROUNDS: u64 = 3;
/// The directories of the tree that are unpacked. The directories have about 30,000 small files.
const PARTS: [&str; 5] = ["fs", "net", "kernel", "include", "sound"];
const DISK: u64 = 2 * GIB;
const TIME_MAX: f64 = 2.0;
const TAR: Tool = Tool { name: "tar", package: "tar", remedy: "make room there" };
const WHAT: &str = "ext4 on a loop device, a source tree unpacked: time over ext4 on kernel zram";

/// Measures both file systems, if this user is allowed to mount and the kernel has zram.
pub fn compare(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        let missing = Figure::missing(NAME, WHAT, "").rival_absent("it takes root and /dev/fuse");
        return report.add(missing.must(Bound::at_most(TIME_MAX)));
    }
    let packed = pack(&source_tree(&request.cache)?, &PARTS)?;
    let device = || KernelZram::acquire("lz4", DISK);
    if let Rival::Absent(reason) = device()? {
        let missing = Figure::missing(NAME, WHAT, "").rival_absent(&reason);
        return report.add(missing.must(Bound::at_most(TIME_MAX)));
    }
    let seconds = in_turns(2, ROUNDS, |side| match side {
        0 => {
            let host = Host::mounted(&Disk::lz4(), DISK)?;
            let looped = Looped::new(&host.file())?;
            unpack(&packed, &looped.node)
        }
        _ => {
            let seconds = device()?.try_map(|device| unpack(&packed, &device.node()))?;
            Ok(seconds.present().unwrap_or(f64::NAN))
        }
    })?;
    let over = Figure::new(NAME, WHAT, ratio(&seconds[0], &seconds[1]), "");
    let over = over.must(Bound::at_most(TIME_MAX));
    report.add(over.rival("kernel zram, seconds", median(&seconds[1])))
}

/// Returns an archive of the directories `parts` of the tree.
pub(crate) fn pack(tree: &Path, parts: &[&str]) -> Result<File, Error> {
    // The file has no name, so the system removes it when the process exits.
    let made = tempfile().and_then(|file| Ok((file.try_clone()?, file)));
    let (file, to) = made.map_err(Error::file("create a file in", &temp_dir(), "set TMPDIR"))?;
    let mut command = TAR.command();
    TAR.run_to(command.arg("-cf").arg("-").arg("-C").arg(tree).args(parts), to.into())?;
    Ok(file)
}

/// Unpacks an archive. Returns the seconds from the first file until all bytes are on the device.
fn unpack(packed: &File, device: &Path) -> Result<f64, Error> {
    make_ext4(device)?;
    let mounted = Mounted::new(device, &[])?;
    let begun = Instant::now();
    unpack_at(packed, &mounted.dir)?;
    drop(mounted);
    Ok(begun.elapsed().as_secs_f64())
}

/// Unpacks an archive in a directory.
pub(crate) fn unpack_at(packed: &File, dir: &Path) -> Result<(), Error> {
    let from = packed.try_clone().and_then(|mut file| file.rewind().map(|()| file));
    let from = from.map_err(Error::file("read the archive for", dir, "run it again"))?;
    let mut command = TAR.command();
    TAR.run(command.stdin(from).arg("-xf").arg("-").arg("-C").arg(dir)).map(drop)
}
