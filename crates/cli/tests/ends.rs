//! Tests the end of `uzram serve`: acknowledged data are saved after each signal that ends it.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use rustix::process::Signal;
use std::fs;
use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use support::host::{Looped, Unmounted, run};
use support::{Server, end, noise, serve, text, until};
use testkit::wait::{load, until_with};

const MIB: usize = 1 << 20;

/// A directory with the locations to which a server can save its disk.
struct Places {
    dir: tempfile::TempDir,
}

impl Places {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("to")).unwrap();
        Places { dir }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Starts a server by a shell line. The server saves to `to/saved`, else to `state/uzram`.
    fn server(&self, line: &str) -> Server {
        let state = format!("export XDG_STATE_HOME='{}'; {line}", self.at("state").display());
        let saved = self.at("to/saved");
        let server =
            Server::within(&state, &["--size", "64M", "--save-on-exit", saved.to_str().unwrap()]);
        server.client().write(0, &text(1, MIB));
        server
    }

    /// Returns whether a saved file contains the data that the test has written.
    fn is_saved(&self, name: &str) -> bool {
        let file = self.at(name);
        file.exists() && Server::restored(&file, &[]).client().read(0, MIB) == text(1, MIB)
    }
}

/// Returns the lines of the server's standard error as they arrive.
fn lines(server: &mut Server) -> impl Iterator<Item = String> + use<> {
    BufReader::new(server.child.stderr.take().unwrap()).lines().map(Result::unwrap)
}

#[test]
fn any_signal_that_would_end_it_saves_or_does_nothing() {
    let default = "exec env --default-signal=HUP,QUIT \"$@\"";
    for signal in ["HUP", "QUIT", "XCPU", "PWR"] {
        let places = Places::new();
        let mut server = places.server(default);
        server.signal(signal);
        assert_eq!(server.ended().0, Some(0), "{signal}");
        assert!(places.is_saved("to/saved"), "{signal}");
    }
    let places = Places::new();
    let mut server = places.server("exec env --ignore-signal=HUP,QUIT \"$@\"");
    for signal in
        ["HUP", "QUIT", "USR1", "USR2", "ALRM", "VTALRM", "PROF", "IO", "PIPE", "XFSZ", "34", "64"]
    {
        server.signal(signal);
        thread::sleep(Duration::from_millis(20));
        assert_eq!(server.ask("stat", &[]).code, Some(0), "{signal}");
    }
    server.signal("TERM");
    assert_eq!(server.ended().0, Some(0));
    assert!(places.is_saved("to/saved"));
}

