//! Cold data in `uzram fill`: writes idle pages back to the backing store, and saves the device to
//! a file.

use crate::backing::{backing_failed, backing_store};
use crate::error::Error;
use crate::policy::SIGNAL_TICK;
use clap::Args;
use measure::Interrupt;
use serde::Serialize;
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use zram::{Config, Device, SaveOptions, SaveTo, Selection, Which, Zram};

/// The options for cold data.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ColdArgs {
    /// Save the device to FILE after all pages were read back; an existing file is replaced when
    /// the new one is complete
    #[arg(long, value_name = "FILE")]
    pub(super) save: Option<PathBuf>,
    /// After everything is stored, write idle pages back to FILE, and free their memory; FILE is a
    /// new file, which is removed at the end, or a block device, whose contents are lost
    #[arg(long, value_name = "FILE")]
    backing: Option<PathBuf>,
    /// With --backing, write back only pages that were stored more than SECONDS ago [default: all]
    #[arg(long, value_name = "SECONDS", requires = "backing")]
    idle_after: Option<u32>,
}

/// The results of the write-back and the save.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct ColdReport {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) written_back_pages: Option<u64>,
    /// The bytes of the backing store in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) backing_bytes: Option<u64>,
    /// The size of the saved file in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) saved_bytes: Option<u64>,
}

impl ColdArgs {
    /// Sets up a backing store for a device of `bytes` bytes. Called before the device is created.
    pub(crate) fn prepare(&self, zram: &Zram, bytes: u64) -> Result<(), Error> {
        let Some(path) = &self.backing else { return Ok(()) };
        let store = backing_store(path, bytes)?;
        zram.configure("backing_dev", |settings: &mut Config| {
            settings.backing = Some(store);
            settings.track_access |= self.idle_after.is_some();
            Ok(())
        })?;
        Ok(())
    }

    /// Writes back the idle pages. Called after everything is stored.
    pub(crate) fn write_back(
        &self,
        device: &Device,
        interrupt: &Interrupt,
        report: &mut ColdReport,
    ) -> Result<(), Error> {
        let Some(path) = &self.backing else { return Ok(()) };
        match self.idle_after {
            None => device.mark_idle()?,
            Some(seconds) => device.mark_idle_older(seconds.into())?,
        }
        let done = unless_interrupted(device, interrupt, || {
            device.write_back(&Selection::of(Which::Idle))
        })?;
        let done =
            done.map_err(|why| backing_failed(path, "", why, "make room, or name another file"))?;
        report.written_back_pages = Some(done.slots);
        report.backing_bytes = Some(device.bd_stat().bd_count * zram::SLOT_BYTES as u64);
        Ok(())
    }

    /// Saves the device.
    pub(crate) fn save(
        &self,
        device: &Device,
        interrupt: &Interrupt,
        report: &mut ColdReport,
    ) -> Result<(), Error> {
        if let Some(path) = &self.save {
            let saved = unless_interrupted(device, interrupt, || {
                device.save(SaveTo::File(path), &SaveOptions::default())
            })?;
            let saved = saved.map_err(|error| {
                Error::Failed(format!("--save: {error}; a file that was there before is unchanged"))
            })?;
            saved.in_part(path).map_or(Ok(()), |lacks| Err(Error::Device(lacks)))?;
            report.saved_bytes = Some(saved.bytes);
        }
        Ok(())
    }
}

/// Executes a job on the device, and cancels the job on an interrupt.
fn unless_interrupted<T>(
    device: &Device,
    interrupt: &Interrupt,
    job: impl FnOnce() -> Result<T, zram::Error>,
) -> Result<Result<T, zram::Error>, Error> {
    let (over, told) = mpsc::channel::<()>();
    let done = thread::scope(|scope| {
        let watch = move || {
            while told.recv_timeout(SIGNAL_TICK) == Err(RecvTimeoutError::Timeout) {
                if interrupt.is_set() {
                    device.cancel_job();
                }
            }
        };
        // If the thread can't be started, an interrupt does not cancel the job, but a second
        // interrupt ends the process.
        let _ = thread::Builder::new().spawn_scoped(scope, watch);
        // Dropping `_over` ends the thread, even if the job panics.
        let _over = over;
        job()
    });
    interrupt.check()?;
    Ok(done)
}
