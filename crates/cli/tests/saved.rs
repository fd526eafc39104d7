//! Tests that a served disk outlives its server. The server saves its disk at its end, or earlier
//! on request. The server restores its disk at its start, or later while the disk is empty.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use rustix::process::Signal;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;
use support::host::Unmounted;
use support::{ENDS_WITHIN, Server, UZRAM, end, noise, serve, serve_unsized, text, until};
use testkit::wait::until_with;

const MIB: usize = 1 << 20;

/// Returns the names of the files in a directory. No other program uses this directory.
fn names(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap();
    names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn what_was_acknowledged_is_saved_at_the_end_and_restored() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("saved");
    let args = ["--algorithm", "zstd", "--block", "16K", "--save-on-exit", file.to_str().unwrap()];
    let mut server = Server::new(&args);
    let data = [text(1, MIB), noise(2, MIB / 2)].concat();
    server.client().write(5 * MIB as u64 + 77, &data);
    // A client that writes until the connection ends counts the acknowledged writes.
    let mut writer = server.client();
    let writes = thread::spawn(move || {
        let mut acknowledged = 0;
        while writer.try_write(acknowledged * 4096, &text(acknowledged, 4096)).is_ok() {
            acknowledged = (acknowledged + 1) % 1024;
        }
        acknowledged
    });
    thread::sleep(Duration::from_millis(300));
    server.signal("TERM");
    let (code, took) = server.ended();
    let said = server.said();
    assert_eq!(code, Some(0), "{said}");
    assert!(took < ENDS_WITHIN && said.contains("uzram: saving to '"), "{took:?}: {said}");
    assert!(said.contains("uzram: saved "), "{said}");
    assert_eq!(names(dir.path()), ["saved"]);
    let acknowledged = writes.join().unwrap();

    let mut again = Server::restored(&file, &["--save-on-exit", file.to_str().unwrap()]);
    assert!(again.announcement.starts_with("serving 256.0 MiB, zstd: "), "{}", again.announcement);
    let mut client = again.client();
    assert!(client.read(5 * MIB as u64 + 77, data.len()) == data);
    // The last write may have been stored although it was not acknowledged.
    for nth in 0..acknowledged {
        assert!(client.read(nth * 4096, 4096) == text(nth, 4096), "block {nth}");
    }
    assert_eq!(again.ask("attr", &["block_size"]).out, "16384\n");
    client.write(0, &[9; 4096]);
    again.signal("INT");
    assert_eq!(again.ended().0, Some(0));
    let larger = Server::restored(&file, &["--size", "300M", "--algorithm", "lz4", "--read-only"]);
    let served = &larger.announcement;
    assert!(served.starts_with("serving 300.0 MiB, lz4, read-only: "), "{served}");
    assert_eq!(larger.client().read(0, 4096), [9; 4096]);
    assert!(larger.client().read(5 * MIB as u64 + 77, data.len()) == data);
}

#[test]
fn what_can_not_be_restored_is_not_served() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("saved");
    let server = Server::new(&[]);
    server.client().write(0, &text(1, MIB));
    assert_eq!(server.ask("save", &[file.to_str().unwrap()]).code, Some(0));
    let refused = |size: &str| {
        let mut command = serve_unsized(dir.path());
        command.args(["--nbd", "unix:nbd.sock", "--restore", "saved"]);
        if !size.is_empty() {
            command.args(["--size", size]);
        }
        let ended = end(&mut command);
        assert_eq!((ended.out.as_str(), ended.err.lines().count()), ("", 1), "{ended:?}");
        assert_eq!(names(dir.path()).len(), usize::from(file.exists()), "a socket was made");
        ended
    };
    let small = refused("255M");
    assert!(small.code == Some(2) && small.err.contains("268435456"), "{small:?}");
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, &bytes).unwrap();
    let damaged = refused("");
    assert!(damaged.code == Some(1) && damaged.err.contains("checksum"), "{damaged:?}");
    assert!(damaged.err.contains("'saved' can't be restored: at offset "), "{damaged:?}");
    fs::remove_file(&file).unwrap();
    let missing = refused("");
    assert!(
        missing.code == Some(1) && missing.err.contains("'saved': No such file"),
        "{missing:?}"
    );
    let neither = end(serve_unsized(dir.path()).args(["--nbd", "unix:nbd.sock"]));
    assert!(neither.code == Some(2) && neither.err.contains("--size"), "{neither:?}");
}