/// A process receives more than one SIGHUP when its session ends.
#[test]
fn a_hang_up_does_not_give_a_save_up() {
    let places = Places::new();
    let mut server = places.server("exec env --default-signal=HUP \"$@\"");
    server.client().write(MIB as u64, &noise(1, 40 * MIB));
    server.signal("TERM");
    for _ in 0..20 {
        server.signal("HUP");
        thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(server.ended().0, Some(0));
    assert!(places.is_saved("to/saved"));
}

/// If SIGHUP and another signal are pending when the server runs, the kernel delivers SIGHUP first.
#[test]
fn a_hang_up_at_the_same_time_as_another_signal_is_of_the_same_end() {
    let places = Places::new();
    let mut server = places.server("exec env --default-signal=HUP \"$@\"");
    server.client().write(MIB as u64, &noise(1, 40 * MIB));
    server.signal("STOP");
    let threads = PathBuf::from(format!("/proc/{}/task", server.child.id()));
    let is_stopped = |thread: fs::DirEntry| {
        fs::read_to_string(thread.path().join("status")).unwrap().contains("State:\tT")
    };
    until("it stops", || fs::read_dir(&threads).unwrap().all(|of| is_stopped(of.unwrap())));
    ["TERM", "HUP", "CONT"].iter().for_each(|signal| server.signal(signal));
    let code = server.ended().0;
    assert_eq!(code, Some(0), "{}", server.said());
    assert!(places.is_saved("to/saved"));
}

/// A server can receive a signal twice: from the terminal and from a program that forwards signals,
/// or from `timeout`. An interrupted program can also send its children another signal.
#[test]
fn a_signal_that_comes_twice_at_once_is_one() {
    for (signals, pause) in [
        ([Signal::TERM; 2], 0),
        ([Signal::TERM; 2], 1),
        ([Signal::TERM; 2], 20),
        ([Signal::INT, Signal::TERM], 0),
        ([Signal::INT, Signal::TERM], 20),
        ([Signal::TERM, Signal::QUIT], 1),
    ] {
        // If this thread waited between the two signals, the signals are too far apart, and the run
        // tests nothing.
        let shows = (0..20).any(|_| {
            let places = Places::new();
            let mut server = places.server("exec env --default-signal=INT,QUIT \"$@\"");
            server.client().write(MIB as u64, &noise(1, 40 * MIB));
            let at_once = server.signal_at_once(&signals, Duration::from_millis(pause));
            let (code, said) = (server.ended().0, server.said());
            assert!(!at_once || code == Some(0), "{signals:?}: {said}");
            assert!(code != Some(0) || places.is_saved("to/saved"));
            at_once
        });
        assert!(shows, "{signals:?} {pause} ms");
    }
}

/// On a busy machine, the server might not run between two signals. It must still treat them as
/// one.
#[test]
fn two_signals_at_once_are_one_though_the_server_did_not_run_in_between() {
    let shows = (0..20).any(|_| {
        let places = Places::new();
        let mut server = places.server("exec \"$@\"");
        server.client().write(MIB as u64, &noise(1, 40 * MIB));
        server.signal("TERM");
        let mut said = lines(&mut server);
        said.find(|line| line.contains("shutting down")).unwrap();
        let at_once = server.signal_at_once(&[Signal::STOP, Signal::TERM], Duration::ZERO);
        thread::sleep(Duration::from_millis(500));
        server.signal("CONT");
        let code = server.ended().0;
        assert!(!at_once || code == Some(0), "{:?}", said.collect::<Vec<_>>());
        at_once && places.is_saved("to/saved")
    });
    assert!(shows);
}

#[test]
fn where_the_file_can_not_be_written_another_place_is_tried() {
    for (what, place) in [
        ("gone", "state/uzram/saved"),
        ("a directory", "to/saved.1"),
        ("taken", "to/saved.2"),
        ("a pipe", "to/saved.1"),
    ] {
        let places = Places::new();
        let mut server = places.server("exec \"$@\"");
        match what {
            "gone" => fs::remove_dir_all(places.at("to")).unwrap(),
            "a pipe" => drop(run(Command::new("mkfifo").arg(places.at("to/.saved.saving")))),
            _ => fs::create_dir(places.at("to/saved")).unwrap(),
        }
        if what == "taken" {
            fs::write(places.at("to/saved.1"), "precious").unwrap();
        }
        server.signal("TERM");
        let (code, said) = (server.ended().0, server.said());
        assert_eq!(code, Some(1), "{what}: {said}");
        let last = said.lines().last().unwrap();
        let place_named = places.at(place).display().to_string();
        assert!(last.contains("/to/saved'") && last.contains(&place_named), "{what}: {said}");
        assert!(places.is_saved(place), "{what}: {said}");
        let precious = fs::read(places.at("to/saved.1")).unwrap_or_default();
        assert!(what != "taken" || precious == b"precious");
    }
}

/// A file system that is unmounted when this value is dropped.
struct Tmpfs(PathBuf);

impl Tmpfs {
    fn new(at: PathBuf, options: &str) -> Option<Self> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(&at).stderr(Stdio::null());
        mount.status().unwrap().success().then_some(Tmpfs(at))
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_file_system_costs_nothing() {
    let places = Places::new();
    let Some(tmpfs) = Tmpfs::new(places.at("to"), "size=128k") else {
        eprintln!("left out, as it takes root");
        return;
    };
    let mut server = places.server("exec \"$@\"");
    server.signal("TERM");
    let (code, said) = (server.ended().0, server.said());
    assert_eq!(code, Some(1), "{said}");
    assert!(places.is_saved("state/uzram/saved"), "{said}");
    assert_eq!(fs::read_dir(&tmpfs.0).unwrap().count(), 0, "something was left");
    // The server does not use a location on a file system that has become read-only.
    let mut server = places.server("exec \"$@\"");
    run(Command::new("mount").args(["-o", "remount,ro"]).arg(&tmpfs.0));
    server.signal("TERM");
    let (code, said) = (server.ended().0, server.said());
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("Read-only file system"), "{said}");
    assert!(places.is_saved("state/uzram/saved.1"), "{said}");
}

#[test]
fn where_there_is_no_place_it_stays_and_says_so() {
    let places = Places::new();
    fs::write(places.at("state"), "no directory").unwrap();
    for makes_room in [true, false] {
        let mut server = places.server("exec \"$@\"");
        fs::rename(places.at("to"), places.at("away")).unwrap();
        server.signal("TERM");
        let mut lines = lines(&mut server);
        let stays = lines.find(|line| line.contains("the save is tried again")).unwrap();
        assert!(stays.contains("/to/saved'") && stays.contains("No such file"), "{stays}");
        // If the same signal were sent sooner, it would be part of the first request.
        thread::sleep(Duration::from_millis(500));
        assert!(server.child.try_wait().unwrap().is_none(), "it is gone");
        let back = || fs::rename(places.at("away"), places.at("to")).unwrap();
        if makes_room {
            back();
            assert_eq!(server.ended().0, Some(0));
            assert!(places.is_saved("to/saved"));
            fs::remove_file(places.at("to/saved")).unwrap();
        } else {
            // Another signal cancels the save. If the server has hardly run, it treats this signal
            // as part of the first request instead.
            until_with(Duration::from_millis(500), "it is given up", || {
                server.signal("TERM");
                server.child.try_wait().unwrap().is_some()
            });
            assert_eq!(server.ended().0, Some(1));
            assert!(lines.last().unwrap().contains("was not saved"));
            back();
        }
    }
}

/// The test follows the advice in the log, and saves the disk to another file.
#[test]
fn where_there_is_no_place_it_can_be_saved_elsewhere() {
    for (to, code) in [("away/rescued", 1), ("to/saved", 0)] {
        let places = Places::new();
        fs::write(places.at("state"), "no directory").unwrap();
        let mut server = places.server("exec \"$@\"");
        fs::rename(places.at("to"), places.at("away")).unwrap();
        server.signal("TERM");
        let mut lines = lines(&mut server);
        let stays = lines.find(|line| line.contains("the save is tried again")).unwrap();
        assert!(stays.contains("'uzram save'"), "{stays}");
        let stat = server.ask("stat", &["--json"]);
        assert!(stat.code == Some(0) && stat.json()["orig_data_size"] == MIB, "{stat:?}");
        // The server refuses requests that would change the disk.
        for (what, args) in [("attr", &["mem_limit", "1M"][..]), ("recompress", &[]), ("idle", &[])]
        {
            let refused = server.ask(what, args);
            assert!(
                refused.code == Some(1) && refused.err.contains("is shutting down"),
                "{refused:?}"
            );
        }
        let nowhere = server.ask("save", &["/nowhere/at/all"]);
        assert!(nowhere.code == Some(1) && nowhere.err.contains("No such file"), "{nowhere:?}");
        assert!(server.child.try_wait().unwrap().is_none(), "it is gone");
        if code == 0 {
            fs::rename(places.at("away"), places.at("to")).unwrap();
        }
        let rescued = places.at(to);
        let mut saved = server.ask("save", &[rescued.to_str().unwrap()]);
        // The server itself may be saving the disk at this moment.
        while saved.err.contains("already saves the disk")
            && server.child.try_wait().unwrap().is_none()
        {
            thread::sleep(Duration::from_millis(50));
            saved = server.ask("save", &[rescued.to_str().unwrap()]);
        }
        let told = lines.collect::<Vec<_>>().join("\n");
        assert_eq!(server.ended().0, Some(code), "{saved:?} {told}");
        // If the client saves to `to/saved`, the server may have saved the disk there first.
        assert!(code == 0 || saved.code == Some(0), "{saved:?} {told}");
        assert!(code == 0 || told.contains(&format!("saved to '{}'", rescued.display())), "{told}");
        assert!(places.is_saved(to), "{told}");
    }
}

/// If the server did not ignore SIGXFSZ, exceeding the limit of file sizes would end the server.
#[test]
fn a_limit_of_files_is_an_error_like_others() {
    let places = Places::new();
    let mut server = places.server("ulimit -S -f 64; exec \"$@\"");
    server.signal("TERM");
    let mut lines = lines(&mut server);
    let stays = lines.find(|line| line.contains("the save is tried again")).unwrap();
    assert!(stays.contains("File too large"), "{stays}");
    let pid = server.child.id().to_string();
    run(Command::new("prlimit").args(["--fsize=unlimited:", "--pid", &pid]));
    assert_eq!(server.ended().0, Some(0));
    assert!(places.is_saved("to/saved"));
}

#[test]
fn two_servers_do_not_save_to_one_file() {
    let places = Places::new();
    let first = places.server("exec \"$@\"");
    let link = places.at("link");
    std::os::unix::fs::symlink(places.at("to"), &link).unwrap();
    for path in [places.at("to/saved"), link.join("saved"), places.at("to/../to/saved")] {
        let mut second = serve(places.dir.path());
        second.args(["--nbd", "unix:n.sock", "--save-on-exit"]).arg(path);
        let second = end(&mut second);
        assert_eq!(second.code, Some(1), "{second:?}");
        assert!(second.err.contains("another running server saves to '"), "{second:?}");
    }
    drop(first);
    // The lock of a killed server has no effect.
    let mut third = places.server("exec \"$@\"");
    third.signal("TERM");
    assert_eq!(third.ended().0, Some(0));
}

/// Two shells, of one user or of two users, may have different directories of sockets.
#[test]
fn servers_that_share_no_directory_do_not_save_to_one_file() {
    let places = Places::new();
    let link = places.at("link");
    std::os::unix::fs::symlink("to/saved", &link).unwrap();
    let apart = |path: &Path| {
        let mut second = serve(places.dir.path());
        second.env("XDG_RUNTIME_DIR", places.at("other")).args(["--nbd", "unix:n.sock"]);
        end(second.arg("--save-on-exit").arg(path))
    };
    let mut first = places.server("export XDG_RUNTIME_DIR=\"$PWD\"; exec \"$@\"");
    for path in [&places.at("to/saved"), &link] {
        let second = apart(path);
        assert_eq!(second.code, Some(1), "{second:?}");
        assert!(second.err.contains("another running server saves to '"), "{second:?}");
    }
    first.signal("TERM");
    assert_eq!(first.ended().0, Some(0));
    assert!(places.is_saved("to/saved"));
    let names = fs::read_dir(places.at("to")).unwrap();
    let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["saved"], "something else was left");
}

