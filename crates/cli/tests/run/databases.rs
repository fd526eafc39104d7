//! Tests that PostgreSQL gives the same answers as natively: with parallel workers, with compiled
//! queries, and after a backend was killed. This file also tests that PostgreSQL's processes stay
//! within the limit. `make long` runs this test.

use crate::suites::evicted;
use crate::support::{Ended, HOST, UZRAM, end, until};
use measure::memory::bytes;
use rustix::process::{Pid, Signal, geteuid, kill_process};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;
use testkit::is_long;
use testkit::rights::NOBODY;

/// The limit in MiB. The tables are larger than the limit, and so is the server's native memory
/// use.
const LIMIT_MIB: u64 = 160;
const MIB: u64 = 1 << 20;

const SETTINGS: [&str; 14] = [
    "listen_addresses=",
    "shared_buffers=16MB",
    "work_mem=100MB",
    "hash_mem_multiplier=2",
    "max_parallel_workers_per_gather=2",
    "parallel_setup_cost=0",
    "parallel_tuple_cost=0",
    "min_parallel_table_scan_size=0",
    "jit_above_cost=0",
    "jit_inline_above_cost=0",
    "jit_optimize_above_cost=0",
    "fsync=off",
    "autovacuum=off",
    "max_connections=20",
];

const LOAD: [&str; 5] = [
    "create table big as select i as id, (i * 7919::bigint) % 100003 as k, md5(i::text) as t, \
     repeat(chr(97 + i % 26), 220 + i % 60) as s from generate_series(1, 600000) i",
    "create table other as select i as id, i % 977 as k, md5((i * 3)::text) as t \
     from generate_series(1, 200000) i",
    "create index on big (k)",
    "create index on other (t)",
    "analyze",
];

/// The queries return sums of integers and texts. These sums do not depend on the order in which
/// workers run.
const QUERIES: [&str; 11] = [
    "select pg_jit_available()",
    "select pg_total_relation_size('big') > 160 * 1048576",
    "explain (costs off) select count(*), min(a.t) from big a join big b on a.t = b.t",
    "select count(*), sum(a.k), min(a.t), max(b.t) from big a join big b on a.t = b.t",
    "select md5(string_agg(t, ',' order by t)) from big",
    "select count(*), md5(string_agg(c::text, ',' order by g)) \
     from (select substr(t, 1, 5) g, count(*) c, sum(k) from big group by 1) x",
    "select md5(string_agg(r::text, ',' order by id)) \
     from (select id, rank() over (partition by k order by t) r from big) x",
    "select sum(length(s)), sum(k * 3 + id % 7), bit_xor(k), count(distinct t) from big \
     where k % 3 = 1 or s like 'b%'",
    "select count(*) from big a join other b on a.t = b.t where a.k + b.k > 500",
    "with recursive r(n, t) as (select 1, 'x' union all \
     select n + 1, md5(t) from r where n < 20000) select count(*), max(t) from r",
    "select md5(array_agg(id order by k desc, id)::text) from big where id % 2 = 0",
];

const ANALYZED: &str = "explain (analyze, timing off) select sum(k * 3 + id % 7) from big";

/// Returns the folder with the programs of the newest installed PostgreSQL.
fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok();
    let paths = versions.into_iter().flatten().map(|entry| entry.unwrap().path().join("bin"));
    let path = paths.filter(|path| is_long() && path.join("initdb").exists()).max();
    if path.is_none() {
        eprintln!("LEFT OUT: PostgreSQL's queries, which `make long` runs if it is installed");
    }
    path
}

/// A PostgreSQL server that an ordinary user runs. PostgreSQL refuses to run as root.
struct Server {
    dir: TempDir,
    programs: PathBuf,
    /// The command that precedes the name of each server program.
    run: Vec<String>,
    child: Option<Child>,
}

/// Returns a command that an ordinary user runs.
fn ordinary(program: impl AsRef<OsStr>) -> Command {
    if !geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    let user = format!("--reuid={NOBODY}");
    command.args([&user, &format!("--regid={NOBODY}"), "--clear-groups", "--"]).arg(program);
    command
}

