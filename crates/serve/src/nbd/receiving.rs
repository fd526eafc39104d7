//! The receiving side of a connection, which its workers pass to each other.

use super::input::Input;
use rustix_futex_sync::{Condvar, Mutex};
use std::mem;
use std::time::Duration;

/// A connection's input, which one worker at a time can take.
pub(crate) struct Receiving {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    turn: Turn,
    /// The number of workers that wait for the input.
    waiting: usize,
}

enum Turn {
    Free(Input),
    /// A worker has taken the input.
    Taken,
    /// The input has ended, or has an error.
    Over,
}

impl Receiving {
    pub(crate) fn new(input: Input) -> Self {
        let state = State { turn: Turn::Free(input), waiting: 0 };
        Receiving { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Waits for the input, and takes it. Returns `None` if the input has ended, or if no worker
    /// passes the input on within the time `within`.
    pub(crate) fn take(&self, within: Option<Duration>) -> Option<Input> {
        let mut state = self.state.lock();
        let mut is_late = false;
        loop {
            match mem::replace(&mut state.turn, Turn::Taken) {
                Turn::Free(input) => return Some(input),
                Turn::Taken if is_late => return None,
                Turn::Taken => {}
                Turn::Over => {
                    state.turn = Turn::Over;
                    return None;
                }
            }
            state.waiting += 1;
            state = match within {
                Some(within) => {
                    let (state, timeout) = self.changed.wait_timeout(state, within);
                    is_late = timeout.timed_out();
                    state
                }
                None => self.changed.wait(state),
            };
            state.waiting -= 1;
        }
    }

    /// Returns whether a worker waits for the input.
    pub(crate) fn is_awaited(&self) -> bool {
        self.state.lock().waiting > 0
    }

    /// Passes the input on to the next worker. If another worker has ended the input, does nothing.
    pub(crate) fn pass(&self, input: Input) {
        let mut state = self.state.lock();
        if matches!(state.turn, Turn::Over) {
            return;
        }
        state.turn = Turn::Free(input);
        let is_awaited = state.waiting > 0;
        drop(state);
        if is_awaited {
            self.changed.notify_one();
        }
    }

    /// Ends the input: no worker can take the input any more.
    pub(crate) fn end(&self) {
        self.state.lock().turn = Turn::Over;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    const SOON: Option<Duration> = Some(Duration::from_millis(20));

    #[test]
    fn the_input_is_passed_to_a_worker_that_waits_and_one_that_is_late_gets_none() {
        let receiving = Receiving::new(Input::new().unwrap());
        let input = receiving.take(None).unwrap();
        assert!(receiving.take(SOON).is_none(), "another worker has it");
        thread::scope(|scope| {
            let waits = scope.spawn(|| receiving.take(None).is_some());
            while !receiving.is_awaited() {
                thread::yield_now();
            }
            receiving.pass(input);
            assert!(waits.join().unwrap());
        });
        assert!(!receiving.is_awaited());
    }

    #[test]
    fn no_worker_gets_an_input_that_is_over() {
        let receiving = Receiving::new(Input::new().unwrap());
        let input = receiving.take(None).unwrap();
        thread::scope(|scope| {
            let waits = scope.spawn(|| receiving.take(None).is_none());
            while !receiving.is_awaited() {
                thread::yield_now();
            }
            receiving.end();
            assert!(waits.join().unwrap());
        });
        receiving.pass(input);
        assert!(receiving.take(None).is_none());
    }
}
