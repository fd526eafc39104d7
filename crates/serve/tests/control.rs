//! Tests the control socket during a long job. During the job, other clients must be answered. If
//! the job's client disconnects, the job must continue.

#![allow(clippy::unwrap_used, reason = "tests")]

use rustix::fd::OwnedFd;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with,
};
use serve::Log;
use serve::control::{self, ANSWERS_WITHIN, AskError, CLIENTS, Control, Request};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use testkit::faulty::Faulty;
use testkit::wait::{patience, until};
use zram::{JobKind, Zram};

struct Steering {
    store: Arc<Faulty>,
    zram: Arc<Zram>,
    control: Control,
    path: PathBuf,
    log: Arc<Mutex<Vec<String>>>,
    _dir: tempfile::TempDir,
}

impl Steering {
    /// Creates a device with data to write back, and a backing store that can get stuck.
    fn new() -> Self {
        let (store, zram) = (Arc::new(Faulty::new(1 << 20)), Arc::new(Zram::new()));
        let backing = store.clone();
        zram.configure("backing_dev", |settings| {
            settings.backing = Some(backing);
            Ok(())
        })
        .unwrap();
        zram.set_disksize(1 << 20).unwrap();
        zram.open().unwrap().write(0, &b"something that compresses ".repeat(3000)).unwrap();
        store.stick(true);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("control.sock");
        let log = Arc::new(Mutex::new(Vec::new()));
        let lines = log.clone();
        let write = Log::new(move |line| lines.lock().unwrap().push(line.to_owned()));
        let listening = control::listen(&path).unwrap();
        let control = Control::start(listening, zram.clone(), write).unwrap();
        Steering { store, zram, control, path, log, _dir: dir }
    }

    fn ask(&self, request: &Request) -> Result<String, AskError> {
        let mut text = Vec::new();
        control::ask(request, &self.path, &mut text).map(|()| String::from_utf8(text).unwrap())
    }

    fn job(&self) -> Option<JobKind> {
        self.zram.open().unwrap().job().map(|job| job.kind)
    }
}

/// A guard that releases the store if a test fails, so that no thread waits for the store.
struct Unstuck<'s>(&'s Faulty);

impl Drop for Unstuck<'_> {
    fn drop(&mut self) {
        self.0.stick(false);
    }
}

/// Starts a job that is stuck during `work`. Afterwards, the job continues to its end.
fn beside_a_stuck_job(steering: &Steering, work: impl FnOnce()) {
    steering.zram.store("idle", "all").unwrap();
    thread::scope(|scope| {
        let _unstuck = Unstuck(&steering.store);
        let write_back = Request::Job(JobKind::WriteBack, "idle".to_owned());
        let job = scope.spawn(move || steering.ask(&write_back));
        until("it begins", || steering.job() == Some(JobKind::WriteBack));
        work();
        steering.store.stick(false);
        let told = job.join().unwrap().unwrap();
        assert!(told.starts_with("pages 20\nbytes "), "{told}");
    });
}