impl Server {
    fn new(programs: &Path, is_limited: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path();
        // The commands are copied, because the ordinary user may have no access to the build
        // folder.
        let own = [UZRAM, HOST].map(|file| place.join(Path::new(file).file_name().unwrap()));
        let stats = place.join("stats");
        fs::write(&stats, "").unwrap();
        let mut run = Vec::new();
        if is_limited {
            fs::copy(UZRAM, &own[0]).unwrap();
            fs::copy(HOST, &own[1]).unwrap();
            let limit = format!("{LIMIT_MIB}M");
            let [command, stats] = [&own[0], &stats].map(|path| path.to_str().unwrap());
            let words = [command, "run", "--limit", &limit, "--stats-file", stats, "--"];
            run.extend(words.map(str::to_owned));
        }
        fs::set_permissions(place, fs::Permissions::from_mode(0o755)).unwrap();
        if geteuid().is_root() {
            for path in [place, &stats] {
                chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
            }
        }
        let server = Server { dir, programs: programs.to_owned(), run, child: None };
        let mut initdb = server.command("initdb");
        let ended = end(initdb.args(["-A", "trust", "-U", "me", "-E", "UTF8", "--locale=C"]));
        assert_eq!(ended.code, Some(0), "{ended:?}");
        server
    }

    fn place(&self) -> &Path {
        self.dir.path()
    }

    /// Returns a command that runs a program of the server.
    fn command(&self, name: &str) -> Command {
        let program = self.programs.join(name).into_os_string().into_string().unwrap();
        let words: Vec<_> = self.run.iter().chain([&program]).collect();
        let mut command = ordinary(words[0]);
        command.args(&words[1..]).arg("-D").arg(self.place().join("data"));
        command.current_dir(self.place()).stdin(Stdio::null());
        command
    }

    fn start(&mut self) {
        let mut server = self.command("postgres");
        server.arg("-k").arg(self.place());
        SETTINGS.iter().for_each(|setting| _ = server.args(["-c", setting]));
        let log = File::create(self.place().join("log")).unwrap();
        server.stdout(log.try_clone().unwrap()).stderr(log);
        self.child = Some(server.spawn().unwrap());
        self.until_it_answers();
    }

    fn until_it_answers(&self) {
        until("the server answers", || self.ask(&["select 1"]).out == "1\n");
    }

    fn pid(&self) -> Pid {
        Pid::from_child(self.child.as_ref().unwrap())
    }

    /// Returns a client of the server. The client runs without a limit.
    fn client(&self, lines: &[&str]) -> Command {
        let mut client = Command::new(self.programs.join("psql"));
        client.args(["-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", "me", "postgres", "-h"]);
        client.arg(self.place()).stdin(Stdio::null());
        lines.iter().for_each(|line| _ = client.args(["-c", line]));
        client
    }

    fn ask(&self, lines: &[&str]) -> Ended {
        end(&mut self.client(lines))
    }

    /// Returns the server's answers to `lines`.
    fn answers(&self, lines: &[&str]) -> String {
        let ended = self.ask(lines);
        let log = || fs::read_to_string(self.place().join("log")).unwrap();
        assert_eq!(ended.code, Some(0), "{ended:?}\n{}", log());
        ended.out
    }

    /// Kills a backend. Returns the results of the backend's client and of another client.
    fn crash(&self) -> [Ended; 2] {
        let of = |time: u32| format!("select pg_sleep({time})");
        let lines = [of(10_000), of(10_001)];
        let clients = lines.each_ref().map(|line| {
            let mut client = self.client(&["select count(*), min(t) from big", line, "select 1"]);
            client.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        });
        let [victim, _] = lines.map(|line| {
            let find = format!("select pid from pg_stat_activity where query = '{line}'");
            let mut pid = None;
            until("a backend sleeps", || {
                pid = self.answers(&[&find]).trim().parse().ok();
                pid.is_some()
            });
            Pid::from_raw(pid.unwrap()).unwrap()
        });
        kill_process(victim, Signal::KILL).unwrap();
        clients.map(|client| client.wait_with_output().unwrap().into())
    }

