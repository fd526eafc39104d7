//! Who saves the disk when its server ends: the server itself, or, while that waits to try again, whoever asks for it.

use rustix::io::Errno;
use serve::control::Refusal;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use zram::Saved;

/// Whose turn it is.
#[derive(Debug, Default)]
pub(super) struct Turn(Mutex<State>);

#[derive(Debug, Default)]
enum State {
    /// The server does not end: whoever asks saves.
    #[default]
    Served,
    /// The server saves, and gives up any other job before.
    Own,
    /// It waits to try again.
    Waits,
    /// It waits, and the disk is being saved for who asked.
    Asked,
    /// So it was saved, whole.
    Saved(PathBuf, Saved),
}

impl Turn {
    /// Saves to `path` for who asks.
    ///
    /// # Errors
    /// Those of `save`, and that the server saves the disk itself.
    pub(super) fn save(
        &self,
        path: &Path,
        save: impl FnOnce() -> Result<Saved, Refusal>,
    ) -> Result<Saved, Refusal> {
        {
            let mut state = self.state();
            match *state {
                State::Served => {
                    drop(state);
                    return save();
                }
                State::Waits => *state = State::Asked,
                State::Own | State::Asked | State::Saved(..) => {
                    let message = "the server is ending, and the disk is being saved already; 'uzram stat --json' tells \
                                   how far it is";
                    return Err(Refusal::new(Errno::AGAIN, message));
                }
            }
        }
        let saved = save();
        let mut state = self.state();
        // The server may have taken its turn back, as it came no further.
        if matches!(*state, State::Asked) {
            *state = match &saved {
                Ok(saved) if saved.is_whole() => State::Saved(path.to_owned(), saved.clone()),
                _ => State::Waits,
            };
        }
        saved
    }

    /// Makes it the server's, who has waited, unless someone saves, or has saved; also then, if that `hangs`. Whether it is.
    pub(super) fn take(&self, hangs: bool) -> bool {
        let mut state = self.state();
        let is_free = match *state {
            State::Served | State::Own | State::Waits => true,
            State::Asked => hangs,
            State::Saved(..) => false,
        };
        if is_free {
            *state = State::Own;
        }
        is_free
    }

    /// Lets others save while the server waits.
    pub(super) fn leave(&self) {
        *self.state() = State::Waits;
    }

    /// Where all of it was saved for who asked.
    pub(super) fn saved(&self) -> Option<(PathBuf, Saved)> {
        match &*self.state() {
            State::Saved(path, saved) => Some((path.clone(), saved.clone())),
            _ => None,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