/// If the link's target does not exist, the server keeps the link and creates the target.
#[test]
fn a_link_that_leads_to_nothing_is_followed() {
    let places = Places::new();
    let link = places.at("link");
    std::os::unix::fs::symlink("to/saved", &link).unwrap();
    let mut server = Server::new(&["--save-on-exit", link.to_str().unwrap()]);
    server.client().write(0, &text(1, MIB));
    server.signal("TERM");
    assert_eq!(server.ended().0, Some(0), "{}", server.said());
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(places.is_saved("to/saved"));
}

/// A file that appeared or changed since the server's start is never replaced, because it may be
/// the only copy of its data.
#[test]
fn what_came_to_the_file_since_the_start_stays() {
    for was_there in [false, true] {
        let places = Places::new();
        if was_there {
            fs::write(places.at("to/saved"), "before").unwrap();
        }
        let mut server = places.server("exec \"$@\"");
        fs::write(places.at("to/new"), "precious").unwrap();
        fs::rename(places.at("to/new"), places.at("to/saved")).unwrap();
        server.signal("TERM");
        let (code, said) = (server.ended().0, server.said());
        assert_eq!(code, Some(1), "{said}");
        assert_eq!(fs::read(places.at("to/saved")).unwrap(), b"precious", "{said}");
        assert!(said.contains("since this server started"), "{said}");
        assert!(places.is_saved("to/saved.1"), "{said}");
    }
    // The server's own saves are not treated as changes by other programs.
    let places = Places::new();
    let mut server = places.server("exec \"$@\"");
    let saved = places.at("to/saved");
    assert_eq!(server.ask("save", &[saved.to_str().unwrap()]).code, Some(0));
    let earlier = fs::read(&saved).unwrap();
    server.client().write(MIB as u64, &noise(1, MIB));
    server.signal("TERM");
    assert_eq!(server.ended().0, Some(0), "{}", server.said());
    assert!(fs::read(&saved).unwrap() != earlier && places.is_saved("to/saved"));
}

