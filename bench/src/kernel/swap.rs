//! The kernel's swap on a private zram device. Experiments measure the time to page out memory of
//! this process and to touch it again.
//!
//! Undo actions run in reverse order. The swap must end before the device is removed, so the swap
//! is enabled after the device is created.

use std::fs::{self, File};
use std::path::Path;

use super::{KernelZram, MmStat, Rival};
use crate::Error;
use crate::tool::Tool;
use crate::undo::{Action, Undo};

const RIGHTS: &str = "run as root on a machine whose kernel has zram and swap";
const FOLIOS: &str = "/sys/kernel/mm/transparent_hugepage";
/// The highest priority, so that this swap is used before any other.
const PRIORITY: &str = "32767";

/// Returns the program `name` of util-linux.
const fn util(name: &'static str) -> Tool {
    Tool { name, package: "util-linux", remedy: RIGHTS }
}

/// A zram device that the kernel uses for swap, before any other swap, until this value is dropped.
#[derive(Debug)]
pub struct KernelSwap {
    // The fields are dropped, and thereby undone, in this order.
    _folios: Option<Undo>,
    _swap: Undo,
    device: KernelZram,
}

impl KernelSwap {
    /// Enables swap of `bytes` bytes with the compression `algorithm`, for folios of `folio` bytes.
    /// A folio is a page, or has one of the kernel's sizes of huge pages. Returns the reason if
    /// swap is not available.
    pub fn acquire(algorithm: &str, bytes: u64, folio: usize) -> Result<Rival<KernelSwap>, Error> {
        let device = match KernelZram::acquire(algorithm, bytes)? {
            Rival::Present(device) => device,
            Rival::Absent(reason) => return Ok(Rival::Absent(reason)),
        };
        folios_of(folio)?.try_map(|folios| KernelSwap::on(device, folios))
    }

    /// Enables swap on `device`.
    fn on(device: KernelZram, folios: Option<Undo>) -> Result<KernelSwap, Error> {
        let node = device.node().display().to_string();
        let mkswap = util("mkswap");
        mkswap.run(mkswap.command().arg(&node))?;
        let ((), swap) = Undo::of(|| {
            let swapon = util("swapon");
            swapon.run_whole(swapon.command().args(["-p", PRIORITY, &node]))?;
            let swapoff = util("swapoff");
            let end: Action =
                Box::new(move || swapoff.run_whole(swapoff.command().arg(&node)).map(|_| ()));
            Ok::<_, Error>(((), end))
        })?;
        Ok(KernelSwap { _folios: folios, _swap: swap, device })
    }

    /// Resets `mem_used_max`, the device's largest memory use.
    pub fn count_most(&self) -> Result<(), Error> {
        self.device.set_attribute("mem_used_max", "0")
    }

    /// Returns the device's memory statistics.
    pub fn mm_stat(&self) -> Result<MmStat, Error> {
        self.device.mm_stat()
    }
}

/// Configures the kernel to use only folios of `bytes` bytes for memory that requests huge pages.
fn folios_of(bytes: usize) -> Result<Rival<Option<Undo>>, Error> {
    if bytes == page::page_size() {
        return Ok(Rival::Present(None));
    }
    let wanted = format!("hugepages-{}kB", bytes >> 10);
    if !Path::new(FOLIOS).join(&wanted).exists() {
        return Ok(Rival::Absent(format!("this kernel has no folios of {} KiB", bytes >> 10)));
    }
    // The lock makes concurrent runs wait. Without it, a run would restore the settings that
    // another run has set.
    let dir = File::open(FOLIOS).and_then(|dir| dir.lock().map(|()| dir));
    let dir = dir.map_err(Error::file("lock", Path::new(FOLIOS), RIGHTS))?;
    let mut sizes = Vec::new();
    for entry in fs::read_dir(FOLIOS).map_err(Error::file("list", Path::new(FOLIOS), RIGHTS))? {
        let entry = entry.map_err(Error::file("list", Path::new(FOLIOS), RIGHTS))?;
        let size = entry.file_name().to_string_lossy().into_owned();
        let path = entry.path().join("enabled");
        if size.starts_with("hugepages-") && path.exists() {
            let before = fs::read_to_string(&path).map_err(Error::file("read", &path, RIGHTS))?;
            let to = if size == wanted { "madvise" } else { "never" };
            sizes.push((path, chosen(&before).to_string(), to));
        }
    }
    let set =
        |path: &Path, to: &str| fs::write(path, to).map_err(Error::file("write to", path, RIGHTS));
    let ((), undo) = Undo::of(|| {
        let before = sizes.clone();
        // If one setting can't be changed, the undo action restores the settings that were changed
        // before it.
        let restore = move || before.iter().try_for_each(|(path, before, _)| set(path, before));
        let set = sizes.iter().try_for_each(|(path, _, to)| set(path, to));
        if let Err(error) = set {
            restore()?;
            return Err(error);
        }
        let restore: Action = Box::new(move || {
            let restored = restore();
            drop(dir);
            restored
        });
        Ok::<_, Error>(((), restore))
    })?;
    Ok(Rival::Present(Some(undo)))
}

/// Returns the word in brackets, which is the current setting.
fn chosen(words: &str) -> &str {
    words
        .split_whitespace()
        .find_map(|word| word.strip_prefix('[')?.strip_suffix(']'))
        .unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chosen_word_is_the_one_in_brackets() {
        assert_eq!(chosen("always inherit [madvise] never\n"), "madvise");
        assert_eq!(chosen("none"), "");
    }
}
