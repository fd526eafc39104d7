//! A disk with ext4 on it, mounted with `discard`: ours, served and put on a loop device, or the
//! kernel's.

use std::path::PathBuf;

use crate::Error;
use crate::disk::{Looped, Mounted, make_ext4};
use crate::experiments::serve::held::{Holds, PoolKind};
use crate::experiments::serve::host::{Disk, Host};
use crate::kernel::{KernelZram, Rival};
use crate::stores::settle;

/// See the head of this file. What is first goes first.
pub(super) struct Mount {
    pub(super) mounted: Mounted,
    node: PathBuf,
    device: Device,
}

/// What lies below the file system.
enum Device {
    Ours { _looped: Looped, host: Host },
    Kernels(KernelZram),
}

impl Mount {
    /// An empty one on a device of ours of so many bytes.
    pub(super) fn ours(pool: PoolKind, bytes: u64) -> Result<Mount, Error> {
        let host = Host::mounted(&Disk::packed(pool), bytes)?;
        let looped = Looped::new(&host.file())?;
        let node = looped.node.clone();
        Mount::new(node, Device::Ours { _looped: looped, host })
    }

    /// An empty one on a zram device of the kernel's, with lz4.
    pub(super) fn kernels(bytes: u64) -> Result<Rival<Mount>, Error> {
        Ok(match KernelZram::acquire("lz4", bytes)? {
            Rival::Present(device) => {
                let node = PathBuf::from(format!("/dev/zram{}", device.number()));
                Rival::Present(Mount::new(node, Device::Kernels(device))?)
            }
            Rival::Absent(reason) => Rival::Absent(reason),
        })
    }

    fn new(node: PathBuf, device: Device) -> Result<Mount, Error> {
        make_ext4(&node)?;
        let mounted = Mounted::new(&node, &["-o", "discard"])?;
        Ok(Mount { mounted, node, device })
    }

    /// What the device holds, once all is written and discarded.
    pub(super) fn holds(&self) -> Result<Holds, Error> {
        self.mounted.settle()?;
        // Ours moves objects in the background.
        settle();
        match &self.device {
            Device::Ours { host, .. } => host.holds(),
            Device::Kernels(device) => {
                let mm = device.mm_stat()?;
                let (data, compressed) = (mm.orig_data_size, mm.compr_data_size);
                Ok(Holds { data, compressed, used: mm.mem_used_total })
            }
        }
    }

    /// Has the kernel's device compact its pool. Ours does so by itself, or never.
    pub(super) fn compact(&self) -> Result<(), Error> {
        match &self.device {
            Device::Ours { .. } => Ok(()),
            Device::Kernels(device) => device.compact(),
        }
    }

    /// The same again, with nothing of it in the page cache.
    pub(super) fn again(self) -> Result<Mount, Error> {
        let Mount { mounted, node, device } = self;
        drop(mounted);
        let mounted = Mounted::new(&node, &["-o", "discard"])?;
        Ok(Mount { mounted, node, device })
    }
}