/// A timer can save the disk repeatedly. Even a save at the end is no change by another program.
#[test]
fn a_save_to_the_file_at_the_moment_of_the_end_leaves_it_to_the_end() {
    for round in 0..30 {
        let places = Places::new();
        let mut server = places.server("exec \"$@\"");
        let mut save = Command::new(support::UZRAM);
        save.args(["save", "--control", &server.control()]).arg(places.at("to/saved"));
        let mut save = save.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        if round % 3 > 0 {
            until_with(Duration::ZERO, "something is saved", || {
                places.at("to/saved").exists() || places.at("to/.saved.saving").exists()
            });
        }
        thread::sleep(Duration::from_micros(250 * round));
        server.signal("TERM");
        save.wait().unwrap();
        let (code, said) = (server.ended().0, server.said());
        assert_eq!(code, Some(0), "round {round}: {said}");
        assert!(places.is_saved("to/saved"), "round {round}: {said}");
    }
}

/// After an interrupted restore, the disk holds less data than the file, so the file is kept.
#[test]
fn a_restore_that_the_end_cuts_off_costs_no_file() {
    for name in ["to/saved", "to/new"] {
        let shows = (0..30).any(|round| {
            let places = Places::new();
            let mut first = places.server("exec \"$@\"");
            first.client().write(MIB as u64, &noise(1, 60 * MIB));
            first.signal("TERM");
            assert_eq!(first.ended().0, Some(0), "{}", first.said());
            let [saved, file] = ["to/saved", name].map(|name| places.at(name));
            let mut server = Server::new(&["--save-on-exit", file.to_str().unwrap()]);
            let control = server.control();
            let restore = thread::spawn(move || {
                let mut restore = Command::new(support::UZRAM);
                end(restore.args(["restore", "--served", "--control", &control]).arg(saved))
            });
            thread::sleep(Duration::from_millis(5 * round));
            server.signal("TERM");
            let (restored, code, said) = (restore.join().unwrap(), server.ended().0, server.said());
            // A restore that was not started yet may be refused.
            let is_cut_off = restored.err.contains("cancelled");
            if is_cut_off || restored.code == Some(0) {
                assert!(places.is_saved("to/saved"), "{restored:?}: {said}");
                assert_eq!(code, Some(i32::from(is_cut_off)), "{restored:?}: {said}");
                let lacks_it = is_cut_off && name != "to/saved";
                assert!(!(lacks_it && file.exists()), "{said}");
            }
            is_cut_off
        });
        assert!(shows);
    }
}

