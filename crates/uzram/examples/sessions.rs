//! A pool of sessions. A client's token is the raw value of its session's handle. A lookup detects
//! the token of a session that has ended.
//!
//! `cargo run --release -p uzram --example sessions`
#![allow(clippy::unwrap_used, reason = "an example: what fails ends it")]

mod measured;

use measured::{Amount, measured, mib};
use std::collections::HashMap;
use uzram::{Error, Handle, Pool, PoolConfig};

/// Sessions of a few hundred bytes each.
struct Sessions {
    pool: Pool,
}

impl Sessions {
    fn new() -> Result<Self, Error> {
        Ok(Sessions { pool: Pool::new(PoolConfig::default())? })
    }

    /// Begins a session and returns its token.
    fn begin(&self, state: &[u8]) -> Result<u64, Error> {
        Ok(self.pool.store(state)?.into_raw())
    }

    /// Returns the state of the session, or an error if it has ended.
    fn look_up(&self, token: u64) -> Result<Vec<u8>, Error> {
        Ok(self.pool.read(&Handle::from_raw(token)?)?.to_vec())
    }

    fn end(&self, token: u64) -> Result<(), Error> {
        Ok(self.pool.free(Handle::from_raw(token)?)?)
    }
}

/// Returns the state of a user's session, which has 100 to 900 bytes.
fn state(user: u64) -> Vec<u8> {
    let len = 100 + (user.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize % 800;
    let words = (0..len.div_ceil(8) as u64).flat_map(|word| (user << 8 ^ word).to_le_bytes());
    words.take(len).collect()
}

/// Returns true for one user in sixteen, whose session never ends.
fn stays(user: u64) -> bool {
    user.wrapping_mul(0xD6E8_FEB8_6659_FD93) >> 60 == 0
}

fn run(amount: Amount) -> Result<(), Error> {
    let users = amount.of(400_000) as u64;
    let (filled, taken) = measured(|| {
        let sessions = Sessions::new()?;
        let tokens: Vec<u64> =
            (0..users).map(|user| sessions.begin(&state(user))).collect::<Result<_, Error>>()?;
        Ok::<_, Error>((sessions, tokens))
    });
    let (sessions, tokens) = filled?;
    let (mut plain, plainly) =
        measured(|| (0..users).map(|user| (user, state(user))).collect::<HashMap<u64, Vec<u8>>>());
    println!(
        "{users} sessions take {:.1} MiB in the pool, and {:.1} MiB in a map",
        mib(taken),
        mib(plainly),
    );
    for (user, token) in (0..).zip(&tokens) {
        assert_eq!(sessions.look_up(*token)?, plain[&user]);
    }

    // Most sessions end, in random order. The memory of ended sessions is returned to the system.
    let ((), back) = freed(|| {
        let ended = (0..users).zip(&tokens).filter(|(user, _)| !stays(*user));
        ended.for_each(|(_, token)| sessions.end(*token).unwrap());
        sessions.pool.compact();
    });
    let ((), back_plainly) = freed(|| plain.retain(|user, _| stays(*user)));
    let (left, left_plainly) = (taken.saturating_sub(back), plainly.saturating_sub(back_plainly));
    println!(
        "when 15 in 16 have ended, the rest takes {:.1} MiB in the pool, and {:.1} MiB in a map",
        mib(left),
        mib(left_plainly),
    );
    assert!(2 * left < left_plainly, "{left} bytes, and {left_plainly} in a map");
    for (user, token) in (0..).zip(&tokens) {
        match sessions.look_up(*token) {
            Ok(bytes) => assert!(stays(user) && bytes == plain[&user]),
            Err(error) => assert!(!stays(user) && error.errno() == 116, "ESTALE, not {error}"),
        }
    }
    let new = sessions.begin(b"a new session")?;
    assert!(!tokens.contains(&new), "a token is not given out again so soon");
    assert_eq!(sessions.look_up(new)?, b"a new session");
    sessions.end(new)?;
    let left = (0..users).zip(&tokens).filter(|(user, _)| stays(*user));
    left.for_each(|(_, token)| sessions.end(*token).unwrap());
    assert!(sessions.pool.is_empty());
    Ok(())
}

/// Returns the result of `work`, and the number of bytes that it returned to the system.
fn freed<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = measured::anonymous_bytes();
    let done = work();
    (done, before.saturating_sub(measured::anonymous_bytes()))
}

fn main() -> Result<(), Error> {
    run(Amount::Full)
}

#[test]
fn they_take_less_than_in_a_map() {
    run(Amount::Quick).unwrap();
}
