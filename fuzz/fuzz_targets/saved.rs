//! Random bytes as operations on saved files, and as the contents of such a file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use testkit::saved::SavedModel;
use zram::{Config, Damage, Device, Error};

fuzz_target!(|bytes: &[u8]| {
    let device = Device::new(Config::new(64 << 10).expect("there are codecs"));
    let device = device.expect("there is memory");
    if let Err(error) = device.restore_from(&mut &*bytes, Damage::Salvage) {
        assert!(matches!(error, Error::Saved { .. } | Error::TooSmall { .. }), "{error}");
    }
    device.check();
    testkit::fuzz::<SavedModel>(bytes);
});
