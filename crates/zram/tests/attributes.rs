//! Tests every attribute: its text, the values that it accepts, and the error for each invalid
//! value.
#![allow(clippy::unwrap_used)]

use std::collections::HashSet;
use testkit::seed;
use zram::{Access, Error, SLOT_BYTES, Zram, attributes};

const ERRNOS: [(&str, i32); 9] = [
    ("ENOTBLK", 15),
    ("ENOENT", 2),
    ("EIO", 5),
    ("E2BIG", 7),
    ("EACCES", 13),
    ("EBUSY", 16),
    ("ENODEV", 19),
    ("EINVAL", 22),
    ("ERANGE", 34),
];

fn errno(name: &str) -> i32 {
    ERRNOS.iter().find(|(other, _)| *other == name).unwrap().1
}

fn made(bytes: &str) -> Zram {
    let zram = Zram::new();
    zram.store("disksize", bytes).unwrap();
    zram
}

/// Asserts that a write of each of `cases` fails. A case consists of attribute, value, errno, and
/// parts of the message.
fn refused(zram: &Zram, cases: &[(&str, &str, &str, &[&str])]) {
    for (name, value, expected, parts) in cases {
        let error = zram.store(name, value).unwrap_err();
        let text = error.to_string();
        assert_eq!(error.errno(), errno(expected), "{name} {value:?}: {text}");
        assert!(parts.iter().all(|part| text.contains(part)), "{name} {value:?}: {text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
}

#[test]
fn nothing_reads_as_the_kernels_does() {
    let zram = Zram::new();
    for (name, text) in [
        ("disksize", "0\n"),
        ("initstate", "0\n"),
        ("comp_algorithm", "[lz4] lz4hc zstd \n"),
        (
            "mm_stat",
            "       0        0        0        0        0        0        0        0        0\n",
        ),
        ("io_stat", "       0        0        0        0\n"),
        ("debug_stat", "version: 1\n       0        0\n"),
        ("total_limit", "0\n"),
        ("mem_total", "0\n"),
        ("track_access", "0\n"),
        ("geometry", "native\n"),
        ("compaction", "[auto] manual off \n"),
        ("compaction_stat", "       0        0        0        0        0\n"),
        ("fork", "[copy] leave \n"),
        ("backing_dev", "none\n"),
        ("bd_stat", "       0        0        0        0        0\n"),
        ("writeback_limit", "0\n"),
        ("writeback_limit_enable", "0\n"),
        ("writeback_batch_size", "4\n"),
        ("compressed_writeback", "1\n"),
        ("dump", "0\n"),
    ] {
        assert_eq!(zram.show(name).as_deref(), Ok(text), "{name}");
    }
    for name in ["block_state", "classes"] {
        assert_eq!(zram.show(name), Err(Error::Uninitialised { name }));
    }
}

#[test]
fn cold_data_have_algorithms_of_their_own() {
    let zram = Zram::new();
    zram.store("recomp_algorithm", "algo=zstd").unwrap();
    zram.store("recomp_algorithm", "algo=lz4hc priority=3").unwrap();
    zram.store("algorithm_params", "algo=zstd level=7").unwrap();
    zram.store("algorithm_params", "priority=3 level=12").unwrap();
    assert_eq!(
        zram.show("recomp_algorithm").as_deref(),
        Ok("#1: lz4 lz4hc [zstd] \n#3: lz4 [lz4hc] zstd \n")
    );
    let levels = zram.settings().recompression.map(|of| of.map(|of| of.params.level));
    assert_eq!(levels, [Some(Some(7)), None, Some(Some(12))]);
    let cases: &[(&str, &str, &str, &[&str])] = &[
        ("recomp_algorithm", "zstd", "EINVAL", &["algo="]),
        ("recomp_algorithm", "priority=1", "EINVAL", &["algo="]),
        ("recomp_algorithm", "algo=842", "EINVAL", &["842"]),
        ("recomp_algorithm", "algo=zstd priority=4", "EINVAL", &["1 to 3"]),
        ("algorithm_params", "algo=zstd priority=3 level=1", "EINVAL", &["priority 3"]),
        ("algorithm_params", "priority=2 level=1", "EINVAL", &["recomp_algorithm"]),
        ("recompress", "type=idle", "EINVAL", &["disksize"]),
    ];
    refused(&zram, cases);
    zram.store("disksize", "1M").unwrap();
    let cases: &[(&str, &str, &str, &[&str])] = &[
        ("recomp_algorithm", "algo=zstd", "EBUSY", &["reset"]),
        ("recompress", "idle", "EINVAL", &["type="]),
        ("recompress", "type=incompressible", "EINVAL", &["huge_idle"]),
        ("recompress", "priority=2", "EINVAL", &["priority 2"]),
        ("recompress", "priority=4", "EINVAL", &["1 to 3"]),
        ("recompress", "algo=lz4hc priority=1", "EINVAL", &["another"]),
        ("recompress", "algo=lz4 type=huge", "EINVAL", &["recomp_algorithm"]),
        ("recompress", "threshold=4096", "EINVAL", &["4096", "less"]),
        ("recompress", "max_pages=x", "EINVAL", &["max_pages="]),
    ];
    refused(&zram, cases);
    for line in
        ["", "type=idle", "type=huge_idle algo=lz4hc", "priority=3 threshold=3000 max_pages=9"]
    {
        zram.store("recompress", line).unwrap();
    }
}

#[test]
fn cold_data_go_to_a_backing_store() {
    let dir = std::env::temp_dir().join(format!("uzram-backing-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let [file, empty] = ["file", "empty"].map(|name| dir.join(name).to_str().unwrap().to_owned());
    std::fs::write(&file, vec![0; 1 << 20]).unwrap();
    std::fs::write(&empty, []).unwrap();
    let zram = Zram::new();
    let cases: &[(&str, &str, &str, &[&str])] = &[
        ("backing_dev", "/no/such", "ENOENT", &["/no/such"]),
        ("backing_dev", "", "EINVAL", &["path of a file"]),
        ("backing_dev", "/dev/null", "ENOTBLK", &["/dev/null"]),
        ("backing_dev", &empty, "EINVAL", &["empty"]),
        ("writeback_batch_size", "0", "EINVAL", &["at least 1"]),
        ("writeback_limit", "-1", "EINVAL", &["4 KiB"]),
        ("writeback_limit_enable", "x", "EINVAL", &["expected 0"]),
        ("compressed_writeback", "0", "EINVAL", &["packed"]),
        ("writeback", "idle", "EINVAL", &["disksize"]),
    ];
    refused(&zram, cases);
    zram.store("backing_dev", &file).unwrap();
    assert_eq!(zram.show("backing_dev").unwrap(), format!("{file}\n"));
    let second = Zram::new().store("backing_dev", &file).unwrap_err();
    assert_eq!(second.errno(), errno("EBUSY"), "{second}");
    zram.store("disksize", "1M").unwrap();
    let device = zram.open().unwrap();
    for slot in 0..20 {
        let mut block = [slot as u8; SLOT_BYTES];
        block[..8].copy_from_slice(b"not same");
        device.write(slot * SLOT_BYTES as u64, &block).unwrap();
    }
    let cases: &[(&str, &str, &str, &[&str])] = &[
        ("backing_dev", &file, "EBUSY", &["reset"]),
        ("writeback", "", "EINVAL", &["idle"]),
        ("writeback", "type=cold", "EINVAL", &["idle"]),
        ("writeback", "page_index=256", "ERANGE", &["last page is 255"]),
        ("writeback", "page_indexes=3-1", "EINVAL", &["first"]),
        ("writeback", "page_indexes=3", "EINVAL", &["page_indexes"]),
    ];
    refused(&zram, cases);
    zram.store("writeback", "page_index=3 page_indexes=5-6 page_index=0x7").unwrap();
    zram.store("writeback", "type=huge").unwrap();
    let away = || device.block_state().filter(|of| of.is_written_back).map(|of| of.index);
    assert_eq!(away().collect::<Vec<_>>(), [3, 5, 6, 7]);
    zram.store("idle", "all").unwrap();
    device.read(0, &mut [0; 1]).unwrap();
    zram.store("writeback_limit_enable", "1").unwrap();
    refused(&zram, &[("writeback", "idle", "EIO", &["writeback_limit"])]);
    zram.store("writeback_limit", "9").unwrap();
    zram.store("writeback", "idle").unwrap();
    assert_eq!(away().count(), 19);
    assert_eq!(zram.show("writeback_limit").unwrap(), "8\n");
    assert_eq!(zram.show("bd_stat").unwrap(), "       2        0        2        0        0\n");
    let none = made("1M").store("writeback", "idle").unwrap_err();
    assert_eq!((none.errno(), none.to_string().contains("backing_dev")), (errno("ENODEV"), true));
    drop(device);
    zram.store("reset", "1").unwrap();
    assert_eq!(zram.show("backing_dev").as_deref(), Ok("none\n"));
    assert_eq!(zram.show("writeback_limit").as_deref(), Ok("8\n"));
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn the_table_is_whole() {
    let names: HashSet<_> = attributes().iter().map(|attribute| attribute.name).collect();
    assert_eq!(names.len(), attributes().len());
    let zram = made("64K");
    for attribute in attributes() {
        let (name, access) = (attribute.name, attribute.access());
        assert!(!attribute.summary.is_empty() && attribute.summary.len() < 100, "{name}");
        let shown = zram.show(name);
        match access {
            Access::Write => assert_eq!(shown, Err(Error::Access { name, access })),
            // `block_state` is empty because the device is empty, and `recomp_algorithm` is empty
            // because no second algorithm is set.
            _ => {
                let may_be_empty = ["block_state", "recomp_algorithm"].contains(&name);
                assert!(shown.unwrap().ends_with('\n') || may_be_empty, "{name}");
            }
        }
        if access == Access::Read {
            let error = zram.store(name, "1").unwrap_err();
            assert_eq!((error.errno(), error), (errno("EACCES"), Error::Access { name, access }));
        }
    }
    let error = zram.show("mm\nstat").unwrap_err();
    assert_eq!(error.errno(), errno("ENOENT"));
    assert_eq!(error.to_string().lines().count(), 1);
    assert_eq!(zram.store("max_comp_streams", "1").unwrap_err().errno(), errno("ENOENT"));
}

#[test]
fn a_device_reads_as_the_kernels_does() {
    let zram = Zram::new();
    zram.store("disksize", "0x3001\n").unwrap();
    assert_eq!(zram.show("disksize").as_deref(), Ok("16384\n"));
    assert_eq!(zram.show("initstate").as_deref(), Ok("1\n"));
    let device = zram.open().unwrap();
    device.write(0, &[7; SLOT_BYTES]).unwrap();
    device.write(4096, &0x1122_3344_5566_7788u64.to_ne_bytes().repeat(512)).unwrap();
    let noise: Vec<u8> = {
        let mut rng = fastrand::Rng::with_seed(seed(151));
        (0..SLOT_BYTES).map(|_| rng.u8(..)).collect()
    };
    device.write(12288, &noise).unwrap();
    assert_eq!(
        zram.show("block_state").unwrap(),
        "           0            0.000000 s.....\n\
         \x20          1            0.000000 s.....\n\
         \x20          3            0.000000 ..h...\n"
    );
    zram.store("idle", "all").unwrap();
    device.discard(0, 4096).unwrap();
    assert_eq!(
        zram.show("block_state").unwrap(),
        "           1            0.000000 s.....\n\
         \x20          3            0.000000 ..hi..\n"
    );
    zram.store("mem_limit", "1M").unwrap();
    let mm_stat = zram.show("mm_stat").unwrap();
    let columns: Vec<u64> = mm_stat.split_whitespace().map(|word| word.parse().unwrap()).collect();
    let page = page::page_size() as u64;
    let [orig, compr, used, limit, max, same, compacted, huge, huge_since] = columns[..] else {
        panic!("{mm_stat}")
    };
    assert_eq!((orig, compr, limit), (8192, 4096, 1 << 20));
    assert_eq!((same, compacted, huge, huge_since), (1, 0, 1, 1));
    assert!(used == 2 * page || used == 3 * page && max >= used, "{mm_stat}");
    assert_eq!(zram.show("io_stat").unwrap(), "       0        0        0        1\n");
    let total: u64 = zram.show("mem_total").unwrap().trim().parse().unwrap();
    assert_eq!(total, device.mem_total());
    assert!(zram.show("classes").unwrap().contains("class"));
    zram.store("mem_used_max", "0").unwrap();
    zram.store("compact", "whatever").unwrap();
}

#[test]
fn bad_values_have_the_kernels_errors() {
    let zram = Zram::new();
    let long = "x".repeat(128);
    let before: &[(&str, &str, &str, &[&str])] = &[
        ("disksize", "0", "EINVAL", &["disksize", "'0'"]),
        ("disksize", "", "EINVAL", &["disksize"]),
        ("disksize", "5X", "EINVAL", &["disksize", "5X", "64M"]),
        ("disksize", "17T", "EINVAL", &["16 TiB"]),
        ("disksize", "16777216T", "EINVAL", &["too large"]),
        ("reset", "0", "EINVAL", &["reset"]),
        ("reset", "x", "EINVAL", &["reset"]),
        ("reset", "65536", "ERANGE", &["65536", "65535"]),
        ("comp_algorithm", "nosuch", "EINVAL", &["nosuch", "lz4, lz4hc, zstd"]),
        ("comp_algorithm", "deflate", "EINVAL", &["deflate", "lz4, lz4hc, zstd"]),
        ("comp_algorithm", &long, "E2BIG", &["comp_algorithm"]),
        ("algorithm_params", "level", "EINVAL", &["KEY=VALUE"]),
        ("algorithm_params", "level=", "EINVAL", &["KEY=VALUE"]),
        ("algorithm_params", "level=x", "EINVAL", &["level=x"]),
        ("algorithm_params", "level=3000000000", "ERANGE", &["31 bits"]),
        ("algorithm_params", "deflate.winbits=x", "EINVAL", &["winbits"]),
        ("algorithm_params", "algo=zstd", "EINVAL", &["lz4", "zstd"]),
        ("algorithm_params", "algo=zstd priority=0", "EINVAL", &["lz4", "zstd"]),
        ("algorithm_params", "priority=1", "EINVAL", &["recomp_algorithm"]),
        ("algorithm_params", "priority=4", "EINVAL", &["priority"]),
        ("algorithm_params", "dict=/no/such/file", "ENOENT", &["/no/such/file"]),
        ("algorithm_params", "dict=/dev/null", "EINVAL", &["empty"]),
        ("algorithm_params", "dict=/dev/zero", "EINVAL", &["16777216 bytes at most"]),
        ("mem_limit", "", "EINVAL", &["mem_limit"]),
        ("mem_limit", "much", "EINVAL", &["much"]),
        ("total_limit", "-1", "EINVAL", &["-1"]),
        ("mem_used_max", "1", "EINVAL", &["mem_used_max"]),
        ("mem_used_max", "x", "EINVAL", &["mem_used_max"]),
        ("compact", "1", "EINVAL", &["disksize first"]),
        ("idle", "all", "EINVAL", &["disksize first"]),
        ("idle", "5", "EINVAL", &["disksize first"]),
        ("idle", "some", "EINVAL", &["all"]),
        ("idle", "-1", "EINVAL", &["all"]),
        ("track_access", "2", "EINVAL", &["0, 1"]),
        ("geometry", "linux", "EINVAL", &["native or kernel"]),
        ("geometry", "native chain=8", "EINVAL", &["native"]),
        ("geometry", "kernel chain=0", "EINVAL", &["1 to 256"]),
        ("geometry", "kernel chain=x", "EINVAL", &["PAGES"]),
        ("geometry", "kernel rule=best", "EINVAL", &["used-percent, least-waste"]),
        ("geometry", "kernel 8", "EINVAL", &["chain=N"]),
        ("compaction", "on", "EINVAL", &["auto, manual, off"]),
        ("fork", "0", "EINVAL", &["copy, leave"]),
        ("dump", "yes please\n\n", "EINVAL", &["\\n"]),
    ];
    refused(&zram, before);
    // The rejected values have changed no attribute.
    nothing_reads_as_the_kernels_does();
    assert_eq!(zram.show("comp_algorithm").unwrap(), "[lz4] lz4hc zstd \n");
    assert_eq!(zram.open().unwrap_err().errno(), errno("ENODEV"));
    zram.store("disksize", "1M").unwrap();
    let after: &[(&str, &str, &str, &[&str])] = &[
        ("disksize", "2M", "EBUSY", &["disksize", "reset"]),
        ("comp_algorithm", "zstd", "EBUSY", &["comp_algorithm", "reset"]),
        ("algorithm_params", "level=2", "EBUSY", &["algorithm_params", "reset"]),
        ("track_access", "1", "EBUSY", &["track_access"]),
        ("geometry", "kernel", "EBUSY", &["geometry"]),
        ("compaction", "off", "EBUSY", &["compaction"]),
        ("fork", "leave", "EBUSY", &["fork"]),
        ("dump", "1", "EBUSY", &["dump"]),
        ("idle", "5", "EINVAL", &["track_access"]),
    ];
    refused(&zram, after);
    let open = zram.open().unwrap();
    refused(&zram, &[("reset", "1", "EBUSY", &["it is open", "close it first"])]);
    drop(open);
    zram.store("reset", "+1").unwrap();
}

#[test]
fn settings_are_taken_and_shown() {
    let zram = Zram::new();
    for (name, value, shown) in [
        ("comp_algorithm", "zstd\n", "lz4 lz4hc [zstd] \n"),
        ("total_limit", "64M", "67108864\n"),
        ("track_access", "y", "1\n"),
        ("geometry", "kernel", "kernel chain=8 rule=least-waste merge=1\n"),
        (
            "geometry",
            " kernel merge=0 rule=used-percent chain=16 ",
            "kernel chain=16 rule=used-percent merge=0\n",
        ),
        ("compaction", "manual", "auto [manual] off \n"),
        ("fork", "leave", "copy [leave] \n"),
        ("dump", "on", "1\n"),
    ] {
        zram.store(name, value).unwrap();
        assert_eq!(zram.show(name).as_deref(), Ok(shown), "{name}");
    }
    zram.store("mem_limit", "5000").unwrap();
    let page = page::page_size() as u64;
    let limit = || zram.show("mm_stat").unwrap().split_whitespace().nth(3).unwrap().to_owned();
    assert_eq!(limit(), 5000u64.next_multiple_of(page).to_string());
    zram.store("disksize", "1M").unwrap();
    assert_eq!(limit(), 5000u64.next_multiple_of(page).to_string());
    zram.store("mem_limit", "0").unwrap();
    assert_eq!(limit(), "0");
    assert_eq!(zram.show("track_access").unwrap(), "1\n");
    let settings = zram.settings();
    assert_eq!((settings.algorithm.name(), settings.disksize), ("zstd", 1 << 20));
    zram.store("reset", "1").unwrap();
    nothing_reads_as_the_kernels_does();
    for name in ["comp_algorithm", "total_limit", "track_access", "geometry", "fork", "dump"] {
        assert_eq!(zram.show(name), Zram::new().show(name));
    }
}

#[test]
fn parameters_are_of_the_algorithm() {
    let zram = Zram::new();
    let params = || zram.settings().params;
    zram.store("comp_algorithm", "zstd").unwrap();
    zram.store("algorithm_params", "level=-5 unknown=7 algo=zstd deflate.winbits=-11").unwrap();
    assert_eq!((params().level, params().dictionary), (Some(-5), None));
    // Each line that is written replaces all parameters, also those that the line omits.
    let file = std::env::temp_dir().join(format!("uzram-dict-{}", std::process::id()));
    std::fs::write(&file, b"bytes that blocks have in common").unwrap();
    zram.store("algorithm_params", &format!("priority=0 dict={}", file.display())).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!((params().level, params().dictionary.is_some()), (None, true));
    // A change of the algorithm also resets the parameters.
    zram.store("comp_algorithm", "lz4").unwrap();
    assert_eq!(params(), zcomp::Params::default());
    // A level is checked when the device is created. After an error, all parameters have the
    // defaults again.
    zram.store("comp_algorithm", "zstd").unwrap();
    zram.store("algorithm_params", "level=1000").unwrap();
    zram.store("track_access", "1").unwrap();
    let error = zram.store("disksize", "1M").unwrap_err();
    assert_eq!(error.errno(), errno("EINVAL"));
    assert!(error.to_string().contains("1000"), "{error}");
    assert_eq!(zram.show("initstate").unwrap(), "0\n");
    assert_eq!(zram.show("comp_algorithm").unwrap(), "[lz4] lz4hc zstd \n");
    assert_eq!(
        (params(), zram.show("track_access").unwrap()),
        (zcomp::Params::default(), "1\n".to_owned())
    );
    zram.store("disksize", "1M").unwrap();
}
