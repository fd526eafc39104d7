//! The seed of a random test.

/// `UZRAM_SEED`, or the test's own; printed.
pub fn seed(own: u64) -> u64 {
    let set = std::env::var("UZRAM_SEED").ok();
    let seed = set.map_or(own, |seed| seed.parse().expect("UZRAM_SEED is a number"));
    println!("UZRAM_SEED={seed}");
    seed
}
