//! Random bytes as events on a pool.
#![no_main]

use testkit::pool::PoolModel;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| testkit::fuzz::<PoolModel>(bytes));
