//! Random bytes as events on a region.
#![no_main]

use testkit::pager::PagerModel;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| testkit::fuzz::<PagerModel>(bytes));