#[test]
fn the_file_of_another_server_is_no_place_to_fall_back_to() {
    let places = Places::new();
    let mut server = places.server("exec \"$@\"");
    let other = places.at("to/saved.1");
    let mut other = Server::new(&["--save-on-exit", other.to_str().unwrap()]);
    other.client().write(0, &noise(7, MIB));
    fs::create_dir(places.at("to/saved")).unwrap();
    server.signal("TERM");
    let (code, said) = (server.ended().0, server.said());
    assert_eq!(code, Some(1), "{said}");
    other.signal("TERM");
    assert_eq!(other.ended().0, Some(0), "{}", other.said());
    assert!(places.is_saved("to/saved.2"), "{said}");
    let restored = Server::restored(&places.at("to/saved.1"), &[]);
    assert!(restored.client().read(0, MIB) == noise(7, MIB));
}

/// The server derives the names of other files from the name of this file.
#[test]
fn a_file_whose_name_is_too_long_to_be_saved_is_refused_at_the_start() {
    let places = Places::new();
    for (len, code) in [(255, 2), (248, 2), (242, 2), (241, 0)] {
        let path = places.at("to").join("n".repeat(len));
        let mut command = serve(places.dir.path());
        command.args(["--nbd", "unix:n.sock", "--save-on-exit"]).arg(&path);
        let held = tempfile::tempdir().unwrap();
        let mut server = Server::begun(command.spawn().unwrap(), held);
        if code == 0 {
            server.signal("TERM");
        }
        assert_eq!(server.ended().0, Some(code), "{len}");
        let said = server.said();
        assert!(code == 0 || said.contains("name") && said.contains("too long"), "{len}: {said}");
        assert_eq!(path.exists(), code == 0, "{len}: {said}");
    }
}

