//! Several sides do the same work in turns, so a disturbance of the machine affects all sides.

use crate::Error;

/// Calls `turn(side)` for each of `sides` sides in each round. Each round begins with a different
/// side, because a turn changes the contents of the caches for the next side. A round before the
/// `rounds` counted rounds warms up the caches. Returns the results of each side.
///
/// # Errors
/// Returns the first error of a turn.
pub fn in_turns<T>(
    sides: usize,
    rounds: u64,
    mut turn: impl FnMut(usize) -> Result<T, Error>,
) -> Result<Vec<Vec<T>>, Error> {
    let mut results: Vec<Vec<T>> = (0..sides).map(|_| Vec::new()).collect();
    for round in 0..=rounds {
        for place in 0..sides {
            let side = (place + round as usize) % sides;
            let result = turn(side)?;
            if round > 0 {
                results[side].push(result);
            }
        }
    }
    Ok(results)
}

/// Returns the value that `part` selects from each of `results`.
pub fn each<T>(results: &[T], part: impl Fn(&T) -> f64) -> Vec<f64> {
    results.iter().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_take_turns_after_one_warm_up() {
        let mut order = String::new();
        let results = in_turns(2, 5, |side| {
            order.push(['A', 'B'][side]);
            Ok(order.len())
        });
        assert_eq!(order, "ABBAABBAABBA");
        assert_eq!(results.unwrap(), [[4, 5, 8, 9, 12], [3, 6, 7, 10, 11]]);
    }

    #[test]
    fn an_error_ends_all_turns() {
        let mut turns = 0;
        let ended = in_turns(3, 5, |side| {
            turns += 1;
            let failed = Error::Answer { side: 'B', expected: 0, found: 1 };
            if side == 1 { Err(failed) } else { Ok(()) }
        });
        assert!(ended.is_err() && turns == 2);
    }
}