#[test]
fn another_signal_gives_the_save_up() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("saved");
    let gives_up = || {
        let args = ["--save-on-exit", file.to_str().unwrap(), "--mem-limit", "0"];
        let mut server = Server::new(&args);
        // Saving this disk takes a while, because the disk holds 200 MiB of data.
        server.client().write(0, &noise(1, 200 * MIB));
        // The server treats signals that are sent close together as one request to end. The server
        // hardly runs between the signals, so it saves little data before it checks for signals.
        server.signal_at_once(&[Signal::TERM, Signal::STOP], Duration::from_millis(1));
        until_with(Duration::from_millis(20), "it is given up", || {
            let is_over = server.child.try_wait().unwrap().is_some();
            if !is_over {
                let signals = [Signal::INT, Signal::CONT, Signal::STOP];
                server.signal_at_once(&signals, Duration::from_millis(1));
            }
            is_over
        });
        let (code, _) = server.ended();
        assert!(matches!(code, Some(0 | 1)), "{code:?}");
        (code == Some(1)).then(|| server.said())
    };
    // A save that ends before the second signal tests nothing, so the test repeats the save.
    let said = (0..20).find_map(|_| {
        fs::write(&file, "what was there before").unwrap();
        gives_up()
    });
    let said = said.unwrap();
    assert!(
        said.contains("the disk was not saved to '") && said.contains("is unchanged"),
        "{said}"
    );
    assert_eq!(names(dir.path()), ["saved"]);
    assert_eq!(fs::read(&file).unwrap(), b"what was there before");
}

#[test]
fn a_save_that_fails_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let sub = dir.path().join("sub");
    fs::create_dir(&sub).unwrap();
    let file = sub.join("saved");
    let elsewhere = tempfile::tempdir().unwrap();
    let state = format!("export XDG_STATE_HOME='{}'; exec \"$@\"", elsewhere.path().display());
    let args = ["--size", "1M", "--save-on-exit", file.to_str().unwrap()];
    let mut server = Server::within(&state, &args);
    assert_eq!(names(&sub), [".saved.save-on-exit"], "something was made before");
    fs::remove_dir_all(&sub).unwrap();
    server.signal("TERM");
    let (code, said) = (server.ended().0, server.said());
    assert_eq!(code, Some(1), "{said}");
    let last = said.lines().last().unwrap();
    for part in ["the disk could not be saved to '", "sub/saved'", "No such file", "another path"] {
        assert!(last.contains(part), "{part}: {said}");
    }
    assert_eq!(names(&elsewhere.path().join("uzram")), ["saved"]);
    let early = end(serve(dir.path()).args(["--nbd", "unix:n.sock", "--save-on-exit", "no/such"]));
    assert!(early.code == Some(1) && early.err.contains("'no/such'"), "{early:?}");
}

#[test]
fn a_killed_server_leaves_the_file_from_before() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("saved");
    let path = file.to_str().unwrap();
    // A save that ends before the server is killed tests nothing, so the test repeats the save.
    let shows = (0..20).any(|_| {
        let mut server = Server::new(&["--save-on-exit", path, "--mem-limit", "0"]);
        let mut client = server.client();
        client.write(0, &text(1, MIB));
        assert_eq!(server.ask("save", &[path]).code, Some(0));
        let before = fs::read(&file).unwrap();
        // The server is killed while it writes the next file.
        client.write(0, &noise(2, 200 * MIB));
        let mut asked = Command::new(UZRAM);
        asked.args(["save", "--control", &server.control(), path]);
        let asked = asked.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::piped());
        let mut asked = asked.spawn().unwrap();
        let saving = dir.path().join(".saved.saving");
        while !saving.exists() && asked.try_wait().unwrap().is_none() {
            thread::sleep(Duration::from_millis(1));
        }
        server.child.kill().unwrap();
        assert!(client.try_write(0, &[1; 512]).is_err());
        let asked: support::Ended = asked.wait_with_output().unwrap().into();
        let is_over = fs::read(&file).unwrap() != before;
        assert!(is_over || asked.code == Some(1), "{asked:?}");
        assert!(asked.code != Some(1) || asked.err.contains("answer is incomplete"), "{asked:?}");
        !is_over
    });
    assert!(shows);
    let again = Server::restored(&file, &[]);
    assert!(again.client().read(0, MIB) == text(1, MIB));
    // The next save reuses the temporary file of the killed server. The next server takes over the
    // lock of the killed server.
    assert_eq!(again.ask("save", &[path]).code, Some(0));
    assert!(!dir.path().join(".saved.saving").exists());
    let mut next = Server::restored(&file, &["--save-on-exit", path]);
    next.signal("TERM");
    assert_eq!(next.ended().0, Some(0), "{}", next.said());
    assert_eq!(names(dir.path()), ["saved"]);
}

