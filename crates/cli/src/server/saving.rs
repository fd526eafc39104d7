//! Saving the device when its server ends, to one location or another, until it is done or another
//! signal gives it up.

use super::headroom::STACK;
use super::locations::SaveLocation;
use super::save_file::SaveFile;
use super::signals::Signals;
use super::turn::Turn;
use crate::error::{Error, saved_in_part};
use crate::log::log;
use crate::restore::lost_lines;
use measure::text::{counted, escaped, human};
use rustix::io::Errno;
use serve::spawn;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};
use zram::{JobKind, JobStat, Open, Saved};

/// How often it is looked for signals, and told how far it is.
const TICK: Duration = Duration::from_millis(20);
const LOGGED_EVERY: Duration = Duration::from_secs(10);

/// How long it is waited for a save that is given up.
const GIVEN_UP_WITHIN: Duration = Duration::from_secs(1);

/// How long it is waited for a job that is to give up, as one that waits for the backing store may
/// not.
const JOB_WITHIN: Duration = Duration::from_secs(5);

/// A save that comes no further in this time is stuck; so long may it take to bring a file to a
/// slow disk.
const STUCK_AFTER: Duration = Duration::from_secs(300);

/// How long it is waited before all locations are tried again: so long at first, twice as long each
/// time, up to this.
const AGAIN_AFTER: Duration = Duration::from_secs(5);
const AGAIN_AFTER_MAX: Duration = Duration::from_secs(60);

/// Why it is not at a location.
enum NotSaved {
    GivenUp,
    /// In words, and whether what comes to the same file system would fail as well.
    Failed {
        why: String,
        is_of_all: bool,
    },
}

/// Saves, when no client can be told any more that something is stored, and it is the server's
/// turn: to `save_file`, the first of `locations`, if that can be. One of `signals` gives
/// it up; until then it is tried.
pub(super) fn save(
    device: &Arc<Open>,
    save_file: &SaveFile,
    locations: &[SaveLocation],
    (signals, turn): (&Signals, &Turn),
) -> Result<(), Error> {
    let file = save_file.path();
    log!(
        "saving to '{}'; another SIGTERM, SIGINT or SIGQUIT ends the save, and the disk is lost",
        escaped(file)
    );
    if !end_others(device, signals, turn) {
        return Err(given_up(file));
    }
    if turn.cuts_a_restore_off() {
        save_file.leave();
        log!(
            "a restore was interrupted, so the disk is incomplete; '{}' is not replaced",
            escaped(file)
        );
    }
    let mut pause = AGAIN_AFTER;
    loop {
        let (mut failures, mut full) = (Vec::new(), Vec::new());
        for location in locations.iter() {
            if full.contains(&&location.directory) {
                continue;
            }
            let saved = location.file().map_err(|why| NotSaved::Failed { why, is_of_all: false });
            match saved.and_then(|(to, _lock)| {
                Ok((save_to(device, &to, location.is_free(&to), signals)?, to))
            }) {
                Ok((saved, to)) => return end(file, &saved, to, &failures),
                Err(NotSaved::GivenUp) => return Err(given_up(file)),
                Err(NotSaved::Failed { why, is_of_all }) => {
                    full.extend(is_of_all.then_some(&location.directory));
                    failures.push(why);
                }
            }
        }
        log!(
            "the disk could not be saved to '{}', nor elsewhere: {}; it stays in memory, and the \
             save is tried again in {} s, until another signal ends the server; make room, make \
             the directory writable, or save it elsewhere with 'uzram save'",
            escaped(file),
            failures.join("; "),
            pause.as_secs()
        );
        extend_timeout(pause + LOGGED_EVERY);
        match wait(device, signals, turn, pause) {
            Wait::Over => {}
            Wait::Saved(to, saved) => return end(file, &saved, to, &failures),
            Wait::GivenUp => return Err(given_up(file)),
        }
        pause = (2 * pause).min(AGAIN_AFTER_MAX);
    }
}

/// Another signal came.
fn given_up(file: &Path) -> Error {
    Error::Failed(format!(
        "the disk was not saved to '{}' and is lost, because another signal ended the save; a file \
         that was there before is unchanged",
        escaped(file)
    ))
}

/// Ends what was asked for while the disk was served, or gives it up; false if that is given up
/// itself.
fn end_others(device: &Open, signals: &Signals, turn: &Turn) -> bool {
    let begun = Instant::now();
    while turn.has_others() {
        device.cancel_job();
        if signals.is_given_up_within(TICK) {
            return false;
        }
        if begun.elapsed() > JOB_WITHIN {
            give_up_job(device, Duration::ZERO);
            break;
        }
    }
    true
}

fn give_up_job(device: &Open, within: Duration) {
    if !device.give_up_job(within) {
        log!("a job that was under way does not end, and is abandoned");
    }
}

/// What ends the wait for another try.
enum Wait {
    Over,
    /// Someone had it saved there, whole.
    Saved(PathBuf, Saved),
    GivenUp,
}

