//! Random bytes as requests to a device.
#![no_main]

use testkit::device::DeviceModel;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| testkit::fuzz::<DeviceModel>(bytes));