    /// Ends the server. Returns the server's log.
    fn stop(&mut self) -> String {
        kill_process(self.pid(), Signal::INT).unwrap();
        let child = self.child.as_mut().unwrap();
        until("the server ends", || child.try_wait().unwrap().is_some());
        assert!(child.wait().unwrap().success());
        self.child = None;
        fs::read_to_string(self.place().join("log")).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let Some(child) = &mut self.child else { return };
        let _ended = kill_process(Pid::from_child(child), Signal::QUIT);
        thread::sleep(Duration::from_secs(2));
        let _ended = child.kill();
        let _ended = child.wait();
    }
}

/// Returns the number of bytes of a process and its children that count towards the limit.
fn memory(process: Pid) -> u64 {
    let process = process.as_raw_nonzero().get();
    let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children"));
    let children = children.unwrap_or_default();
    let own = process.to_string();
    let processes = children.split_whitespace().chain([own.as_str()]);
    // A process that has just ended uses no memory.
    let texts = processes
        .filter_map(|process| fs::read_to_string(format!("/proc/{process}/smaps_rollup")).ok());
    let of = |text: String| {
        ["Pss_Anon", "Pss_Shmem"].iter().filter_map(|name| bytes(&text, name)).sum::<u64>()
    };
    texts.map(of).sum()
}

/// The results of a test with one server.
struct Done {
    answers: String,
    /// The messages of clients during the crash.
    crash: String,
    again: String,
    analyzed: String,
    log: String,
    /// The maximum memory of the server in bytes. Two consecutive samples must have reached this
    /// value.
    most: u64,
    evicted: u64,
}

/// Ends the sampling of the memory when this value is dropped.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Returns the maximum memory of a server in bytes. Two consecutive samples must have reached this
/// value.
fn most(process: Pid, is_over: &AtomicBool) -> u64 {
    let (mut most, mut before) = (0, 0);
    while !is_over.load(Ordering::Relaxed) {
        let now = memory(process);
        most = most.max(now.min(before));
        before = now;
        thread::sleep(Duration::from_millis(50));
    }
    most
}

fn done(programs: &Path, is_limited: bool) -> Done {
    let mut server = Server::new(programs, is_limited);
    server.start();
    let (is_over, process) = (AtomicBool::new(false), server.pid());
    let mut done = thread::scope(|scope| {
        let over = Over(&is_over);
        let looks = scope.spawn(|| most(process, &is_over));
        server.answers(&LOAD);
        let answers = server.answers(&QUERIES);
        let analyzed = server.answers(&[ANALYZED]);
        let crash = format!("{:?}", server.crash());
        server.until_it_answers();
        let again = server.answers(&QUERIES);
        drop(over);
        let most = looks.join().unwrap();
        Done { answers, crash, again, analyzed, log: String::new(), most, evicted: 0 }
    });
    done.log = server.stop();
    done.evicted = evicted(&server.place().join("stats"));
    done
}

#[test]
fn postgresql_answers_as_without_also_after_a_crash() {
    let Some(programs) = programs() else { return };
    let [without, with] = [false, true].map(|is_limited| done(&programs, is_limited));
    eprintln!(
        "PostgreSQL: at most {} MiB without, {} MiB of {LIMIT_MIB} MiB with; {} blocks evicted",
        without.most / MIB,
        with.most / MIB,
        with.evicted
    );
    assert_eq!(with.answers, without.answers);
    assert_eq!(with.again, without.answers);
    assert_eq!(without.again, without.answers);
    assert_eq!(with.crash, without.crash);
    assert!(with.crash.contains("crash of another server process"), "{}", with.crash);
    for done in [&without, &with] {
        assert!(done.analyzed.contains("Workers Launched: 2"), "{}", done.analyzed);
        let is_compiled = done.answers.starts_with("t\n");
        assert_eq!(done.analyzed.contains("JIT:"), is_compiled, "{}", done.analyzed);
        assert!(done.log.contains("redo done"), "{}", done.log);
    }
    let limit = LIMIT_MIB * MIB;
    assert!(without.most > limit, "{}", without.most);
    assert!(with.most <= limit + limit / 10 || with.log.contains("can't be kept"), "{}", with.most);
    assert!(with.evicted > 1000, "{}", with.evicted);
}
