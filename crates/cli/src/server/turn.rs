//! Determines whether it is the server's or a client's turn to save the disk at the server's end.
//! While the server pauses between two attempts, the first client that requests a save gets the
//! turn. The server waits for the jobs that clients began earlier, because it needs their results.

use rustix::io::Errno;
use serve::control::Refusal;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use zram::Saved;

#[derive(Debug, Default)]
pub(super) struct Turn(Mutex<Now>);

#[derive(Debug, Default)]
struct Now {
    state: State,
    /// The number of running saves and restores that clients began while the disk was served.
    client_jobs: usize,
    /// True if a client's restore is running, or if the server's end has interrupted a restore.
    restores: bool,
    /// The number of saves that clients have begun during pauses of the server.
    asked: u64,
}

/// A job that a client began while the disk was served. The job is treated as running until this
/// value is dropped.
struct ClientJob<'t>(&'t Turn);

#[derive(Debug, Default)]
enum State {
    /// The disk is served, and each client is allowed to save.
    #[default]
    Served,
    /// It is the server's turn.
    Own,
    /// The server pauses between two attempts, and the first client that requests a save gets the
    /// turn.
    Waits,
    /// A client saves the disk during a pause of the server. The number identifies the save.
    Asked(u64),
    /// A client has saved the whole disk to this file.
    Saved(PathBuf, Saved),
}

impl Turn {
    /// Calls `save` for a client, if the client is allowed to save to `path` now.
    ///
    /// # Errors
    /// Fails if `save` fails, or if no client is allowed to save now.
    pub(super) fn save(
        &self,
        path: &Path,
        save: impl FnOnce() -> Result<Saved, Refusal>,
    ) -> Result<Saved, Refusal> {
        if let Some(_job) = self.begin() {
            return save();
        }
        let number = self.ask().ok_or_else(|| {
            let message = "the server is shutting down and already saves the disk; 'uzram stat \
                --json' shows how far it is";
            Refusal::new(Errno::AGAIN, message)
        })?;
        let saved = save();
        let mut now = self.now();
        // If this save was stuck, the server may have taken the turn back, and another client may
        // be saving.
        if matches!(now.state, State::Asked(asked) if asked == number) {
            now.state = match &saved {
                Ok(saved) if saved.is_whole() => State::Saved(path.to_owned(), saved.clone()),
                _ => State::Waits,
            };
        }
        saved
    }

    /// Calls `restore` for a client, unless the server is ending. Only one restore runs at a time.
    ///
    /// # Errors
    /// Fails if `restore` fails, or if the server is ending.
    pub(super) fn restore<T>(
        &self,
        restore: impl FnOnce() -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let _job = self.begin().ok_or_else(|| {
            Refusal::new(
                Errno::SHUTDOWN,
                "the server is shutting down and restores nothing; start another with 'uzram serve \
                 --restore FILE'",
            )
        })?;
        self.now().restores = true;
        let restored = restore();
        let is_cancelled = |refusal: &Refusal| refusal.errno == Errno::CANCELED.raw_os_error();
        let mut now = self.now();
        now.restores = !matches!(now.state, State::Served)
            && restored.as_ref().err().is_some_and(is_cancelled);
        restored
    }

    /// Returns whether clients' jobs from the time before the server's end are still running.
    pub(super) fn has_client_jobs(&self) -> bool {
        self.now().client_jobs > 0
    }

    /// Returns whether the server's end has interrupted a restore. If so, the disk holds only a
    /// part of the restored file.
    pub(super) fn interrupted_restore(&self) -> bool {
        self.now().restores
    }