/// Returns both ends of a full pipe. No process reads the pipe.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut pipe) = std::io::pipe().unwrap();
    rustix::io::ioctl_fionbio(&pipe, true).unwrap();
    while pipe.write(&[b'.'; 4096]).is_ok() {}
    while pipe.write(b".").is_ok() {}
    rustix::io::ioctl_fionbio(&pipe, false).unwrap();
    (reader, pipe)
}

/// The server's standard error is a full pipe that no process reads.
#[test]
fn nobody_listens_and_it_is_saved_all_the_same() {
    let places = Places::new();
    let saved = places.at("to/saved");
    let (reader, pipe) = full_pipe();
    let mut command = serve(places.dir.path());
    command.args(["--nbd", "unix:nbd.sock", "--save-on-exit"]).arg(&saved).stderr(pipe);
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::announced(command.spawn().unwrap(), dir);
    support::nbd::Client::new(&places.at("nbd.sock")).write(0, &text(1, MIB));
    server.signal("TERM");
    assert_eq!(server.ended().0, Some(0));
    drop(reader);
    assert!(places.is_saved("to/saved"));
}

/// Standard output is a full pipe that no process reads. The server waits for a limited time to
/// print the announcement, and a signal ends the wait.
#[test]
fn a_signal_is_heeded_while_nobody_reads_what_is_served() {
    let places = Places::new();
    let (reader, pipe) = full_pipe();
    let mut command = serve(places.dir.path());
    command.args(["--nbd", "unix:nbd.sock", "--save-on-exit"]).arg(places.at("to/saved"));
    let mut child = command.stdout(pipe).spawn().unwrap();
    let begun = Instant::now();
    until("it listens", || places.at("nbd.sock").exists());
    support::nbd::Client::new(&places.at("nbd.sock")).write(0, &text(1, MIB));
    run(Command::new("kill").arg(child.id().to_string()));
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    drop(reader);
    // Without a signal, the server would wait 10 s for a reader of the pipe.
    let is_early = begun.elapsed() < Duration::from_secs(9);
    assert!(!is_early || !said.contains("standard output"), "it was waited for: {said}");
    assert!(places.is_saved("to/saved"));
}

/// A pipe lies at the temporary path of a save, or at the path of the file to restore.
#[test]
fn nothing_waits_for_a_pipe() {
    let places = Places::new();
    let mut server = places.server("exec \"$@\"");
    let fifo = |name: &str| run(Command::new("mkfifo").arg(places.at(name)));
    fifo("to/.other.saving");
    fifo("to/fifo");
    let within = |mut child: Child| {
        let is_over = load(
            Duration::ZERO,
            || child.try_wait().unwrap().is_some(),
            || thread::sleep(Duration::from_millis(10)),
        );
        let _ = child.kill();
        assert!(is_over, "it waits");
        support::Ended::from(child.wait_with_output().unwrap())
    };
    let control = server.control();
    let asked = |command: &str, args: &[&Path]| {
        let mut asked = Command::new(support::UZRAM);
        asked.arg(command).args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
        within(asked.spawn().unwrap())
    };
    let control = Path::new(&control);
    let flag = Path::new("--control");
    let save = asked("save", &[flag, control, &places.at("to/other")]);
    assert!(save.code == Some(1) && save.err.contains("/to/other'"), "{save:?}");
    // The server also refuses a pipe that has a reader.
    let mut reader = Command::new("cat");
    let mut reader =
        reader.arg(places.at("to/.other.saving")).stdout(Stdio::null()).spawn().unwrap();
    let save = asked("save", &[flag, control, &places.at("to/other")]);
    let _ = (reader.kill(), reader.wait());
    assert!(save.code == Some(1) && save.err.contains("/to/other'"), "{save:?}");
    let served = Path::new("--served");
    let restored = asked("restore", &[served, flag, control, &places.at("to/fifo")]);
    assert!(restored.code == Some(1) && restored.err.contains("/to/fifo'"), "{restored:?}");
    let here = asked("restore", &[&places.at("to/fifo")]);
    assert!(here.code == Some(1) && here.err.contains("/to/fifo'"), "{here:?}");
    let mut begun = serve(places.dir.path());
    begun.args(["--nbd", "unix:n.sock", "--restore"]).arg(places.at("to/fifo"));
    let begun = within(begun.spawn().unwrap());
    assert!(begun.code == Some(1) && begun.err.contains("/to/fifo'"), "{begun:?}");
    let mut dictionary = serve(places.dir.path());
    let dict = format!("algorithm_params=algo=lz4 dict={}", places.at("to/fifo").display());
    dictionary.args(["--nbd", "unix:n.sock", "--set", &dict]);
    let dictionary = within(dictionary.spawn().unwrap());
    assert!(dictionary.code == Some(1) && dictionary.err.contains("fifo"), "{dictionary:?}");
    server.signal("TERM");
    assert_eq!(server.ended().0, Some(0));
}

