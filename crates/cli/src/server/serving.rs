//! Starts and stops the servers of a disk: NBD, the control socket, metrics and the mount.

use super::save_file::SaveFile;
use super::served::Served;
use super::turn::Turn;
use crate::admin::passed::Passed;
use crate::args::ServeArgs;
use crate::error::{Error, no_room, no_thread};
use crate::log::log;
use crate::memory;
use crate::policy::{ROOM_OF_WRITES, SYNCED_WITHIN};
use crate::status::ServerStatus;
use crate::text::escaped;
use serve::control::Control;
use serve::fuse::{MountOptions, Mounted};
use serve::metrics::Metrics;
use serve::nbd::{Export, Exports, Mode, Server};
use serve::{Address, Listening, Log};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use zram::{Open, Zram};

/// A served disk and its servers.
pub(super) struct Serving {
    pub(super) served: Arc<Served>,
    control: Option<Control>,
    metrics: Option<Metrics>,
    log: Log,
    mounted: Option<Mounted>,
}

impl Serving {
    /// Creates the sockets, and starts the NBD server, which then acknowledges writes. Returns the
    /// other sockets for [`start_later`](Self::start_later).
    pub(super) fn start(
        (args, passed): (&ServeArgs, Passed),
        zram: Arc<Zram>,
        (save_file, turn): (Option<Arc<SaveFile>>, Arc<Turn>),
    ) -> Result<(Self, (Listening, Option<Listening>)), Error> {
        let disk = Arc::new(zram.open().map_err(Error::Device)?);
        if save_file.is_some() {
            disk.prepare_save().map_err(|_| no_room())?;
        }
        let (nbd, control, metrics) = passed.or_made(args)?;
        let status = ServerStatus {
            name: args.export.clone(),
            size: disk.disksize(),
            algorithm: zram.settings().algorithm.name(),
            mode: args.nbd_mode(),
            nbd: nbd.address().clone(),
            mount: args.mount.clone(),
            control: control.address().clone(),
            metrics: metrics.as_ref().map(|metrics| metrics.address().clone()),
        };
        warn_of_readers(&status);

        let log = Log::new(|line| log!("{line}"));
        let export = Export {
            name: args.export.clone(),
            description: "uzram, compressed memory".to_owned(),
            disk: disk.clone(),
            mode: args.nbd_mode(),
        };
        let room = memory::room().unwrap_or(u64::MAX);
        let exports = Exports::new([export]).with_write_max(room / ROOM_OF_WRITES);
        let nbd = Server::start(nbd, exports, args.options(), log.clone()).map_err(no_thread)?;
        let served = Arc::new(Served { status, zram, disk, nbd, save_file, turn });
        let serving = Serving { served, control: None, metrics: None, log, mounted: None };
        Ok((serving, (control, metrics)))
    }

    pub(super) fn start_later(
        &mut self,
        (control, metrics): (Listening, Option<Listening>),
    ) -> Result<(), Error> {
        let (served, log) = (&self.served, &self.log);
        let control = Control::start(control, served.clone(), log.clone()).map_err(no_thread)?;
        self.control = Some(control);
        let read = served.clone();
        let start = |at| Metrics::start(at, move || read.metrics(), log.clone());
        self.metrics = metrics.map(start).transpose().map_err(no_thread)?;
        Ok(())
    }

    /// Mounts the disk, if the arguments request it.
    pub(super) fn mount(&mut self, args: &ServeArgs) -> Result<(), Error> {
        let Some(dir) = &args.mount else { return Ok(()) };
        let (served, disk, log) = (self.served.clone(), self.served.disk.clone(), self.log.clone());
        let threads = args.options().workers;
        let options = MountOptions { mode: args.mode(), mapping: args.mapping(), threads };
        let mounted = Mounted::start(dir, served, disk, options, log);
        self.mounted = Some(mounted.map_err(|source| not_mounted(dir, &source))?);
        Ok(())
    }

    /// Writes the data of shared mappings from the kernel's cache to the disk. Fails if programs
    /// that use the mount may still hold data that they have not written.
    pub(super) fn check_unused(&self) -> Result<(), Error> {
        let Some(mounted) = &self.mounted else { return Ok(()) };
        mounted.sync(SYNCED_WITHIN);
        let holders = mounted.holders();
        if holders.is_empty() {
            return Ok(());
        }
        Err(Error::Failed(format!(
            "the disk was in use when the server ended: {}; data that these had not yet written \
             to the disk are missing from the saved file; before you end a server, unmount the \
             file systems on its disk, end swap on it, and detach its loop devices ('losetup -d')",
            holders.join("; ")
        )))
    }

    /// Disconnects all users of the disk, and cancels the running job. No write is acknowledged
    /// afterwards. Returns the disk, the control server, and whether a write may have been
    /// acknowledged. The control server still answers `stat` and saves the disk for clients. A
    /// client's write is possible even if the server did not start completely.
    pub(super) fn stop(self, until: Instant) -> (Arc<Open>, Option<Control>, bool) {
        let left = || until.saturating_duration_since(Instant::now());
        self.control.iter().for_each(Control::only_save);
        self.metrics.into_iter().for_each(Metrics::stop);
        let Served { disk, nbd, .. } = &*self.served;
        disk.cancel_job();
        let have_left = nbd.stop(left());
        // This is evaluated after the NBD server has stopped, because a client can connect until
        // then.
        let was_used = self.mounted.is_some() || nbd.was_used();
        let is_unmounted = self.mounted.is_none_or(|mounted| mounted.stop(left()));
        if !(have_left && is_unmounted) {
            // The threads of clients that are still connected end with the process.
            log!(
                "some clients did not disconnect in time; their requests fail from now on; \
                 disconnect clients before you end a server"
            );
        }
        (disk.clone(), self.control, was_used)
    }
}

fn not_mounted(dir: &Path, source: &io::Error) -> Error {
    match source.kind() {
        io::ErrorKind::OutOfMemory => no_room(),
        io::ErrorKind::Unsupported => Error::Failed(
            "--mmap needs Linux 6.6 or newer, because older kernels map no file of this mount \
             with MAP_SHARED; leave out --mmap"
                .to_owned(),
        ),
        _ => Error::Failed(format!(
            "can't mount at '{}': {source}; give an existing directory ('umount' what a killed \
             server left mounted there), and be root or install fuse3",
            escaped(dir)
        )),
    }
}

/// Logs a warning if other users can reach the disk or its metrics.
fn warn_of_readers(status: &ServerStatus) {
    let may = if status.mode == Mode::ReadOnly { "read" } else { "read and write" };
    match &status.nbd {
        Address::Unix(_) => {}
        address if address.is_local() => log!(
            "every user of this machine can {may} the disk through its TCP port; give --nbd \
             unix:PATH so that only this user can"
        ),
        address => log!(
            "everyone who can reach {address} over the network can {may} the disk, as NBD has no \
             authentication; give --nbd unix:PATH or a loopback address such as \
             tcp:127.0.0.1:10809, or let a firewall or a TLS proxy decide who reaches it"
        ),
    }
    if let Some(address) = status.metrics.as_ref().filter(|address| !address.is_local()) {
        log!("everyone who can reach {address} can read the metrics; give --metrics a port alone");
    }
}