/// Returns the server's answer to a client that sends `bytes` and then shuts down its sending side.
fn sent(steering: &Steering, bytes: &[u8]) -> String {
    let mut client = UnixStream::connect(&steering.path).unwrap();
    client.write_all(bytes).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn others_are_answered_while_a_job_takes_long() {
    let steering = Steering::new();
    beside_a_stuck_job(&steering, || {
        assert_eq!(steering.ask(&Request::Stat).unwrap(), "{}");
        assert_eq!(steering.ask(&Request::Show("disksize".to_owned())).unwrap(), "1048576\n");
        let busy = Request::Job(JobKind::Save, "/tmp/never".to_owned());
        let Err(AskError::Refused(refusal)) = steering.ask(&busy) else { panic!("two at a time") };
        assert_eq!(refusal.errno, 11, "{refusal:?}");
        assert_eq!(steering.job(), Some(JobKind::WriteBack), "they were answered meanwhile");
    });
    assert!(steering.log.lock().unwrap().is_empty());
    assert!(steering.control.stop(patience()));
}

#[test]
fn a_job_goes_on_when_its_client_leaves_and_is_logged() {
    for (fails, line) in [
        (false, "control: 'writeback', whose client left, is done"),
        (true, "'writeback', whose client left, failed: "),
    ] {
        let steering = Steering::new();
        steering.zram.store("idle", "all").unwrap();
        let mut client = UnixStream::connect(&steering.path).unwrap();
        client.write_all(b"writeback\nidle\0").unwrap();
        until("it begins", || steering.job().is_some());
        drop(client);
        steering.store.fail_every(u64::from(fails));
        steering.store.stick(false);
        let log = || steering.log.lock().unwrap().join("\n");
        until("it is logged", || !log().is_empty());
        assert!(log().contains(line), "{}", log());
        let away = steering.zram.show("bd_stat").unwrap();
        assert_eq!(away.trim_start().starts_with("0 "), fails, "{away}");
    }
}

/// Connects clients without complete requests. A part of a request is never carried out.
fn silent(steering: &Steering) -> Vec<UnixStream> {
    let connect = |nth| {
        let mut client = UnixStream::connect(&steering.path).unwrap();
        if nth % 2 == 0 {
            client.write_all(b"store mem_limit\n1048").unwrap();
        }
        client
    };
    (0..CLIENTS).map(connect).collect()
}

fn is_gone(mut client: &UnixStream) -> bool {
    client.set_read_timeout(Some(patience())).unwrap();
    match client.read(&mut [0]) {
        Ok(read) => read == 0,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

#[test]
fn silent_clients_make_room_and_nothing_is_done_for_them() {
    let steering = Steering::new();
    let first = silent(&steering);
    assert_eq!(steering.ask(&Request::Stat).unwrap(), "{}");
    assert!(is_gone(&first[0]));
    let second = silent(&steering);
    assert!(first.iter().all(is_gone));
    assert_eq!(steering.ask(&Request::Stat).unwrap(), "{}");
    let before = steering.zram.show("mm_stat").unwrap();
    assert!(steering.control.stop(patience()));
    assert!(second.iter().all(is_gone));
    let Ok(after) = steering.zram.show("mm_stat") else { panic!("there is a device") };
    let limit = |text: &str| text.split_whitespace().nth(3).map(str::to_owned);
    assert_eq!((limit(&before).as_deref(), limit(&after).as_deref()), (Some("0"), Some("0")));
}

#[test]
fn who_has_asked_makes_room_for_no_one() {
    let steering = Steering::new();
    beside_a_stuck_job(&steering, || {
        let silent = [silent(&steering), silent(&steering)];
        assert_eq!(steering.ask(&Request::Stat).unwrap(), "{}");
        drop(silent);
    });
}

/// The client may have died before it sent the whole request. The part that arrived could be a
/// valid request with another meaning.
#[test]
fn a_request_that_is_cut_off_is_not_done() {
    let steering = Steering::new();
    let limit =
        || steering.zram.show("mm_stat").unwrap().split_whitespace().nth(3).map(str::to_owned);
    for cut in [&b"store mem_limit\n1048"[..], b"store mem_limit\n", b"store", b"stat", b""] {
        let answer = sent(&steering, cut);
        assert!(answer.starts_with("error 22 the request is incomplete"), "{answer}");
        assert_eq!(limit().as_deref(), Some("0"), "{cut:?}");
    }
    let two = sent(&steering, b"store mem_limit\n1048\0stat\0");
    assert!(two.starts_with("error 22 ") && limit().as_deref() == Some("0"), "{two}");
    assert_eq!(sent(&steering, b"store mem_limit\n1048576\0"), "ok\n");
    assert_eq!(limit().as_deref(), Some("1048576"));
}

#[test]
fn what_is_no_text_is_refused_with_words() {
    let steering = Steering::new();
    let answer = sent(&steering, b"save\n/tmp/\xff\0");
    assert!(answer.starts_with("error 22 ") && answer.contains("UTF-8"), "{answer}");
    let zero = steering.ask(&Request::Job(JobKind::Save, "/tmp/\0".to_owned()));
    assert!(matches!(zero, Err(AskError::Refused(_))), "{zero:?}");
}

#[test]
fn at_the_end_it_tells_and_saves_and_changes_nothing() {
    let steering = Steering::new();
    steering.control.only_save();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("saved").to_str().unwrap().to_owned();
    let refused = [
        Request::Store("mem_limit".to_owned(), "1M".to_owned()),
        Request::Store("restore".to_owned(), file.clone()),
        Request::Job(JobKind::Restore, file.clone()),
        Request::Job(JobKind::WriteBack, "idle".to_owned()),
    ];
    for request in refused {
        let Err(AskError::Refused(refusal)) = steering.ask(&request) else { panic!("{request:?}") };
        assert_eq!(refusal.errno, 108, "{refusal:?}");
    }
    assert_eq!(steering.ask(&Request::Stat).unwrap(), "{}");
    assert_eq!(steering.ask(&Request::Show("disksize".to_owned())).unwrap(), "1048576\n");
    let told = steering.ask(&Request::Job(JobKind::Save, file)).unwrap();
    assert!(told.starts_with("pages 20\n"), "{told}");
}

/// Listens at a path, with a backlog for one connection, which is never accepted.
fn stuck(path: &Path) -> OwnedFd {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None);
    let socket = socket.unwrap();
    bind(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
    listen(&socket, 0).unwrap();
    socket
}

#[test]
fn a_server_that_never_answers_is_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let job = Request::Job(JobKind::Save, "/x".to_owned());
    let store = Request::Store("compact".to_owned(), "1".to_owned());
    let show = Request::Show("block_state".to_owned());
    thread::scope(|scope| {
        for (nth, request) in [Request::Stat, job, store, show].into_iter().enumerate() {
            let path = dir.path().join(nth.to_string());
            scope.spawn(move || {
                let _listens = stuck(&path);
                let begun = Instant::now();
                // The first connection has a place in the backlog and gets no answer. The backlog
                // has no place for further connections, including the connection that checks
                // whether the server runs.
                for _ in 0..2 {
                    let answer = control::ask(&request, &path, &mut Vec::new());
                    assert!(matches!(answer, Err(AskError::Silent { .. })), "{answer:?}");
                }
                assert!(begun.elapsed() < 3 * ANSWERS_WITHIN + Duration::from_secs(9));
            });
        }
    });
}

#[test]
fn a_job_may_take_as_long_as_it_likes() {
    let steering = Steering::new();
    // During this time the client checks twice whether the server runs.
    beside_a_stuck_job(&steering, || thread::sleep(ANSWERS_WITHIN * 5 / 2));
}
