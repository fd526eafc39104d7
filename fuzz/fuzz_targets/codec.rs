//! Random bytes as input of a codec's stream.
#![no_main]

use libfuzzer_sys::fuzz_target;
use testkit::codec::CodecModel;

fuzz_target!(|bytes: &[u8]| testkit::fuzz::<CodecModel>(bytes));
