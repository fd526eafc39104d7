//! Tests inputs that are created from directories, which the tests make.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use bench::inputs::PageSet;
use measure::page::PAGE_SIZE;

fn tree() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let write = |path: &str, bytes: &[u8]| {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    };
    write("b/two", &[2; 5000]);
    write("a/deep/one", &[1; 4096]);
    write("a/empty", &[]);
    write("top", &[9; 1]);
    symlink(dir.path().join("top"), dir.path().join("a/link")).unwrap();
    symlink(dir.path(), dir.path().join("b/loop")).unwrap();
    dir
}

#[test]
fn files_come_in_path_order_and_are_padded() {
    let dir = tree();
    let set = PageSet::of_tree(dir.path(), &[]).unwrap();
    let paths: Vec<&Path> = set.spans().iter().map(|span| span.path.as_path()).collect();
    assert_eq!(paths, [Path::new("a/deep/one"), Path::new("b/two"), Path::new("top")]);
    assert_eq!(set.page_count(), 4);
    let data = set.load().unwrap();
    assert_eq!(data.len(), 4 * PAGE_SIZE);
    assert!(data[..PAGE_SIZE].iter().all(|&byte| byte == 1));
    assert!(data[PAGE_SIZE..PAGE_SIZE + 5000].iter().all(|&byte| byte == 2));
    assert!(data[PAGE_SIZE + 5000..3 * PAGE_SIZE].iter().all(|&byte| byte == 0));
    assert_eq!(data[3 * PAGE_SIZE], 9);
    assert!(data[3 * PAGE_SIZE + 1..].iter().all(|&byte| byte == 0));
}

#[test]
fn groups_are_the_directories_at_the_top() {
    let dir = tree();
    let set = PageSet::of_tree(dir.path(), &[]).unwrap();
    let pages = |name| set.spans_in(name).flat_map(|span| span.pages()).collect::<Vec<u64>>();
    assert_eq!(pages("a"), [0]);
    assert_eq!(pages("b"), [1, 2]);
    assert_eq!(pages(""), [3]);
    assert!(pages("none").is_empty());
    assert_eq!(set.groups(), ["a", "b", ""]);
    let part = PageSet::of_tree(dir.path(), &["b"]).unwrap();
    assert_eq!(part.spans().len(), 1);
    assert_eq!(part.groups(), ["b"]);
}

#[test]
fn a_cap_keeps_whole_pages_and_batches_agree_with_loading() {
    let dir = tree();
    let set = PageSet::of_tree(dir.path(), &[]).unwrap();
    let whole = set.load().unwrap();
    for (bytes, pages) in
        [(0, 0), (4095, 0), (4096, 1), (8192, 2), (12_287, 2), (16_384, 4), (u64::MAX, 4)]
    {
        let capped = set.clone().capped(bytes);
        assert_eq!(capped.page_count(), pages, "{bytes}");
        assert_eq!(capped.load().unwrap()[..], whole[..pages as usize * PAGE_SIZE]);
    }
    for batch_pages in [1, 3, 8] {
        let mut batch = vec![0xff; batch_pages * PAGE_SIZE];
        let (mut stream, mut read) = (set.stream(), Vec::new());
        loop {
            let pages = stream.read(&mut batch).unwrap();
            read.extend_from_slice(&batch[..pages * PAGE_SIZE]);
            if pages < batch_pages {
                break;
            }
        }
        assert_eq!(read[..], whole[..]);
        assert_eq!(stream.read(&mut batch).unwrap(), 0);
    }
}

#[test]
fn a_file_that_shrank_is_an_error() {
    let dir = tree();
    let set = PageSet::of_tree(dir.path(), &[]).unwrap();
    fs::write(dir.path().join("b/two"), [2; 10]).unwrap();
    let message = set.load().unwrap_err().to_string();
    assert!(message.contains("b/two': not all of its 5000 bytes are there"), "{message}");
}

#[test]
fn a_file_that_vanished_is_an_error_each_time() {
    let dir = tree();
    let set = PageSet::of_tree(dir.path(), &[]).unwrap();
    fs::remove_file(dir.path().join("b/two")).unwrap();
    let message = set.load().unwrap_err().to_string();
    assert!(message.contains("b/two") && message.contains("run again"), "{message}");
    assert!(set.load().is_err());
}

#[test]
fn a_missing_root_is_named() {
    let message = PageSet::of_tree(Path::new("/no/such/place"), &[]).unwrap_err().to_string();
    assert!(message.contains("/no/such/place"), "{message}");
}