#[test]
fn a_server_saves_and_restores_when_it_is_asked() {
    let server = Server::new(&[]);
    let data = text(3, MIB);
    server.client().write(8192, &data);
    // A relative path is resolved in the client's working directory.
    let dir = tempfile::tempdir().unwrap();
    let ask = |server: &Server, command: &str, args: &[&str]| {
        let mut asked = Command::new(UZRAM);
        asked.args([command, "--control", &server.control()]).args(args);
        end(asked.current_dir(dir.path()))
    };
    let saved = ask(&server, "save", &["saved", "--json"]);
    let size = fs::metadata(dir.path().join("saved")).unwrap().len();
    let expected = serde_json::json!({"bytes": size, "lost": [], "lost_pages": 0, "pages": 256});
    assert_eq!(saved.json(), expected, "{saved:?}");
    let words = ask(&server, "save", &["saved"]).out;
    assert!(words.starts_with("256 pages saved in "), "{words}");
    let full = ask(&server, "restore", &["--served", "saved"]);
    assert!(
        full.code == Some(1) && full.err.contains("only an empty one can be restored"),
        "{full:?}"
    );

    let empty = Server::new(&[]);
    let mut client = empty.client();
    // This client has received an answer, so it is connected.
    assert!(client.read(8192, 4096) == [0; 4096]);
    let in_use = ask(&empty, "restore", &["--served", "saved"]);
    assert!(in_use.code == Some(1) && in_use.err.contains("in use by 1 client"), "{in_use:?}");
    // Setting the attribute `restore` is refused like the command `restore`.
    let path = dir.path().join("saved");
    let in_use = ask(&empty, "attr", &["restore", path.to_str().unwrap()]);
    assert!(in_use.code == Some(1) && in_use.err.contains("in use by 1 client"), "{in_use:?}");
    assert!(client.read(8192, 4096) == [0; 4096]);
    drop(client);
    let mut asked = (0..6000).map(|_| {
        thread::sleep(Duration::from_millis(10));
        ask(&empty, "restore", &["--served", "saved", "--json"])
    });
    // The server may detect the client's disconnect only later.
    let restored = asked.find(|ended| ended.code == Some(0)).unwrap();
    assert_eq!(restored.out, "{\"pages\":256}\n");
    assert!(empty.client().read(8192, MIB) == data);

    for (args, part) in [
        (&["restore", "--served", "--salvage", "saved"][..], "--salvage"),
        (&["restore", "--control", "x", "saved"], "--served"),
        (&["restore", "--served", "-o", "x", "saved"], "--output"),
        (&["save"], "<FILE>"),
        (&["writeback"], "<WORD>"),
    ] {
        let wrong = end(Command::new(UZRAM).args(args).current_dir(dir.path()));
        assert!(wrong.code == Some(2) && wrong.err.contains(part), "{args:?} {wrong:?}");
    }
}

