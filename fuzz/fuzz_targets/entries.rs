//! Random bytes as events on a table of entries.
#![no_main]

use testkit::entries::EntriesModel;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| testkit::fuzz::<EntriesModel>(bytes));
