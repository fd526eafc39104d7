//! Tests reads and writes that are larger than the limit.

use crate::run;
use crate::support::end;
use serde_json::Value;
use std::fs;
use std::process::Command;

const LIMIT: u64 = 24 << 20;
const BYTES: usize = 64 << 20;

/// Reads a file by one call, and writes part of it to another file by one call. Repeats these steps
/// by calls with offsets. Prints digests of all data.
const PROGRAM: &str = "
import hashlib, os, sys
source, target, size = sys.argv[1], sys.argv[2], int(sys.argv[3])
digest = lambda data: hashlib.md5(data).hexdigest()
file, to = os.open(source, os.O_RDONLY), os.open(target, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
data = os.read(file, size + 5)
print(len(data), digest(data), os.read(file, 1 << 24))
print(os.write(to, memoryview(data)[7:]), os.lseek(to, 0, os.SEEK_CUR))
del data
data = os.pread(to, size, 1000)
print(len(data), digest(data), os.lseek(to, 0, os.SEEK_CUR))
print(os.pwrite(to, data, 12345), os.fstat(to).st_size, os.lseek(to, 0, os.SEEK_CUR))
del data
os.lseek(to, 0, os.SEEK_SET)
print(digest(os.read(to, size * 2)))
";

#[test]
fn they_keep_the_limit() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).into_os_string().into_string().unwrap();
    let mut contents = vec![0_u8; BYTES];
    for (nth, chunk) in contents.chunks_mut(64).enumerate() {
        let word = (nth as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        chunk[..8].copy_from_slice(&word.to_le_bytes());
    }
    fs::write(path("source"), &contents).unwrap();
    let line = ["python3", "-c", PROGRAM];
    let ran = |command: &mut Command, target: &str| {
        let ended = end(command.args([&path("source"), &path(target), &BYTES.to_string()]));
        assert_eq!(ended.code, Some(0), "{ended:?}");
        (ended, fs::read(path(target)).unwrap())
    };
    let (natively, file) = ran(Command::new(line[0]).args(&line[1..]), "native");
    let (limit, stats) = (LIMIT.to_string(), path("stats"));
    for way in [&[][..], &["--no-inject"]] {
        let mut command = run(&["--limit", &limit, "--stats-file", &stats]);
        let (ended, same) = ran(command.args(way).arg("--").args(line), "limited");
        assert_eq!(ended.out, natively.out, "{way:?}");
        assert!(same == file, "{way:?}: the files differ");
    }
    let lines = fs::read_to_string(&stats).unwrap();
    let held = |line| serde_json::from_str::<Value>(line).unwrap()["tree_held_max"].as_u64();
    let held: Vec<u64> = lines.lines().filter_map(held).collect();
    assert!(held.iter().any(|it| *it > LIMIT / 2), "{held:?}");
    assert!(held.iter().all(|it| *it <= LIMIT + LIMIT / 10), "{held:?}");
}
