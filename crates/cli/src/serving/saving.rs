//! Saving the device when its server ends, until it is done or a second signal gives it up.

use super::room::STACK;
use crate::error::{Error, escaped};
use crate::say::say;
use crate::units::{counted, human};
use std::ffi::c_int;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};
use zram::{Open, Saved};

/// How often it is looked for signals, and told how far it is.
const TICK: Duration = Duration::from_millis(20);
const TOLD_EVERY: Duration = Duration::from_secs(10);

/// How long it is waited for a save that is given up.
const GIVEN_UP_WITHIN: Duration = Duration::from_secs(1);

/// How long it is waited for a job that gives up.
const PAUSE: Duration = Duration::from_millis(10);

/// Saves, when no client can be told any more that something is stored. One of `signals` gives it up.
pub(super) fn save(
    device: &Arc<Open>,
    path: &Path,
    signals: &Receiver<c_int>,
) -> Result<(), Error> {
    say!("saving to '{}'; another signal gives it up", escaped(path));
    let (tell, ended) = mpsc::channel();
    let saves = {
        let (device, path, tell) = (device.clone(), path.to_owned(), tell.clone());
        move || tell.send(save_alone(&device, &path))
    };
    let named = thread::Builder::new().name("save".to_owned()).stack_size(STACK);
    // Without one nobody tells how far it is, or gives it up; but it is done.
    if named.spawn(saves).is_err() {
        let _ = tell.send(save_alone(device, path));
    }
    drop(tell);
    let (mut told, mut given_up) = (Instant::now(), None);
    loop {
        match ended.recv_timeout(TICK) {
            Ok(Ok(saved)) => {
                let bytes = human(i64::try_from(saved.bytes).unwrap_or(i64::MAX));
                say!("saved {} in {bytes}", counted(saved.slots, "page"));
                return Ok(());
            }
            Ok(Err(zram::Error::Cancelled)) if given_up.is_some() => break,
            Ok(Err(source)) => {
                return Err(Error::SaveOnExit { path: path.to_owned(), source });
            }
            Err(RecvTimeoutError::Timeout) => tell_progress(device, &mut told),
            Err(RecvTimeoutError::Disconnected) => return Err(Error::Worker),
        }
        if signals.try_recv().is_ok() {
            given_up.get_or_insert_with(Instant::now);
        }
        if let Some(since) = given_up {
            device.cancel_job();
            // What the system or a backing store keeps waiting ends with the process.
            if since.elapsed() > GIVEN_UP_WITHIN {
                break;
            }
        }
    }
    Err(Error::SaveGivenUp { path: path.to_owned() })
}

/// Saves when no other job is under way any more: there will be none that begins.
fn save_alone(device: &Open, path: &Path) -> Result<Saved, zram::Error> {
    loop {
        match device.save(path) {
            Err(zram::Error::Busy) => {
                device.cancel_job();
                thread::sleep(PAUSE);
            }
            done => return done,
        }
    }
}

/// Tells people now and then, and systemd that it must wait.
fn tell_progress(device: &Open, told: &mut Instant) {
    if told.elapsed() < TOLD_EVERY {
        return;
    }
    *told = Instant::now();
    let patience = u32::try_from((3 * TOLD_EVERY).as_micros()).unwrap_or(u32::MAX);
    // Nobody may be waiting for it.
    let _ = sd_notify::notify(&[sd_notify::NotifyState::ExtendTimeoutUsec(patience)]);
    match device.job() {
        Some(job) => {
            say!("{}% of the disk is saved", job.done * 100 / job.of.max(1));
        }
        None => say!("the saved file is brought to disk"),
    }
}
