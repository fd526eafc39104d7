//! The same work on several threads that begin together.

use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use crate::Error;

/// The results of all threads, and the time from start to end.
#[derive(Debug)]
pub struct Together<T> {
    /// The seconds from the start of the first thread to the end of the last thread.
    pub seconds: f64,
    /// The result of each thread, by index.
    pub answers: Vec<T>,
}

// The start, the result and the end of a thread.
type Done<T> = (Instant, Result<T, Error>, Instant);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Gate {
    Closed,
    Open,
    // Another thread could not be started, so this thread exits.
    Cancelled,
}

/// Runs `work(index)` on `count` threads, which begin when all of them have been started.
pub fn together<T, W>(count: usize, work: W) -> Result<Together<T>, Error>
where
    T: Send,
    W: Fn(usize) -> Result<T, Error> + Sync,
{
    let state = Mutex::new((Gate::Closed, 0_usize));
    let changed = Condvar::new();
    let locked = || state.lock().unwrap_or_else(PoisonError::into_inner);
    let one = |index: usize| -> Option<Done<T>> {
        let mut guard = locked();
        guard.1 += 1;
        changed.notify_all();
        while guard.0 == Gate::Closed {
            guard = changed.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        let opened = guard.0 == Gate::Open;
        drop(guard);
        opened.then(|| {
            let begun = Instant::now();
            let answer = work(index);
            (begun, answer, Instant::now())
        })
    };
    let joined = thread::scope(|scope| {
        let one = &one;
        let started: Vec<_> = (0..count)
            .map_while(|index| thread::Builder::new().spawn_scoped(scope, move || one(index)).ok())
            .collect();
        let mut guard = locked();
        while guard.1 < started.len() {
            guard = changed.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        guard.0 = if started.len() == count { Gate::Open } else { Gate::Cancelled };
        drop(guard);
        changed.notify_all();
        started.into_iter().map(|thread| thread.join().ok().flatten()).collect::<Vec<_>>()
    });
    if count == 0 || joined.len() < count {
        let reason = format!("{} of {count} threads could be started", joined.len());
        return Err(Error::Setup {
            reason,
            remedy: "ask for fewer threads, at least one, or raise the limit (ulimit -u)",
        });
    }
    finished(joined)
}

fn finished<T>(joined: Vec<Option<Done<T>>>) -> Result<Together<T>, Error> {
    let mut answers = Vec::new();
    let mut span: Option<(Instant, Instant)> = None;
    for (index, done) in joined.into_iter().enumerate() {
        let Some((begun, answer, ended)) = done else {
            let reason = format!("thread {index} panicked");
            return Err(Error::Setup {
                reason,
                remedy: "mend what its message on standard error names",
            });
        };
        answers.push(answer?);
        span =
            Some(span.map_or((begun, ended), |(first, last)| (first.min(begun), last.max(ended))));
    }
    let seconds = span.map_or(0.0, |(first, last)| (last - first).as_secs_f64());
    Ok(Together { seconds, answers })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_last_one_counts_and_answers_keep_their_place() {
        let done = together(3, |index| {
            thread::sleep(Duration::from_millis(20 * index as u64));
            Ok(index)
        })
        .unwrap();
        assert_eq!(done.answers, [0, 1, 2]);
        assert!(done.seconds >= 0.04, "{}", done.seconds);
    }

    #[test]
    fn errors_and_panics_come_out() {
        let failed = together(2, |index| match index {
            0 => Ok(()),
            _ => Err(Error::DeviceGone { device: "x".into() }),
        });
        assert!(matches!(failed, Err(Error::DeviceGone { .. })));
        let panicked = together(2, |index| {
            assert_ne!(index, 1, "on purpose");
            Ok(())
        });
        assert!(matches!(panicked, Err(Error::Setup { .. })));
        assert!(together(0, |_| Ok(())).is_err());
    }
}
