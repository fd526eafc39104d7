//! Whose turn it is to save the disk when its server ends: the server's, or, while it waits to try
//! again, that of a client that asks for it. The server waits for a client's job that began before,
//! to know its result.

use rustix::io::Errno;
use serve::control::Refusal;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use zram::Saved;

/// Whose turn it is.
#[derive(Debug, Default)]
pub(super) struct Turn(Mutex<Now>);

#[derive(Debug, Default)]
struct Now {
    state: State,
    /// Saves and restores that began while the disk was served, and are not over.
    others: usize,
    /// Whether one of them restores, or did until the end cut it off.
    restores: bool,
    /// Saves that were asked for while the server waited.
    asked: u64,
}

/// One that began while the disk was served, until this goes.
struct Other<'t>(&'t Turn);

#[derive(Debug, Default)]
enum State {
    /// The server does not end: any client may save.
    #[default]
    Served,
    /// The server saves, and gives up any other job before.
    Own,
    /// It waits to try again.
    Waits,
    /// It waits, and the disk is being saved for the client with this number.
    Asked(u64),
    /// So it was saved, whole.
    Saved(PathBuf, Saved),
}

impl Turn {
    /// Saves to `path` for a client.
    ///
    /// # Errors
    /// Those of `save`, and that the server saves the disk itself.
    pub(super) fn save(
        &self,
        path: &Path,
        save: impl FnOnce() -> Result<Saved, Refusal>,
    ) -> Result<Saved, Refusal> {
        if let Some(_other) = self.begin() {
            return save();
        }
        let number = self.ask().ok_or_else(|| {
            let message = "the server is shutting down and already saves the disk; 'uzram stat \
                --json' shows how far it is";
            Refusal::new(Errno::AGAIN, message)
        })?;
        let saved = save();
        let mut now = self.now();
        // The server may have taken its turn back, as it came no further, and someone else may have
        // asked since.
        if matches!(now.state, State::Asked(asked) if asked == number) {
            now.state = match &saved {
                Ok(saved) if saved.is_whole() => State::Saved(path.to_owned(), saved.clone()),
                _ => State::Waits,
            };
        }
        saved
    }

    /// Restores for a client; there is one such job at a time.
    ///
    /// # Errors
    /// Those of `restore`, and that the server ends.
    pub(super) fn restore<T>(
        &self,
        restore: impl FnOnce() -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let _other = self.begin().ok_or_else(|| {
            Refusal::new(
                Errno::SHUTDOWN,
                "the server is shutting down and does not restore any more",
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

    /// Returns whether a client's job that began while the disk was served is still under way.
    pub(super) fn has_others(&self) -> bool {
        self.now().others > 0
    }

    /// Returns whether the end cut a restore off: the disk has less than its file.
    pub(super) fn cuts_a_restore_off(&self) -> bool {
        self.now().restores
    }

    /// Begins something, if the disk is served.
    fn begin(&self) -> Option<Other<'_>> {
        let mut now = self.now();
        matches!(now.state, State::Served).then(|| {
            now.others += 1;
            Other(self)
        })
    }

    /// Asks for the turn while the server waits.
    fn ask(&self) -> Option<u64> {
        let mut now = self.now();
        matches!(now.state, State::Waits).then(|| {
            now.asked += 1;
            now.state = State::Asked(now.asked);
            now.asked
        })
    }

    /// Makes it the turn of the server, which ends, or has waited, unless a client saves or has
    /// saved; also then, if that save `hangs`. Returns whether it is the server's turn.
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

    /// Lets others save while the server waits.
    pub(super) fn leave(&self) {
        self.now().state = State::Waits;
    }

    /// Returns where a client has saved all of it.
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

impl Drop for Other<'_> {
    fn drop(&mut self) {
        self.0.now().others -= 1;
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
        turn.leave();
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
        turn.leave();
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
        turn.leave();
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
            turn.leave();
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
        assert!(turn.restore(cancelled).is_err() && !turn.cuts_a_restore_off(), "it serves on");
        let saved = turn.save(Path::new(FILE), || {
            assert!(turn.has_others() && turn.take(false));
            whole()
        });
        assert!(saved.is_ok() && turn.saved().is_none() && !turn.has_others());
        assert!(turn.restore(|| -> Result<(), _> { panic!("it ends") }).is_err());
        for (restored, is_cut_off) in [(Ok(()), false), (cancelled(), true)] {
            let turn = Turn::default();
            let is_ok = restored.is_ok();
            let restored = turn.restore(|| {
                assert!(turn.take(false) && turn.has_others() && turn.cuts_a_restore_off());
                restored
            });
            assert_eq!(restored.is_ok(), is_ok);
            assert!(!turn.has_others() && turn.cuts_a_restore_off() == is_cut_off);
        }
    }
}
