//! What `uzram fill` does with cold data: some are written back to a file, and all are saved to
//! another.

use crate::backing::{backing_failed, backing_store};
use crate::error::Error;
use crate::interrupt::Interrupt;
use clap::Args;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;
use zram::{Config, Device, Selection, Which, Zram};

/// How often it is looked whether an interrupt has come.
const TICK: Duration = Duration::from_millis(20);

/// The options.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ColdArgs {
    /// Save the device to FILE when everything is read back; an existing file is replaced when the
    /// new one is complete
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// When everything is stored, write idle pages back to FILE, so that they leave memory: a file
    /// that does not exist yet, of which nothing is left at the end, or a block device, whose
    /// contents are lost
    #[arg(long, value_name = "FILE")]
    backing: Option<PathBuf>,
    /// With --backing, only pages that were stored more than SECONDS before [default: all]
    #[arg(long, value_name = "SECONDS", requires = "backing")]
    idle_after: Option<u32>,
}

/// What was done.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct ColdReport {
    /// Pages that left memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) written_back_pages: Option<u64>,
    /// Bytes that the backing store has of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) backing_bytes: Option<u64>,
    /// Bytes of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) saved_bytes: Option<u64>,
}

impl ColdArgs {
    /// Gives the device to be a backing store for `bytes` bytes.
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

    /// Writes back what is idle when all is stored.
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

    /// Returns where the device is to be saved.
    pub(crate) fn saves_to(&self) -> Option<&Path> {
        self.save.as_deref()
    }

    /// Saves the device.
    pub(crate) fn save(
        &self,
        device: &Device,
        interrupt: &Interrupt,
        report: &mut ColdReport,
    ) -> Result<(), Error> {
        if let Some(path) = &self.save {
            let saved = unless_interrupted(device, interrupt, || device.save(path))?;
            let saved = saved.map_err(|error| {
                Error::Failed(format!("--save: {error}; a file that was there before is unchanged"))
            })?;
            saved.in_part(path).map_or(Ok(()), |lacks| Err(Error::Device(lacks)))?;
            report.saved_bytes = Some(saved.bytes);
        }
        Ok(())
    }
}

/// Does a job, and has it give up when the interrupt comes.
fn unless_interrupted<T>(
    device: &Device,
    interrupt: &Interrupt,
    job: impl FnOnce() -> Result<T, zram::Error>,
) -> Result<Result<T, zram::Error>, Error> {
    let (over, told) = mpsc::channel::<()>();
    let done = thread::scope(|scope| {
        let watch = move || {
            while told.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                if interrupt.is_set() {
                    device.cancel_job();
                }
            }
        };
        // Without it a second interrupt ends the process.
        let _ = thread::Builder::new().spawn_scoped(scope, watch);
        // It ends with the job, whatever becomes of that.
        let _over = over;
        job()
    });
    interrupt.check()?;
    Ok(done)
}
