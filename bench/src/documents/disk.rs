//! A disk with a mounted ext4 file system, which discards freed blocks. The disk is the kernel's
//! zram, or a served device of uzram behind a loop device.

use std::path::PathBuf;

use crate::Error;
use crate::disk::{Looped, Mounted, make_ext4};
use crate::experiments::serve::held::{Holds, PoolKind};
use crate::experiments::serve::host::{Disk, Host};
use crate::filled::settle;
use crate::kernel::{KernelZram, Rival};

/// A mounted disk. The fields are dropped in this order, so the file system is unmounted first.
pub(super) struct Mount {
    pub(super) mounted: Mounted,
    node: PathBuf,
    device: Device,
}

/// The block device below the file system.
enum Device {
    Ours { _looped: Looped, host: Host },
    Kernels(KernelZram),
}

impl Mount {
    /// Creates an empty file system on a device of uzram of `bytes` bytes.
    pub(super) fn ours(pool: PoolKind, bytes: u64) -> Result<Mount, Error> {
        let host = Host::mounted(&Disk::packed(pool), bytes)?;
        let looped = Looped::new(&host.file())?;
        let node = looped.node.clone();
        Mount::new(node, Device::Ours { _looped: looped, host })
    }

    /// Creates an empty file system on a zram device of the kernel that uses lz4.
    pub(super) fn kernels(bytes: u64) -> Result<Rival<Mount>, Error> {
        let device = KernelZram::acquire("lz4", bytes)?;
        device.try_map(|device| Mount::new(device.node(), Device::Kernels(device)))
    }

    fn new(node: PathBuf, device: Device) -> Result<Mount, Error> {
        make_ext4(&node)?;
        let mounted = Mounted::new(&node, &["-o", "discard"])?;
        Ok(Mount { mounted, node, device })
    }

    /// Syncs the file system and discards all freed blocks. Returns the amounts of data that are
    /// then on the device.
    pub(super) fn holds(&self) -> Result<Holds, Error> {
        self.mounted.settle()?;
        // A device of uzram moves objects in the background, so its memory settles only after a
        // while.
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

    /// Compacts the pool of the kernel's device. Does nothing for a device of uzram.
    pub(super) fn compact(&self) -> Result<(), Error> {
        match &self.device {
            Device::Ours { .. } => Ok(()),
            Device::Kernels(device) => device.compact(),
        }
    }

    /// Mounts the disk again, so that none of its data remain in the page cache.
    pub(super) fn again(self) -> Result<Mount, Error> {
        let Mount { mounted, node, device } = self;
        drop(mounted);
        let mounted = Mounted::new(&node, &["-o", "discard"])?;
        Ok(Mount { mounted, node, device })
    }
}