    /// Records that a client's job begins. Returns `None` if the server is ending.
    fn begin(&self) -> Option<ClientJob<'_>> {
        let mut now = self.now();
        matches!(now.state, State::Served).then(|| {
            now.client_jobs += 1;
            ClientJob(self)
        })
    }

    /// Gives the turn to a client if the server pauses, and returns the number of the client's
    /// save. Otherwise returns `None`.
    fn ask(&self) -> Option<u64> {
        let mut now = self.now();
        matches!(now.state, State::Waits).then(|| {
            now.asked += 1;
            now.state = State::Asked(now.asked);
            now.asked
        })
    }

    /// Gives the turn to the server and returns true. Returns false if a client has saved the whole
    /// disk or is saving it. If `hangs` is set, a client's running save is stuck and is ignored.
    pub(super) fn take(&self, hangs: bool) -> bool {
        let mut now = self.now();
        let is_free = match now.state {
            State::Served | State::Own | State::Waits => true,
            State::Asked(_) => hangs,
            State::Saved(..) => false,
        };
        if is_free {
            now.state = State::Own;
        }
        is_free
    }

    /// Offers the turn to clients during a pause of the server.
    pub(super) fn offer(&self) {
        self.now().state = State::Waits;
    }

    /// Returns the file to which a client has saved the whole disk, and the result of that save.
    pub(super) fn saved(&self) -> Option<(PathBuf, Saved)> {
        match &self.now().state {
            State::Saved(path, saved) => Some((path.clone(), saved.clone())),
            _ => None,
        }
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ClientJob<'_> {
    fn drop(&mut self) {
        self.0.now().client_jobs -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::thread;

    const FILE: &str = "/elsewhere";

    fn whole() -> Result<Saved, Refusal> {
        Ok(Saved { slots: 1, ..Saved::default() })
    }

    fn is_refused(turn: &Turn) -> bool {
        turn.save(Path::new(FILE), || panic!("it is not its turn")).is_err()
    }

    #[test]
    fn others_save_while_the_server_waits_and_the_first_whole_one_is_the_last() {
        let turn = Turn::default();
        assert!(turn.save(Path::new(FILE), whole).is_ok() && turn.saved().is_none(), "it serves");
        assert!(turn.take(false) && is_refused(&turn));
        turn.offer();
        let failed = turn.save(Path::new(FILE), || Err(Refusal::new(Errno::NOSPC, "full")));
        assert_eq!(failed.unwrap_err().message, "full");
        let in_part = || Ok(Saved { lost_slots: 1, ..Saved::default() });
        assert!(turn.save(Path::new(FILE), in_part).is_ok() && turn.saved().is_none());
        let saved = turn.save(Path::new(FILE), || {
            assert!(!turn.take(false) && is_refused(&turn), "one at a time");
            whole()
        });
        assert_eq!(turn.saved(), Some((FILE.into(), saved.unwrap())));
        assert!(!turn.take(true) && is_refused(&turn), "it is saved");
    }

    #[test]
    fn one_that_hangs_is_passed_over() {
        let turn = Turn::default();
        turn.offer();
        let saved = turn.save(Path::new(FILE), || {
            assert!(turn.take(true));
            whole()
        });
        assert!(saved.is_ok() && turn.saved().is_none(), "the server saves again");
        assert!(is_refused(&turn));
    }

    #[test]
    fn one_that_hung_says_nothing_of_the_next() {
        let turn = Turn::default();
        turn.offer();
        let [hangs, begins, ends] = [(); 3].map(|()| mpsc::sync_channel(1));
        thread::scope(|scope| {
            let (turn, hangs_on, goes_on, is_over) = (&turn, hangs.0, begins.1, ends.0);
            scope.spawn(move || {
                let hung = turn.save(Path::new(FILE), || {
                    hangs_on.send(()).unwrap();
                    goes_on.recv().unwrap();
                    Err(Refusal::new(Errno::CANCELED, "cancelled"))
                });
                assert!(hung.is_err());
                is_over.send(()).unwrap();
            });
            hangs.1.recv().unwrap();
            assert!(turn.take(true));
            turn.offer();
            let next = turn.save(Path::new("/next"), || {
                begins.0.send(()).unwrap();
                ends.1.recv().unwrap();
                assert!(!turn.take(false), "it is the next one's turn");
                whole()
            });
            assert!(next.is_ok());
        });
        assert_eq!(turn.saved().map(|(path, _)| path), Some("/next".into()));
    }

    #[test]
    fn who_began_before_the_end_is_known_until_it_is_over() {
        let cancelled = || Err::<(), _>(Refusal::new(Errno::CANCELED, "cancelled"));
        let turn = Turn::default();
        assert!(turn.restore(cancelled).is_err() && !turn.interrupted_restore(), "it serves on");
        let saved = turn.save(Path::new(FILE), || {
            assert!(turn.has_client_jobs() && turn.take(false));
            whole()
        });
        assert!(saved.is_ok() && turn.saved().is_none() && !turn.has_client_jobs());
        assert!(turn.restore(|| -> Result<(), _> { panic!("it ends") }).is_err());
        for (restored, is_cut_off) in [(Ok(()), false), (cancelled(), true)] {
            let turn = Turn::default();
            let is_ok = restored.is_ok();
            let restored = turn.restore(|| {
                assert!(turn.take(false) && turn.has_client_jobs() && turn.interrupted_restore());
                restored
            });
            assert_eq!(restored.is_ok(), is_ok);
            assert!(!turn.has_client_jobs() && turn.interrupted_restore() == is_cut_off);
        }
    }
}
