//! Millions of small structs of one type in an object cache, without space between them.
//!
//! `cargo run --release -p uzram --example small_structs`
#![allow(clippy::unwrap_used, reason = "an example: what fails ends it")]

mod measured;

use measured::{Amount, measured, mib};
use std::time::{Duration, Instant};
use uzram::{Arena, Cache, Error, PageConfig};

/// An order in an order book, of 32 bytes. malloc would take 48 bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Order {
    id: u64,
    price: f64,
    quantity: u32,
    side: u32,
    time: u64,
}

impl Order {
    fn new(id: u64) -> Self {
        let price = 100.0 + (id.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 50) as f64 / 100.0;
        Order { id, price, quantity: (id % 1000) as u32, side: (id & 1) as u32, time: id << 20 }
    }
}

/// Returns the result of `work`, the size of the memory that it allocated in bytes, and its
/// duration.
fn timed<T>(work: impl FnOnce() -> T) -> (T, u64, Duration) {
    let ((made, time), taken) = measured(|| {
        let begun = Instant::now();
        let made = work();
        (made, begun.elapsed())
    });
    (made, taken, time)
}

fn run(amount: Amount) -> Result<(), Error> {
    let count = amount.of(4 << 20) as u64;
    let arena = Arena::new(PageConfig::default())?;
    let cache = Cache::new(&arena, "orders")?;
    let (cached, taken, time) = timed(|| {
        (0..count).map(|id| Ok(cache.alloc(Order::new(id))?)).collect::<Result<Vec<_>, Error>>()
    });
    let cached = cached?;
    let (boxed, plainly, time_plainly) =
        timed(|| (0..count).map(|id| Box::new(Order::new(id))).collect::<Vec<_>>());
    let each = |bytes: u64| bytes as f64 / count as f64;
    let nanoseconds = |time: Duration| time.as_nanos() as f64 / count as f64;
    println!(
        "{count} orders take {:.1} MiB in a cache, and {:.1} MiB in boxes: {:.1} and {:.1} bytes \
         each, pointers included; {:.0} and {:.0} ns",
        mib(taken),
        mib(plainly),
        each(taken),
        each(plainly),
        nanoseconds(time),
        nanoseconds(time_plainly),
    );
    assert!(taken < plainly, "{taken} bytes, and {plainly} in boxes");
    assert_eq!(cache.stat().active_objects as u64, count);
    assert!(cached.iter().zip(&boxed).all(|(cached, boxed)| **cached == **boxed));
    drop(cached);
    cache.shrink();
    assert_eq!(cache.stat().slabs, 0, "all of it is given back");
    cache.destroy().expect("no order is left");
    Ok(())
}

fn main() -> Result<(), Error> {
    run(Amount::Full)
}

#[test]
fn they_take_less_than_in_boxes() {
    run(Amount::Quick).unwrap();
}