#[test]
fn cold_data_are_compressed_again_and_leave_memory() {
    let dir = tempfile::tempdir().unwrap();
    let backing = dir.path().join("cold");
    let backing = backing.to_str().unwrap();
    let server = Server::new(&["--backing", backing, "--set", "recomp_algorithm=algo=zstd"]);
    assert!(names(dir.path()).is_empty(), "the file has a name");
    let data = [text(1, MIB), noise(2, MIB)].concat();
    let mut client = server.client();
    client.write(0, &data);
    let told = server.ask("recompress", &["idle", "--json"]).json();
    assert_eq!(told["tried"], 0, "{told}");
    let told = server.ask("recompress", &["threshold=1000", "algo=zstd", "--json"]).json();
    assert_eq!((&told["tried"], &told["touched"]), (&512.into(), &0.into()), "{told}");
    assert!(told["smaller"].as_u64() >= Some(250) && told["saved_bytes"].as_u64() > Some(9999));
    let words = server.ask("recompress", &[]).out;
    assert!(words.contains(" that were tried are smaller now, by "), "{words}");
    let told = server.ask("writeback", &["huge", "--json"]).json();
    assert_eq!((&told["pages"], &told["bytes"]), (&256.into(), &MIB.into()), "{told}");
    let words = server.ask("writeback", &["page_indexes=0-9"]).out;
    assert!(words.starts_with("10 pages left memory, "), "{words}");
    let stat = server.ask("attr", &["bd_stat"]).out;
    assert!(!stat.trim_start().starts_with("0 "), "{stat}");
    assert!(client.read(0, data.len()) == data);
    for (args, part) in [
        (&["recompress", "algo=lz4hc"][..], "recomp_algorithm does not have this"),
        (&["recompress", "sometimes"], "recompress"),
        (&["writeback", "sometimes"], "expected idle, huge"),
        (&["writeback", "page_index=99999999"], "the last page is 65535"),
    ] {
        let refused = server.ask(args[0], &args[1..]);
        assert!(refused.code == Some(1) && refused.err.contains(part), "{args:?} {refused:?}");
    }
    let plain = Server::new(&[]).ask("writeback", &["idle"]);
    assert!(plain.code == Some(1) && plain.err.contains("no backing store"), "{plain:?}");
    fs::write(dir.path().join("there"), "precious").unwrap();
    let there = end(serve(dir.path()).args(["--nbd", "unix:n.sock", "--backing", "there"]));
    assert!(there.code == Some(1) && there.err.contains("does not exist yet"), "{there:?}");
    assert_eq!(fs::read(dir.path().join("there")).unwrap(), b"precious");
}

#[test]
fn a_mount_that_is_in_use_acknowledges_nothing_that_is_not_saved() {
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        eprintln!("left out, as it takes root and /dev/fuse");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (file, mount) = (dir.path().join("saved"), dir.path().join("m"));
    fs::create_dir(&mount).unwrap();
    let _unmounted = Unmounted(mount.clone());
    let saved = file.to_str().unwrap();
    let mut server = Server::new(&["--mount", mount.to_str().unwrap(), "--save-on-exit", saved]);
    let disk = fs::File::options().read(true).write(true).open(mount.join("disk")).unwrap();
    let refused = server.ask("restore", &["--served", saved]);
    assert!(refused.code == Some(1) && refused.err.contains("is mounted"), "{refused:?}");
    let by_file = fs::write(mount.join("attr/restore"), saved).unwrap_err();
    assert_eq!(by_file.raw_os_error(), Some(16), "{by_file}");
    let acknowledged = Arc::new(AtomicU64::new(0));
    let counts = acknowledged.clone();
    let writes = thread::spawn(move || {
        let write = |nth: u64| disk.write_all_at(&text(nth, 4096), nth % 512 * 4096);
        while write(counts.load(Relaxed)).is_ok() {
            counts.fetch_add(1, Relaxed);
        }
    });
    until("it is written", || acknowledged.load(Relaxed) > 600);
    server.signal("TERM");
    assert_eq!(server.ended().0, Some(0));
    writes.join().unwrap();
    let acknowledged = acknowledged.load(Relaxed);
    let again = Server::restored(&file, &[]);
    let mut client = again.client();
    // The write that was not acknowledged may have replaced the previous write.
    for nth in acknowledged - 511..acknowledged {
        assert!(client.read(nth % 512 * 4096, 4096) == text(nth, 4096), "write {nth}");
    }
}

/// A server saves its disk even if it can't write its log.
#[test]
fn it_is_saved_though_standard_error_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("saved");
    for line in ["exec \"$@\" 2>/dev/full", "exec \"$@\" 2>&-"] {
        let args = ["--size", "4M", "--save-on-exit", file.to_str().unwrap()];
        let mut server = Server::within(line, &args);
        server.client().write(0, &text(1, MIB));
        server.signal("TERM");
        assert_eq!(server.ended().0, Some(0), "{line}");
        assert_eq!(names(dir.path()), ["saved"]);
        assert!(!server.socket().exists());
        fs::remove_file(&file).unwrap();
    }
}