/// A server whose backing store is the disk of another server. The test can stop the other server.
struct Stored {
    server: Server,
    store: Server,
    places: Places,
    _looped: Looped,
    _unmounted: Unmounted,
}

impl Stored {
    fn new() -> Option<Self> {
        let is_here = |path: &str| Path::new(path).exists();
        let is_root = rustix::process::geteuid().is_root();
        if !is_root || !is_here("/dev/fuse") || !is_here("/dev/loop-control") {
            eprintln!("left out, as it takes root, /dev/fuse and loop devices");
            return None;
        }
        let places = Places::new();
        let mount = places.at("m");
        fs::create_dir(&mount).unwrap();
        let unmounted = Unmounted(mount.clone());
        let store = Server::new(&["--mount", mount.to_str().unwrap()]);
        let mut losetup = Command::new("/usr/sbin/losetup");
        let attached =
            run(losetup.args(["-f", "--show", "--direct-io=on"]).arg(mount.join("disk")));
        let looped = Looped(attached.trim_end().to_owned(), places.at("nowhere"));
        let server = places.server(&format!("exec \"$@\" --backing {}", looped.0));
        Some(Stored { server, store, places, _looped: looped, _unmounted: unmounted })
    }
}

#[test]
fn what_the_backing_store_lost_is_named_and_all_else_is_saved() {
    let Some(mut stored) = Stored::new() else { return };
    let Stored { server, store, places, .. } = &mut stored;
    let away = server.ask("writeback", &["page_indexes=0-9"]);
    assert_eq!(away.code, Some(0), "{away:?}");
    store.child.kill().unwrap();
    store.child.wait().unwrap();
    server.signal("TERM");
    let (code, said) = (server.ended().0, server.said());
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("uzram: lost: bytes 0 to 40959"), "{said}");
    assert!(said.lines().last().unwrap().contains("10 pages could not be read"), "{said}");
    let mut salvage = Command::new(support::UZRAM);
    salvage.args(["restore", "--salvage", "-o"]).arg(places.at("image"));
    let salvage = end(salvage.arg(places.at("to/saved")));
    assert_eq!(salvage.code, Some(1), "{salvage:?}");
    let image = fs::read(places.at("image")).unwrap();
    assert!(
        image[..40960].iter().all(|&byte| byte == 0) && image[40960..MIB] == text(1, MIB)[40960..]
    );
}

#[test]
fn a_job_that_hangs_is_given_up_and_all_is_saved() {
    let Some(mut stored) = Stored::new() else { return };
    let Stored { server, store, places, .. } = &mut stored;
    store.signal("STOP");
    let mut job = Command::new(support::UZRAM);
    job.args(["writeback", "--control", &server.control(), "page_indexes=0-99"]);
    let mut job = job.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("the job begins", || !server.ask("stat", &["--json"]).json()["job"].is_null());
    server.signal("TERM");
    let is_saved = load(
        Duration::ZERO,
        || places.at("to/saved").exists(),
        || thread::sleep(Duration::from_millis(20)),
    );
    // The process of the server can't end before its backing store answers.
    store.signal("CONT");
    let _ = job.wait();
    assert_eq!(server.ended().0, Some(0));
    assert!(is_saved && server.said().contains("did not end in time, and is abandoned"));
    assert!(places.is_saved("to/saved"));
}
