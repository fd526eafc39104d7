//! Tests that each scrape of the metrics is answered completely while other clients misbehave.

#![allow(clippy::unwrap_used, reason = "tests")]

use serve::metrics::{CLIENTS, Metrics};
use serve::{Address, Log};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use testkit::wait::{patience, until};

const REQUEST: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// The length of the text that most tests serve, in bytes: about the length of a disk's metrics.
const TEXT: usize = 8 << 10;

struct Served {
    /// The server. The field is an `Option`, so that `drop` can take the server out.
    metrics: Option<Metrics>,
    log: Arc<Mutex<Vec<String>>>,
}

impl Served {
    fn new(at: &Address, text: usize) -> Self {
        let log = Arc::new(Mutex::new(Vec::new()));
        let lines = log.clone();
        let write = Log::new(move |line| lines.lock().unwrap().push(line.to_owned()));
        let listening = at.listen().unwrap();
        let metrics = Metrics::start(listening, move || "m 1\n".repeat(text / 4), write).unwrap();
        Served { metrics: Some(metrics), log }
    }

    /// Serves at a port that the system chooses. Returns the server, and its address as
    /// `HOST:PORT`.
    fn tcp() -> (Self, String) {
        let served = Served::new(&Address::Tcp { host: "127.0.0.1".to_owned(), port: 0 }, TEXT);
        let address = served.metrics.as_ref().unwrap().address().to_string();
        (served, address.strip_prefix("tcp:").unwrap().to_owned())
    }

    /// Waits for a line of the log, which may be written after the client has received its answer.
    fn await_line(&self, part: &str) {
        until(part, || self.log.lock().unwrap().iter().any(|line| line.contains(part)));
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.metrics.take().into_iter().for_each(Metrics::stop);
    }
}

/// Scrapes once. Returns an error if the answer is incomplete, or its status is not 200.
fn scrape(mut stream: impl Read + Write, text: usize) -> Result<(), String> {
    let mut answer = Vec::new();
    stream.write_all(REQUEST).map_err(|error| format!("sending: {error}"))?;
    stream.read_to_end(&mut answer).map_err(|error| format!("receiving: {error}"))?;
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").ok_or(format!("no head: {answer:?}"))?;
    match head.starts_with("HTTP/1.1 200 OK\r\n") && body.len() == text {
        true => Ok(()),
        false => Err(format!("{head}, with {} bytes", body.len())),
    }
}

fn scrape_at(host: &str) -> Result<(), String> {
    let stream = TcpStream::connect(host).map_err(|error| format!("connecting: {error}"))?;
    stream.set_read_timeout(Some(patience())).unwrap();
    scrape(stream, TEXT)
}

/// Calls `work` in each of `count` threads repeatedly, until `run` has returned.
fn beside(count: usize, work: impl Fn(&AtomicBool) + Sync, run: impl FnOnce()) {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..count {
            scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    work(&is_over);
                }
            });
        }
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
        is_over.store(true, Relaxed);
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

fn all_are_answered(host: &str, count: usize) {
    let refused: Vec<_> = (0..count).filter_map(|_| scrape_at(host).err()).collect();
    assert!(refused.is_empty(), "{} of {count} had no answer: {refused:?}", refused.len());
}

#[test]
fn clients_that_keep_sending_keep_no_one_out() {
    let (_served, host) = Served::tcp();
    let sends = |is_over: &AtomicBool| {
        let Ok(mut stream) = TcpStream::connect(&host) else { return };
        stream.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
        let _ = stream.write_all(REQUEST);
        while !is_over.load(Relaxed) && stream.write_all(&[b'x'; 512]).is_ok() {
            thread::sleep(Duration::from_millis(5));
        }
    };
    for count in [16, CLIENTS + 16] {
        beside(count, sends, || all_are_answered(&host, 50));
    }
}

