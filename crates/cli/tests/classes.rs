//! Tests `uzram classes`: the published numbers of the kernel's classes, and wrong command lines.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use serde_json::{Value, json};
use std::process::Command;
use support::{Ended, UZRAM, end};

fn classes(args: &[&str]) -> Ended {
    end(Command::new(UZRAM).arg("classes").args(args))
}

fn table(args: &[&str]) -> String {
    let ended = classes(args);
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{args:?}: {ended:?}");
    ended.out
}

fn listing(args: &[&str]) -> Value {
    let ended = classes(&[args, &["--json"]].concat());
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{args:?}: {ended:?}");
    let json = ended.json();
    assert_eq!(json["class_count"], json["classes"].as_array().unwrap().len(), "{args:?}");
    json
}

/// The arguments, the number of classes, and the watermark. For the rule "used-percent", the
/// kernel's documentation contains the numbers. For other rules, the current kernel determines the
/// numbers.
const COUNTS: [(&[&str], usize, usize); 9] = [
    (&[], 119, 3632),
    (&["--chain", "8"], 119, 3632),
    (&["--rule", "used-percent"], 123, 3632),
    (&["--rule", "least-waste", "--chain", "4"], 69, 3264),
    (&["--chain", "7", "--rule", "used-percent"], 112, 3584),
    (&["--chain", "16", "--rule", "used-percent"], 191, 3840),
    (&["--chain", "16"], 192, 3840),
    (&["--no-merge"], 255, 3632),
    (
        &["--geometry", "kernel", "--chain", "256", "--no-merge", "--rule", "used-percent"],
        255,
        4080,
    ),
];

#[test]
fn counts_are_the_public_ones_in_both_forms() {
    for (args, count, watermark) in COUNTS {
        let json = listing(args);
        let figures = (&json["class_count"], &json["watermark"], &json["huge_size"]);
        let expected = (&count.into(), &watermark.into(), &(watermark - 7).into());
        assert_eq!(figures, expected, "{args:?}");
        assert_eq!((&json["geometry"], &json["order"]), (&"kernel".into(), &0.into()));
        assert!(json["classes_above_page"].is_null() && json["sizes_above_page"].is_null());
        let text = table(args);
        let closing =
            format!("{count} classes, watermark {watermark}, huge from {}", watermark - 7);
        assert_eq!(text.lines().last(), Some(closing.as_str()), "{args:?}");
        assert_eq!(text.lines().count(), count + 2, "{args:?}");
    }
}

#[test]
fn the_listing_names_its_geometry() {
    let names = |args: &[&str]| {
        let json = listing(args);
        ["geometry", "chain", "rule", "merge", "order"].map(|key| json[key].clone())
    };
    let expect = |value: Value| -> [Value; 5] { serde_json::from_value(value).unwrap() };
    assert_eq!(names(&[]), expect(json!(["kernel", 8, "least-waste", true, 0])));
    let args = ["--chain=16", "--rule=used-percent", "--no-merge", "--order=1"];
    assert_eq!(names(&args), expect(json!(["kernel", 16, "used-percent", false, 1])));
    let args = ["--geometry", "native", "--order", "4"];
    assert_eq!(names(&args), expect(json!(["native", null, null, null, 4])));
}

#[test]
fn rows_are_those_of_the_document() {
    let json = listing(&["--rule", "used-percent"]);
    let row = |index: u64| {
        let rows = json["classes"].as_array().unwrap();
        rows.iter().find(|row| row["index"] == index).unwrap().clone()
    };
    let expected = json!({
        "index": 202, "size": 3264, "pages_per_zspage": 4, "objs_per_zspage": 5, "waste": 64,
        "size_min": 3200,
    });
    assert_eq!(row(202), expected);
    let expected = json!({
        "index": 254, "size": 4096, "pages_per_zspage": 1, "objs_per_zspage": 1, "waste": 0,
        "size_min": 3648,
    });
    assert_eq!(row(254), expected);
    let text = table(&["--rule", "used-percent"]);
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    let head = ["class", "size", "pages_per_zspage", "objs_per_zspage", "waste", "merged"];
    assert_eq!(rows[0], head);
    assert_eq!(rows[1], ["0", "32", "1", "128", "0", "-"]);
    assert!(rows.contains(&vec!["202", "3264", "4", "5", "64", "3200..3264"]), "{text}");
    // The columns of the table are consistent with each other.
    for class in json["classes"].as_array().unwrap() {
        let number = |key: &str| class[key].as_u64().unwrap();
        let bytes = number("pages_per_zspage") * 4096;
        assert_eq!(bytes - number("objs_per_zspage") * number("size"), number("waste"));
        assert_eq!(number("size"), 32 + 16 * number("index"));
    }
    assert!(table(&["--no-merge"]).lines().skip(1).take(255).all(|line| line.ends_with("  -")));
}

