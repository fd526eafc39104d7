//! The operations on a served disk that clients of the control socket and of the mount can request.

use super::save_file::SaveFile;
use super::turn::Turn;
use crate::admin::metrics;
use crate::status::{ServerStatus, Stat};
use crate::text::{counted, escaped, json_line};
use rustix::io::Errno;
use serve::control::{Refusal, Steered};
use serve::nbd::Server;
use serve::own::{self, Clients};
use std::path::Path;
use std::sync::Arc;
use zram::{Damage, Open, Restored, SaveOptions, SaveTo, Saved, Zram};

/// A served disk, with its NBD server.
pub(super) struct Served {
    pub(super) status: ServerStatus,
    pub(super) zram: Arc<Zram>,
    pub(super) disk: Arc<Open>,
    pub(super) nbd: Server,
    /// The file to which the server saves the disk at its end.
    pub(super) save_file: Option<Arc<SaveFile>>,
    /// Determines whether it is the server's or a client's turn to save the disk at the server's
    /// end.
    pub(super) turn: Arc<Turn>,
}

impl Served {
    pub(super) fn metrics(&self) -> String {
        self.look().as_ref().map(metrics::text).unwrap_or_default()
    }

    /// Returns the current status, or `None` while the device is being created again.
    fn look(&self) -> Option<Stat> {
        self.status.stat(&self.zram, self.nbd.connections())
    }
}

impl Steered for Served {
    fn zram(&self) -> &Zram {
        &self.zram
    }

    fn stat(&self) -> String {
        self.look().as_ref().map(json_line).unwrap_or_default()
    }

    fn save(&self, path: &Path) -> Result<Saved, Refusal> {
        if !path.is_absolute() {
            let path = escaped(path);
            let message = format!(
                "'{path}' is a relative path, and the server may run in another directory; give an \
                 absolute path"
            );
            return Err(Refusal::new(Errno::INVAL, message));
        }
        let clients = if self.nbd.connections() > 0 { Clients::Some } else { Clients::None };
        if let Some(why) = own::lies_on_disk(path, clients) {
            return Err(Refusal::new(Errno::DEADLK, why));
        }
        self.turn.save(path, || {
            let saved = self.disk.save(SaveTo::File(path), &SaveOptions::default())?;
            self.save_file.iter().for_each(|save_file| save_file.note_saved(path));
            Ok(saved)
        })
    }

    fn restore(&self, path: &Path) -> Result<Restored, Refusal> {
        let in_use = |message: String| Refusal::new(Errno::BUSY, message);
        if self.status.mount.is_some() {
            let remedy = "restore it with 'uzram serve --restore', or serve it without --mount";
            return Err(in_use(format!(
                "the disk is mounted, and a restore would change it while it is in use; {remedy}"
            )));
        }
        let restored = || self.turn.restore(|| Ok(self.disk.restore(path, Damage::Refuse)?));
        self.nbd.alone(restored).map_err(|clients| {
            let clients = counted(clients as u64, "client");
            in_use(format!(
                "the disk is in use by {clients}, and a restore would change it while they use it; \
                 disconnect them first"
            ))
        })?
    }
}