#[test]
fn scrapes_at_once_are_all_answered() {
    let (served, host) = Served::tcp();
    for count in [6, CLIENTS, CLIENTS + 1, 64, 100] {
        for _ in 0..5 {
            let at_once = Barrier::new(count);
            let refused: Vec<_> = thread::scope(|scope| {
                let scrapes: Vec<_> = (0..count)
                    .map(|_| {
                        scope.spawn(|| {
                            at_once.wait();
                            scrape_at(&host)
                        })
                    })
                    .collect();
                scrapes.into_iter().filter_map(|scrape| scrape.join().unwrap().err()).collect()
            });
            assert!(refused.is_empty(), "{} of {count}: {refused:?}", refused.len());
        }
    }
    assert!(served.log.lock().unwrap().is_empty(), "{:?}", served.log.lock().unwrap());
}

#[test]
fn clients_of_a_byte_a_second_keep_no_one_out_and_are_told() {
    let (served, host) = Served::tcp();
    let trickles = |is_over: &AtomicBool| {
        let Ok(mut stream) = TcpStream::connect(&host) else { return };
        for byte in REQUEST.iter().take(REQUEST.len() - 1) {
            if stream.write_all(&[*byte]).is_err() {
                break;
            }
            // Checks every 100 ms whether the test is over.
            for _ in 0..10 {
                if is_over.load(Relaxed) {
                    return;
                }
                thread::sleep(Duration::from_millis(100));
            }
        }
    };
    beside(2 * CLIENTS, trickles, || {
        let begun = Instant::now();
        all_are_answered(&host, 50);
        println!("50 scrapes took {:?}", begun.elapsed());
    });
    served.await_line("to let another one in");
    // Evicted clients receive an answer too.
    let silent: Vec<_> = (0..CLIENTS).map(|_| TcpStream::connect(&host).unwrap()).collect();
    thread::sleep(Duration::from_millis(500));
    scrape_at(&host).unwrap();
    let mut first = &silent[0];
    first.set_read_timeout(Some(patience())).unwrap();
    let mut answer = String::new();
    first.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{answer:?}");
}

#[test]
fn a_request_has_to_come_in_time() {
    let (served, host) = Served::tcp();
    let mut stream = TcpStream::connect(host).unwrap();
    stream.set_read_timeout(Some(patience())).unwrap();
    stream.write_all(&REQUEST[..9]).unwrap();
    let (begun, mut answer) = (Instant::now(), String::new());
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{answer:?}");
    assert!(begun.elapsed() > Duration::from_secs(4), "{:?}", begun.elapsed());
    served.await_line("did not send its request in time");
}

/// The buffer of a client's Unix socket is smaller than the answer.
#[test]
fn answers_that_nobody_takes_keep_no_one_out() {
    const LONG: usize = 4 << 20;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m");
    let _served = Served::new(&Address::Unix(path.clone()), LONG);
    let connect = |path: &Path| {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(patience())).unwrap();
        stream
    };
    let mut stuck: Vec<_> = (0..CLIENTS).map(|_| connect(&path)).collect();
    stuck.iter_mut().for_each(|stream| stream.write_all(REQUEST).unwrap());
    (0..5).for_each(|_| scrape(connect(&path), LONG).unwrap());
    // A client that shuts down its sending side still receives its answer.
    let mut done = connect(&path);
    done.write_all(REQUEST).unwrap();
    done.shutdown(Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    done.read_to_end(&mut answer).unwrap();
    assert!(answer.len() > LONG && answer.starts_with(b"HTTP/1.1 200 OK\r\n"));
}

#[test]
fn what_is_asked_may_come_in_parts_and_more_of_it_is_left_out() {
    let (_served, host) = Served::tcp();
    let mut stream = TcpStream::connect(&host).unwrap();
    stream.set_read_timeout(Some(patience())).unwrap();
    for byte in &REQUEST[..REQUEST.len() - 1] {
        stream.write_all(&[*byte]).unwrap();
        thread::sleep(Duration::from_millis(1));
    }
    stream.write_all(&[&REQUEST[REQUEST.len() - 1..], &[b'x'; 50_000]].concat()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n") && answer.len() > TEXT);
}

#[test]
fn it_ends_whatever_clients_do() {
    let (mut served, host) = Served::tcp();
    let clients: Vec<_> = (0..2 * CLIENTS).map(|_| TcpStream::connect(&host).unwrap()).collect();
    let metrics = served.metrics.take().unwrap();
    let ends = thread::spawn(|| metrics.stop());
    until("it ends", || ends.is_finished());
    drop(clients);
}