/// Each case consists of an order, a number of sizes, the number of classes above a page, and a
/// watermark.
#[test]
fn classes_above_a_page_are_the_multi_page_ones() {
    for (order, sizes, above, watermark) in
        [("1", 129, 22, 7264), ("2", 193, 58, 14528), ("3", 225, 88, 29056), ("4", 241, 104, 58112)]
    {
        let json = listing(&["--order", order]);
        assert_eq!(
            (&json["watermark"], &json["huge_size"]),
            (&watermark.into(), &(watermark - 7).into())
        );
        assert_eq!(json["class_count"], 119 + above);
        assert_eq!(json["classes_above_page"], above);
        assert_eq!(json["sizes_above_page"], sizes);
        let rows = json["classes"].as_array().unwrap();
        assert_eq!(rows.iter().filter(|row| row["size"].as_u64().unwrap() > 4096).count(), above);
        let text = table(&["--order", order]);
        let closing = format!(
            "119 classes, watermark 3632, huge from 3625; order {order}: {above} classes above a page \
             (of {sizes} sizes), watermark {watermark}, huge from {}",
            watermark - 7
        );
        assert_eq!(text.lines().last(), Some(closing.as_str()));
    }
}

#[test]
fn native_classes_are_8_bytes_apart() {
    let json = listing(&["--geometry", "native"]);
    assert_eq!((&json["watermark"], &json["huge_size"]), (&4096.into(), &4033.into()));
    for class in json["classes"].as_array().unwrap() {
        let number = |key: &str| class[key].as_u64().unwrap();
        assert_eq!(number("size"), 32 + 8 * number("index"), "{class}");
    }
    let closing = table(&["--geometry", "native", "--order", "2"]);
    assert!(closing.ends_with("classes above a page, watermark 16384, huge from 16129\n"));
    assert!(listing(&["--geometry", "native", "--order", "2"])["sizes_above_page"].is_null());
}

#[test]
fn wrong_use_is_told_in_one_line() {
    let cases: [(&[&str], &[&str]); 14] = [
        (&["--order", "5"], &["--order", "0 to 4"]),
        (&["--order", "-1"], &["--order", "0 to 4"]),
        (&["--order", "4294967296"], &["--order", "0 to 4"]),
        (&["--geometry", "native", "--order", "5"], &["--order", "0 to 4"]),
        (&["--chain", "0"], &["--chain", "1 to 256"]),
        (&["--chain", "257"], &["--chain", "1 to 256"]),
        (&["--chain", "65", "--order", "2"], &["--chain", "1 to 64"]),
        (&["--chain", "-8"], &["--chain", "-8", "number of pages"]),
        (&["--geometry", "native", "--chain", "8"], &["--chain", "--geometry kernel"]),
        (&["--geometry", "native", "--rule", "least-waste"], &["--rule", "--geometry kernel"]),
        (&["--geometry", "native", "--no-merge"], &["--no-merge", "--geometry kernel"]),
        (&["--geometry", "linux"], &["linux", "kernel, native"]),
        (&["--rule", "best"], &["best", "used-percent, least-waste"]),
        (&["/usr/lib"], &["/usr/lib", "uzram classes --help"]),
    ];
    for (args, parts) in cases {
        let ended = classes(args);
        assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{args:?}: {ended:?}");
        assert_eq!(ended.err.lines().count(), 1, "{args:?}: {ended:?}");
        assert!(ended.err.starts_with("uzram: "), "{args:?}: {ended:?}");
        assert!(parts.iter().all(|part| ended.err.contains(part)), "{args:?}: {ended:?}");
    }
}
