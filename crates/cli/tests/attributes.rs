//! Tests the table that `uzram attributes` prints, and `uzram fill` with attributes.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use std::process::Command;
use support::{PAGE, UZRAM, end, fill, noise, text, write_all};

#[test]
fn the_table_is_the_devices() {
    let ended = end(Command::new(UZRAM).arg("attributes"));
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    let lines: Vec<&str> = ended.out.lines().collect();
    assert_eq!(lines.len(), zram::attributes().len());
    for (line, attribute) in lines.iter().zip(zram::attributes()) {
        assert!(line.starts_with(&format!("{:<17} ", attribute.name)), "{line}");
        assert!(line.contains(&attribute.access().to_string()), "{line}");
        assert!(line.ends_with(attribute.summary), "{line}");
    }
    let ended = end(Command::new(UZRAM).args(["attributes", "--json"]));
    let json: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    let rows = json.as_array().unwrap();
    assert_eq!(rows.len(), lines.len());
    assert_eq!(rows[0]["name"], "disksize");
    assert_eq!(rows[0]["access"], "read, write");
    assert!(rows.iter().all(|row| row["summary"].is_string()));
}

#[test]
fn attributes_are_set_before_and_shown_after() {
    let dir = tempfile::tempdir().unwrap();
    write_all(dir.path(), &[("a", text(1, 40 * PAGE)), ("b", noise(2, 3 * PAGE))]);
    let set = ["comp_algorithm=zstd", "algorithm_params=level=7", "geometry=kernel chain=4"];
    let set = set.iter().flat_map(|set| ["--set", set]);
    let args = ["--set", "track_access=1", "--show", "comp_algorithm", "--show", "block_state"];
    let ended = end(fill().args(set.clone()).args(args).arg("--json").arg(dir.path()));
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    let json = ended.json();
    assert_eq!((&json["algorithm"], &json["level"]), (&"zstd".into(), &7.into()));
    assert_eq!((&json["geometry"], &json["chain"]), (&"kernel".into(), &4.into()));
    assert_eq!(json["attributes"]["comp_algorithm"], "lz4 lz4hc [zstd] \n");
    let states = json["attributes"]["block_state"].as_str().unwrap();
    assert_eq!(states.lines().count(), 43);
    assert_eq!(states.lines().filter(|line| line.ends_with("..h...")).count(), 3, "{states}");
    let table = end(fill().args(set).args(args).arg(dir.path()));
    assert!(table.out.contains("\ncomp_algorithm:\nlz4 lz4hc [zstd] \n"), "{table:?}");
}

#[test]
fn the_limit_of_all_memory_is_told_of() {
    let dir = tempfile::tempdir().unwrap();
    write_all(dir.path(), &[("a", noise(1, 1000 * PAGE))]);
    let args = ["--json", "--threads", "1", "--set", "total_limit=3M"];
    let ended = end(fill().args(args).arg(dir.path()));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let limit_told =
        ended.err.starts_with("uzram: the limit of all memory, 3.0 MiB, is reached after ");
    assert!(limit_told && ended.err.contains("total_limit"), "{ended:?}");
    let json = ended.json();
    let total = json["mem_total"].as_u64().unwrap();
    assert!((5 << 19..=3 << 20).contains(&total), "{json}");
}
