//! Tries to save the device to one location. An attempt without progress is abandoned.

use crate::error::Error;
use crate::log::log;
use crate::policy::{GIVEN_UP_WITHIN, JOB_WITHIN, LOGGED_EVERY, SIGNAL_TICK, STACK, STUCK_AFTER};
use crate::server::signals::Signals;
use crate::text::escaped;
use rustix::io::Errno;
use serve::spawn;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};
use zram::{JobKind, JobStat, Open, SaveOptions, SaveTo, Saved};

/// The reason why the disk was not saved to a location.
pub(super) struct NotSaved {
    pub(super) why: String,
    /// True if other locations in the same directory would fail too.
    pub(super) is_of_dir: bool,
}

/// Saves to the file at `path` on another thread, so that this thread can abandon a save that
/// hangs. Returns `None` if a signal cancels the save.
pub(super) fn save_to(
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
        // The other thread could not be started, so this thread saves the disk. No signal can
        // cancel this save.
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
            // A save that hangs in a system call ends only when the process ends.
            if since.elapsed() > GIVEN_UP_WITHIN {
                return None;
            }
        }
    }
}

fn done(done: Result<Saved, zram::Error>) -> Result<Saved, NotSaved> {
    done.map_err(|error| {
        let of_dir = [Errno::NOSPC, Errno::DQUOT, Errno::IO];
        let is_of_dir = of_dir.contains(&Errno::from_raw_os_error(error.errno()));
        NotSaved { why: error.to_string(), is_of_dir }
    })
}

/// Cancels or abandons the running job, and saves. During the server's turn, no client can begin
/// another job.
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

/// Cancels the running job, and abandons the job if it runs longer than `within`.
pub(super) fn give_up_job(device: &Open, within: Duration) {
    if !device.give_up_job(within) {
        log!(
            "the job that was under way did not end in time, and is abandoned so that the disk can \
             be saved; look at the backing store ('dmesg'), as a request to it may hang"
        );
    }
}

/// The progress of the running job, and the time of its last change.
pub(super) struct Watch {
    reached: Option<JobStat>,
    since: Instant,
}

impl Watch {
    pub(super) fn new(device: &Open) -> Self {
        Watch { reached: device.job(), since: Instant::now() }
    }

    /// Returns whether the job has made no progress for `STUCK_AFTER`.
    pub(super) fn is_stuck(&mut self, device: &Open) -> bool {
        let now = device.job();
        if now != self.reached {
            (self.reached, self.since) = (now, Instant::now());
        }
        self.since.elapsed() > STUCK_AFTER
    }
}

/// Logs the progress of the job and extends systemd's timeout, at most once per LOGGED_EVERY.
pub(super) fn log_progress(device: &Open, logged: &mut Instant) {
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

/// Asks systemd to wait for `by` before it kills the server.
pub(super) fn extend_timeout(by: Duration) {
    let patience = u32::try_from(by.as_micros()).unwrap_or(u32::MAX);
    // The call fails if no service manager waits, which is no error.
    let _ = sd_notify::notify(&[sd_notify::NotifyState::ExtendTimeoutUsec(patience)]);
}
