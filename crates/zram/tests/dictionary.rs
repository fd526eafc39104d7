//! Tests a device with a dictionary.
#![allow(clippy::unwrap_used)]

use testkit::seed;
use zcomp::{Dictionary, Params, codecs};
use zram::{Config, Device, Error, SLOT_BYTES};

/// Returns noise, which can be compressed only with a dictionary.
fn noise() -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(seed(152));
    (0..8 * SLOT_BYTES).map(|_| rng.u8(..)).collect()
}

fn config(nth: usize, dictionary: Option<Dictionary>) -> Config {
    let params = Params { level: None, dictionary };
    let streams = Some(2);
    Config { algorithm: codecs()[nth], params, streams, ..Config::new(1 << 20).unwrap() }
}

#[test]
fn blocks_refer_to_it_and_its_memory_is_counted_once() {
    let content = noise();
    let dictionary = Dictionary::new(content.clone()).unwrap();
    for (nth, codec) in codecs().iter().enumerate() {
        let plain = Device::new(config(nth, None)).unwrap();
        let device = Device::new(config(nth, Some(dictionary.clone()))).unwrap();
        let shared =
            codec.prepare(&config(nth, Some(dictionary.clone())).params, SLOT_BYTES).unwrap();
        let more = device.mem_total() - plain.mem_total();
        // With zstd, a dictionary also makes the contexts larger.
        match codec.name() {
            "zstd" => assert!(more >= shared.bytes() as u64, "{more}"),
            name => assert_eq!(more, shared.bytes() as u64, "{name}"),
        }

        for device in [&plain, &device] {
            device.write(0, &content).unwrap();
            let mut back = vec![0; content.len()];
            device.read(0, &mut back).unwrap();
            assert!(back == content, "{}", codec.name());
            device.check();
        }
        assert_eq!(plain.mm_stat().huge_pages, 8);
        assert_eq!(device.mm_stat().huge_pages, 0);
        assert!(device.mm_stat().compr_data_size < 8 * 100, "{}", codec.name());
    }
}

#[test]
fn one_that_can_not_be_used_is_wrong_use() {
    // The first nine bytes of a zstd dictionary.
    let damaged = Dictionary::new([0x37, 0xa4, 0x30, 0xec, 1, 2, 3, 4, 5]).unwrap();
    let error = Device::new(config(codecs().len() - 1, Some(damaged))).unwrap_err();
    assert!(matches!(error, Error::Codec(zcomp::Error::Dictionary { .. })), "{error:?}");
    assert_eq!(error.errno(), 22);
    assert_eq!(Error::from(Dictionary::new([]).unwrap_err()).errno(), 22);
}
