//! Saves the device at the server's end. The server tries all locations repeatedly, until it has
//! saved the device or a signal cancels the save.

mod attempt;

use super::locations::SaveLocation;
use super::save_file::SaveFile;
use super::signals::Signals;
use super::turn::Turn;
use crate::error::{Error, saved_in_part};
use crate::log::log;
use crate::output;
use crate::policy::{AGAIN_AFTER, AGAIN_AFTER_MAX, JOB_WITHIN, LOGGED_EVERY, SIGNAL_TICK};
use crate::restore::lost_lines;
use crate::text::{counted, escaped, human};
use attempt::{NotSaved, Watch, extend_timeout, give_up_job, log_progress, save_to};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use zram::{Open, Saved};

/// Saves the device to one of `locations`, of which `save_file` is the first. Retries until a save
/// succeeds or one of `signals` cancels the save. Call this function after the server has
/// acknowledged its last write, during the server's turn.
pub(super) fn save(
    device: &Arc<Open>,
    save_file: &SaveFile,
    locations: &[SaveLocation],
    (signals, turn): (&Signals, &Turn),
) -> Result<(), Error> {
    let file = &save_file.path;
    log!(
        "saving to '{}'; another SIGTERM, SIGINT or SIGQUIT ends the save, and the disk is lost",
        escaped(file)
    );
    match save_anywhere(device, save_file, locations, (signals, turn)) {
        Some((to, saved, failures)) => end(file, &saved, to, &failures),
        None => Err(Error::Failed(format!(
            "the disk was not saved to '{}' and is lost, because another signal ended the save; a \
             file that was there before is unchanged",
            escaped(file)
        ))),
    }
}

/// Saves the device as [`save`] does. Returns the saved file, the result of its save, and the
/// reasons why other locations failed. Returns `None` if a signal cancels the save.
fn save_anywhere(
    device: &Arc<Open>,
    save_file: &SaveFile,
    locations: &[SaveLocation],
    (signals, turn): (&Signals, &Turn),
) -> Option<(PathBuf, Saved, Vec<String>)> {
    end_client_jobs(device, signals, turn)?;
    let file = escaped(&save_file.path);
    if turn.interrupted_restore() {
        save_file.protect();
        log!("a restore was interrupted, so the disk is incomplete; '{file}' is not replaced");
    }
    let mut pause = AGAIN_AFTER;
    loop {
        let (mut failures, mut full) = (Vec::new(), Vec::new());
        for location in locations.iter() {
            if full.contains(&&location.directory) {
                continue;
            }
            let failed = match location.file() {
                Ok((to, _lock)) => match save_to(device, &to, location.is_free(&to), signals)? {
                    Ok(saved) => return Some((to, saved, failures)),
                    Err(failed) => failed,
                },
                Err(why) => NotSaved { why, is_of_dir: false },
            };
            full.extend(failed.is_of_dir.then_some(&location.directory));
            failures.push(failed.why);
        }
        log!(
            "the disk could not be saved to '{file}', nor elsewhere: {}; make room, make the \
             directory writable, or save it elsewhere with 'uzram save'; it stays in memory, and \
             the save is tried again in {} s; another signal ends the server, and the disk is lost",
            failures.join("; "),
            pause.as_secs()
        );
        extend_timeout(pause + LOGGED_EVERY);
        if let Some((to, saved)) = wait(device, signals, turn, pause)? {
            return Some((to, saved, failures));
        }
        pause = (2 * pause).min(AGAIN_AFTER_MAX);
    }
}

/// Cancels the jobs that clients began while the disk was served, and waits until the jobs have
/// ended. Abandons the running job after `JOB_WITHIN`. Returns `None` if a signal cancels the save
/// during the wait.
fn end_client_jobs(device: &Open, signals: &Signals, turn: &Turn) -> Option<()> {
    let begun = Instant::now();
    while turn.has_client_jobs() {
        device.cancel_job();
        if signals.is_given_up_within(SIGNAL_TICK) {
            return None;
        }
        if begun.elapsed() > JOB_WITHIN {
            give_up_job(device, Duration::ZERO);
            break;
        }
    }
    Some(())
}

/// Offers the turn to clients for `pause`, and then waits for a client's running save until it ends
/// or is stuck. Returns the file to which a client has saved the whole disk, if one has. Returns
/// the outer `None` if a signal cancels the save.
fn wait(
    device: &Open,
    signals: &Signals,
    turn: &Turn,
    pause: Duration,
) -> Option<Option<(PathBuf, Saved)>> {
    let (begun, mut logged, mut watch) = (Instant::now(), Instant::now(), Watch::new(device));
    turn.offer();
    loop {
        let gives_up = signals.is_given_up_within(SIGNAL_TICK);
        let saved = turn.saved();
        if saved.is_some() || gives_up {
            return saved.map(Some);
        }
        let is_stuck = watch.is_stuck(device);
        if begun.elapsed() > pause && turn.take(is_stuck) {
            return Some(None);
        }
        if device.job().is_some() {
            log_progress(device, &mut logged);
        }
    }
}

/// Logs the result of a save. Fails if data are missing or if the disk was not saved to `file`, so
/// that the server's exit code is not 0.
fn end(file: &Path, saved: &Saved, to: PathBuf, failures: &[String]) -> Result<(), Error> {
    log!("saved {} in {}", counted(saved.slots, "page"), human(saved.bytes));
    lost_lines(&saved.lost).lines().for_each(|line| log!("{line}"));
    if let Some(before) = &saved.before {
        log!("the file that was there before is kept as '{}'", escaped(before));
    }
    let lacks = (!saved.is_whole()).then(|| saved_in_part(saved.lost_slots, &to));
    if to == file || output::is_same(&to, file) {
        return lacks.map_or(Ok(()), Err);
    }
    lacks.inspect(|lacks| log!("{lacks}"));
    Err(Error::Failed(format!(
        "the disk could not be saved to '{}': {}; it is saved to '{}' instead: restore it from \
         there, and give --save-on-exit another path",
        escaped(file),
        failures.join("; "),
        escaped(&to)
    )))
}
