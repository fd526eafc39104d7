//! Saves the device when its server ends. The server tries all locations repeatedly, until the
//! device is saved or another signal cancels the save.

use super::locations::SaveLocation;
use super::save_file::SaveFile;
use super::signals::Signals;
use super::turn::Turn;
use crate::error::{Error, saved_in_part};
use crate::log::log;
use crate::output;
use crate::policy::{
    AGAIN_AFTER, AGAIN_AFTER_MAX, GIVEN_UP_WITHIN, JOB_WITHIN, LOGGED_EVERY, SIGNAL_TICK, STACK,
    STUCK_AFTER,
};
use crate::restore::lost_lines;
use crate::text::{counted, escaped, human};
use rustix::io::Errno;
use serve::spawn;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};
use zram::{JobKind, JobStat, Open, SaveOptions, SaveTo, Saved};

/// The reason why the disk was not saved to a location.
struct NotSaved {
    why: String,
    /// True if other locations in the same directory would fail too.
    is_of_dir: bool,
}

/// Saves the device to `save_file`, the first of `locations`, or else to another location. Retries
/// until a save succeeds or one of `signals` cancels the save. The caller has acknowledged the last
/// write, and it is the server's turn to save.
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

/// Saves the device as [`save`] does. Returns the file, the result, and the reasons why other
/// locations failed; or `None` if a signal cancels the save.
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

/// Cancels the jobs that clients began while the disk was served, and waits until they have ended;
/// abandons the jobs if that takes too long. Returns `None` if a signal cancels the save during the
/// wait.
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

/// Cancels the running job, and abandons the job if it does not end within the time `within`.
fn give_up_job(device: &Open, within: Duration) {
    if !device.give_up_job(within) {
        log!(
            "the job that was under way did not end in time, and is abandoned so that the disk can \
             be saved; look at the backing store ('dmesg'), as a request to it may hang"
        );
    }
}

/// Waits for `pause`, then until a client's running save has ended or is stuck. Returns the file to
/// which a client has saved the whole disk, if one has; or `None` if a signal cancels the save.
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

/// The progress of the running job, and the time since which it has not changed.
struct Watch {
    reached: Option<JobStat>,
    since: Instant,
}

impl Watch {
    fn new(device: &Open) -> Self {
        Watch { reached: device.job(), since: Instant::now() }
    }

    /// Returns whether the job has made no progress for too long.
    fn is_stuck(&mut self, device: &Open) -> bool {
        let now = device.job();
        if now != self.reached {
            (self.reached, self.since) = (now, Instant::now());
        }
        self.since.elapsed() > STUCK_AFTER
    }
}

/// Logs the result of a save. If data are missing, or if the disk was not saved to `file`, returns
/// an error, which the server's exit status reports.
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

/// Saves to the file at `path` on a separate thread, so that a save that hangs can be abandoned.
/// Returns `None` if a signal cancels the save.
fn save_to(
    device: &Arc<Open>,
    path: &Path,
    is_free: impl Fn() -> bool + Send + Sync + 'static,
    signals: &Signals,
) -> Option<Result<Saved, NotSaved>> {
    let is_free = Arc::new(is_free);
    let (sender, ended) = mpsc::channel();
    let saves = {
        let (device, path) = (device.clone(), path.to_owned());
        let is_free = is_free.clone();
        move || drop(sender.send(save_alone(&device, &path, &*is_free)))
    };
    if spawn("save", STACK, saves).is_err() {
        // If this thread itself saves the disk, no signal can cancel the save.
        return Some(done(save_alone(device, path, &*is_free)));
    }
    let (mut logged, mut given_up) = (Instant::now(), None);
    let mut watch = Watch::new(device);
    loop {
        match ended.recv_timeout(SIGNAL_TICK) {
            Ok(Err(zram::Error::Cancelled)) if given_up.is_some() => return None,
            Ok(saved) => return Some(done(saved)),
            Err(RecvTimeoutError::Timeout) => log_progress(device, &mut logged),
            Err(RecvTimeoutError::Disconnected) => {
                let why = format!("'{}': {}", escaped(path), Error::worker());
                return Some(Err(NotSaved { why, is_of_dir: false }));
            }
        }
        if watch.is_stuck(device) {
            device.give_up_job(GIVEN_UP_WITHIN);
            let why = format!("'{}': writing there has made no progress for 300 s", escaped(path));
            return Some(Err(NotSaved { why, is_of_dir: true }));
        }
        if signals.is_given_up_within(Duration::ZERO) {
            given_up.get_or_insert_with(Instant::now);
        }
        if let Some(since) = given_up {
            device.cancel_job();
            // A save that hangs in a system call ends with the process.
            if since.elapsed() > GIVEN_UP_WITHIN {
                return None;
            }
        }
    }
}

/// Converts the result of a save to one location.
fn done(done: Result<Saved, zram::Error>) -> Result<Saved, NotSaved> {
    done.map_err(|error| {
        let of_dir = [Errno::NOSPC, Errno::DQUOT, Errno::IO];
        let is_of_dir = of_dir.contains(&Errno::from_raw_os_error(error.errno()));
        NotSaved { why: error.to_string(), is_of_dir }
    })
}

/// Saves as soon as no other job runs; abandons a job that does not end. During the server's turn,
/// no client can begin another job.
fn save_alone(
    device: &Open,
    path: &Path,
    is_free: &dyn Fn() -> bool,
) -> Result<Saved, zram::Error> {
    loop {
        give_up_job(device, JOB_WITHIN);
        match device.save(SaveTo::FileIf(path, is_free), &SaveOptions::default()) {
            Err(zram::Error::Busy) => {}
            done => return done,
        }
    }
}

/// Logs the progress of the job, and extends systemd's timeout, each time that LOGGED_EVERY has
/// passed.
fn log_progress(device: &Open, logged: &mut Instant) {
    if logged.elapsed() < LOGGED_EVERY {
        return;
    }
    *logged = Instant::now();
    extend_timeout(3 * LOGGED_EVERY);
    match device.job() {
        Some(job) if job.kind == JobKind::Save && job.done < job.of => {
            log!("{}% of the disk is saved", job.done * 100 / job.of.max(1));
        }
        Some(job) if job.kind == JobKind::Save => log!("syncing the saved file to disk"),
        _ => log!("waiting for another job to end"),
    }
}

/// Asks systemd to wait `by` longer before it ends the server by force.
fn extend_timeout(by: Duration) {
    let patience = u32::try_from(by.as_micros()).unwrap_or(u32::MAX);
    // The call fails only if no service manager waits.
    let _ = sd_notify::notify(&[sd_notify::NotifyState::ExtendTimeoutUsec(patience)]);
}
