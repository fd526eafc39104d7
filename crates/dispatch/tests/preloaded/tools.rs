//! Widely used programs. A program's output is the same with and without dispatch.

use crate::support::{Counts, Place};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use testkit::rights::NOBODY;

fn has(program: &str) -> bool {
    let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
    found.is_ok_and(|found| found.status.success())
}

/// Returns a directory that contains a file `text` of `lines` lines.
fn with_text(lines: usize) -> Place {
    let place = Place::new();
    let text =
        (0..lines).map(|line| format!("{} {line}\n", line.wrapping_mul(2_654_435_761) % 99991));
    fs::write(place.path().join("text"), text.collect::<String>()).unwrap();
    place
}

fn python(script: &str) -> Counts {
    let place = Place::new();
    fs::write(place.path().join("script.py"), script).unwrap();
    place.same_line("python3 -X faulthandler script.py; echo $?")
}

#[test]
fn shells_and_pipes() {
    let place = with_text(20_000);
    let counts = place.same_line(
        "sort text | head -n 5; for i in 1 2 3 4 5; do (echo $i; sleep 0.01) | cat; done | wc -l; \
         trap 'echo trapped' USR1; kill -USR1 $$; x=$(echo in; exit 3); echo $? $x; \
         (kill -SEGV $BASHPID; sh -c 'kill -SEGV $$'); echo $?; sh -c 'kill -SYS $$'; echo $?; \
         nothing-of-that-name 2>/dev/null; echo $?",
    );
    assert!(counts.forks > 10, "{counts:?}");
}

#[test]
fn tools_with_threads_and_files() {
    let place = with_text(200_000);
    place.same_line("sort --parallel=4 -S 1M text | cksum; find . -name 'te*' -size +1k; ls text");
    place.same_line(
        "tar cf - text | cksum; tar cf - text | tar xf - -O | cksum; cp text copy; cmp text copy",
    );
    for tool in ["xz -1 -T2", "zstd -q -T2", "gzip -1"] {
        if has(tool.split(' ').next().unwrap()) {
            place
                .same_line(&format!("{tool} -c text | cksum; {tool} -c text | {tool} -dc | cksum"));
        }
    }
}

#[test]
fn git_makes_a_repository() {
    let place = with_text(2_000);
    place.same_line(
        "rm -rf r; export HOME=$PWD GIT_AUTHOR_DATE='1 +0000' GIT_COMMITTER_DATE='1 +0000'; \
         git init -q r && cd r && cp ../text . && git add . && \
         git -c user.name=a -c user.email=b commit -q -m c && git log --format=%H && git fsck && \
         git gc -q && git status --short && git clone -q . ../q && rm -rf ../q",
    );
}

#[test]
fn python_with_threads_and_processes() {
    let counts = python(
        "import threading, subprocess, multiprocessing as m\n\
         def square(x): return x * x\n\
         if __name__ == '__main__':\n\
         \x20   out = []\n\
         \x20   all = [threading.Thread(target=lambda n=n: out.append(n * n)) for n in range(8)]\n\
         \x20   [t.start() for t in all]; [t.join() for t in all]; print(sorted(out))\n\
         \x20   print(subprocess.run(['echo', 'x'], capture_output=True).stdout)\n\
         \x20   print(subprocess.run('exit 3', shell=True).returncode)\n\
         \x20   try: subprocess.run(['/nowhere'])\n\
         \x20   except FileNotFoundError: print('not found')\n\
         \x20   for how in ('fork', 'spawn'):\n\
         \x20       pool = m.get_context(how).Pool(3); print(pool.map(square, range(9)))\n\
         \x20       pool.close(); pool.join()\n",
    );
    assert!(counts.begun > 8 && counts.forks >= 3, "{counts:?}");
}

#[test]
fn python_with_signals() {
    python(
        "import signal, time, os\n\
         n = [0]\n\
         def count(s, f): n[0] += 1\n\
         signal.signal(signal.SIGALRM, count); signal.setitimer(signal.ITIMER_REAL, .002, .002)\n\
         while n[0] < 20: time.sleep(5)\n\
         signal.setitimer(signal.ITIMER_REAL, 0)\n\
         signal.alarm(1); signal.pause(); print('paused')\n\
         three = [signal.SIGSYS, signal.SIGUSR1, signal.SIGSEGV]\n\
         print(signal.pthread_sigmask(signal.SIG_BLOCK, three))\n\
         print(sorted(signal.pthread_sigmask(signal.SIG_UNBLOCK, three)))\n\
         signal.signal(signal.SIGSYS, lambda s, f: print('sys', s))\n\
         os.kill(os.getpid(), signal.SIGSYS)\n",
    );
}

#[test]
fn python_tells_of_its_fault() {
    let place = Place::new();
    place.same_line(
        "python3 -X faulthandler -c 'import ctypes; ctypes.string_at(0)' >told 2>&1; echo $?; \
         grep -v thread told; python3 -c 'import os; os.abort()' >told 2>&1; echo $?",
    );
}

#[test]
fn an_ordinary_user_needs_no_right() {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        return eprintln!("not root: the other tests are run by an ordinary user already");
    }
    let place = with_text(5_000).for_nobody();
    let (shown, counts) = place.preloaded(&["sh", "-c", "id -u; sort text | cksum"]);
    assert!(shown.output.starts_with(&NOBODY.to_string()) && counts.calls > 0, "{shown:?}");
    place.same_line("sort text | cksum; (echo a; echo b) | cat; find . -name text");
    let program = place.compile("children");
    for test in ["raw", "vforks", "stress"] {
        place.same(&[program.to_str().unwrap(), test]);
    }
}