/// Waits for `pause`, and for a save by a client until it has ended.
fn wait(device: &Open, signals: &Signals, turn: &Turn, pause: Duration) -> Wait {
    let (begun, mut told, mut watch) = (Instant::now(), Instant::now(), Watch::new(device));
    turn.leave();
    loop {
        let gives_up = signals.is_given_up_within(TICK);
        if let Some((to, saved)) = turn.saved() {
            return Wait::Saved(to, saved);
        }
        if gives_up {
            return Wait::GivenUp;
        }
        let is_stuck = watch.is_stuck(device);
        if begun.elapsed() > pause && turn.take(is_stuck) {
            return Wait::Over;
        }
        if device.job().is_some() {
            log_progress(device, &mut told);
        }
    }
}

/// How far the job under way is, and since when.
struct Watch {
    reached: Option<JobStat>,
    since: Instant,
}

impl Watch {
    fn new(device: &Open) -> Self {
        Watch { reached: device.job(), since: Instant::now() }
    }

    /// Returns whether it came no further for long.
    fn is_stuck(&mut self, device: &Open) -> bool {
        let now = device.job();
        if now != self.reached {
            (self.reached, self.since) = (now, Instant::now());
        }
        self.since.elapsed() > STUCK_AFTER
    }
}

/// What is told of a disk that is saved: that something is missing, or that it is not where it was
/// to be, is no success.
fn end(file: &Path, saved: &Saved, to: PathBuf, failures: &[String]) -> Result<(), Error> {
    log!("saved {} in {}", counted(saved.slots, "page"), human(saved.bytes));
    lost_lines(&saved.lost).lines().for_each(|line| log!("{line}"));
    if let Some(before) = &saved.before {
        log!("the file that was there before is kept as '{}'", escaped(before));
    }
    let lacks = (!saved.is_whole()).then(|| saved_in_part(saved.lost_slots, &to));
    if to == file || is_same(&to, file) {
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

/// Returns whether two paths lead to one file.
fn is_same(one: &Path, other: &Path) -> bool {
    let number = |path| fs::metadata(path).ok().map(|of| (of.dev(), of.ino()));
    number(one).is_some() && number(one) == number(other)
}

/// Saves to a file.
fn save_to(
    device: &Arc<Open>,
    path: &Path,
    is_free: impl Fn() -> bool + Send + Sync + 'static,
    signals: &Signals,
) -> Result<Saved, NotSaved> {
    let is_free = Arc::new(is_free);
    let (tell, ended) = mpsc::channel();
    let saves = {
        let (device, path) = (device.clone(), path.to_owned());
        let is_free = is_free.clone();
        move || drop(tell.send(save_alone(&device, &path, &*is_free)))
    };
    if spawn("save", STACK, saves).is_err() {
        // Nobody is there to give it up then.
        return done(save_alone(device, path, &*is_free));
    }
    let (mut told, mut given_up) = (Instant::now(), None);
    let mut watch = Watch::new(device);
    loop {
        match ended.recv_timeout(TICK) {
            Ok(Err(zram::Error::Cancelled)) if given_up.is_some() => break,
            Ok(saved) => return done(saved),
            Err(RecvTimeoutError::Timeout) => log_progress(device, &mut told),
            Err(RecvTimeoutError::Disconnected) => {
                let why = format!("'{}': {}", escaped(path), Error::worker());
                return Err(NotSaved::Failed { why, is_of_all: false });
            }
        }
        if watch.is_stuck(device) {
            device.give_up_job(GIVEN_UP_WITHIN);
            let why = format!("'{}': writing there has made no progress for 300 s", escaped(path));
            return Err(NotSaved::Failed { why, is_of_all: true });
        }
        if signals.is_given_up() {
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
    Err(NotSaved::GivenUp)
}

fn done(done: Result<Saved, zram::Error>) -> Result<Saved, NotSaved> {
    done.map_err(|error| {
        let of_all = [Errno::NOSPC, Errno::DQUOT, Errno::IO];
        let is_of_all = of_all.contains(&Errno::from_raw_os_error(error.errno()));
        NotSaved::Failed { why: error.to_string(), is_of_all }
    })
}

/// Saves when no other job is under way any more, or it is given up: there will be none that
/// begins.
fn save_alone(
    device: &Open,
    path: &Path,
    is_free: &dyn Fn() -> bool,
) -> Result<Saved, zram::Error> {
    loop {
        give_up_job(device, JOB_WITHIN);
        match device.save_if(path, is_free) {
            Err(zram::Error::Busy) => {}
            done => return done,
        }
    }
}

/// Tells people now and then, and systemd that it must wait.
fn log_progress(device: &Open, told: &mut Instant) {
    if told.elapsed() < LOGGED_EVERY {
        return;
    }
    *told = Instant::now();
    extend_timeout(3 * LOGGED_EVERY);
    match device.job() {
        Some(job) if job.kind == JobKind::Save && job.done < job.of => {
            log!("{}% of the disk is saved", job.done * 100 / job.of.max(1));
        }
        Some(job) if job.kind == JobKind::Save => log!("syncing the saved file to disk"),
        _ => log!("waiting for another job to end"),
    }
}

fn extend_timeout(by: Duration) {
    let patience = u32::try_from(by.as_micros()).unwrap_or(u32::MAX);
    // Nobody may be waiting for it.
    let _ = sd_notify::notify(&[sd_notify::NotifyState::ExtendTimeoutUsec(patience)]);
}
