//! Tests that programs of any linkage have the same output as natively.

use crate::programs::Programs;
use crate::support::{Ended, UZRAM, end};
use crate::{WAYS, run};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use testkit::{scaled, seed};

/// The compilers, each with a flag that selects a linkage.
pub const LINKAGES: [(&str, &str); 5] = [
    ("gcc", "-static"),
    ("gcc", "-static-pie"),
    ("gcc", "-no-pie"),
    ("musl-gcc", "-static"),
    ("musl-gcc", "-no-pie"),
];

/// Compiles a program of `tests/programs`. Returns `None` if the compiler is not installed.
pub fn compiled(programs: &Programs, name: &str, (compiler, flag): (&str, &str)) -> Option<String> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let program = programs.path().join(format!("{name}{flag}-{compiler}"));
    let included = testkit::INCLUDED;
    let mut command = Command::new(compiler);
    command.args(["-O1", "-w", "-pthread", flag, "-I", included, "-o"]).arg(&program);
    command.arg(sources.join(name).with_extension("c"));
    match command.status() {
        Ok(status) => assert!(status.success(), "{command:?}"),
        Err(error) => {
            eprintln!("left out, as '{compiler}' can't be executed: {error}");
            return None;
        }
    }
    Some(program.into_os_string().into_string().unwrap())
}

fn natively(command: &[&str]) -> Ended {
    end(Command::new(command[0]).args(&command[1..]).stdin(Stdio::null()))
}

/// Runs a program with a limit. Returns the program's result, and the number of blocks that its
/// processes evicted.
fn limited(options: &[&str], command: &[&str]) -> (Ended, u64) {
    let dir = tempfile::tempdir().unwrap();
    let stats = dir.path().join("stats");
    let mut uzram = run(options);
    uzram.arg("--stats-file").arg(&stats).arg("--").args(command);
    let ended = end(&mut uzram);
    let lines = fs::read_to_string(&stats).unwrap_or_default();
    let evicted = |line| serde_json::from_str::<Value>(line).unwrap()["evicted"].as_u64().unwrap();
    let sum = lines.lines().map(evicted).sum();
    (ended, sum)
}

/// Runs a program natively and with a limit. The results must be equal, and the run with a limit
/// must evict.
fn same(options: &[&str], command: &[&str]) {
    let (ended, evicted) = limited(options, command);
    let expected = natively(command);
    let of = |ended: &Ended| (ended.code, ended.out.clone());
    assert_eq!(of(&ended), of(&expected), "{command:?}, with a limit and without: {ended:?}");
    assert!(evicted > 1000, "{command:?}: {evicted}");
}

#[test]
fn programs_of_any_linkage_find_their_memory() {
    let programs = Programs::new();
    let steps = scaled(2000, 50_000).to_string();
    let of_four = scaled(600, 20_000).to_string();
    let seed = seed(11).to_string();
    for linkage in LINKAGES {
        let of = |name| compiled(&programs, name, linkage);
        let Some(waits) = of("waits") else { continue };
        same(&["--limit", "10M"], &[&waits, "4", "4"]);
        let has_break = linkage.0 == "gcc";
        if let Some(memory) = of("memory").filter(|_| has_break) {
            same(&["--limit", "10M"], &[&memory, &seed, &steps, "1"]);
            same(&["--limit", "10M", "--block", "16K"], &[&memory, &seed, &of_four, "4"]);
            same(&["--limit", "12M"], &[&memory, &seed, &of_four, "4", "fixed"]);
        }
    }
}

/// A process reads and writes the memory of another process. The other process first fills the
/// evicted blocks of that memory.
#[test]
fn processes_read_and_write_each_others_memory() {
    let programs = Programs::new();
    for linkage in [LINKAGES[2], LINKAGES[3]] {
        if let Some(peers) = compiled(&programs, "peers", linkage) {
            same(&["--limit", "20M"], &[&peers]);
        }
    }
}

/// A program that a traced child executes runs without a host. One line on standard error reports
/// this.
#[test]
fn tracers_see_the_stops_of_their_children_alone() {
    let programs = Programs::new();
    for linkage in [LINKAGES[2], LINKAGES[3]] {
        if let Some(traced) = compiled(&programs, "traced", linkage) {
            same(&["--limit", "10M"], &[&traced]);
            let (ended, _) = limited(&["--limit", "10M"], &[&traced]);
            assert_eq!(ended.err.matches("is traced by its parent").count(), 1, "{ended:?}");
        }
    }
}

#[test]
fn each_backend_serves_a_static_program() {
    let programs = Programs::new();
    let memory = compiled(&programs, "memory", LINKAGES[0]).unwrap();
    let (seed, steps) = (seed(12).to_string(), scaled(600, 20_000).to_string());
    for backend in ["signal", "signal-mappings", "signal-remap"] {
        let options = ["--limit", "24M", "--backend", backend];
        let (ended, _) = limited(&options, &[&memory, &seed, &steps, "2"]);
        assert_eq!(ended.out, "all is as it has to be\n", "{backend}: {ended:?}");
        // Whether a run evicts depends on its seed and on the order of its threads. So the sum over
        // all runs is checked.
        let options = ["--limit", "16M", "--backend", backend];
        let evicted = |nth| {
            let fixed = [memory.as_str(), &self::seed(nth).to_string(), &steps, "2", "fixed"];
            let (ended, evicted) = limited(&options, &fixed);
            assert_eq!(ended.out, "all is as it has to be\n", "{backend}: {ended:?}");
            evicted
        };
        let evicted: Vec<_> = (20..26).map(evicted).collect();
        assert!(evicted.iter().sum::<u64>() > 100, "{backend}: {evicted:?}");
    }
}

/// The source of a program that prints how it was started.
const SHOWS: &str = r#"
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>
extern char **environ;
int main(int count, char **args) {
    char path[4096] = "";
    printf("%d:", count);
    for (int nth = 0; nth < count; nth++) printf(" <%s>", args[nth]);
    printf("\n");
    for (char **at = environ; *at; at++) printf("%s\n", *at);
    ssize_t bytes = readlink("/proc/self/exe", path, sizeof path - 1);
    printf("%zd %s %s\n", bytes, path, (char *)getauxval(AT_EXECFN));
    printf("%d %d\n", access("/proc/self/exe", X_OK), getauxval(AT_SECURE) != 0);
    char own[64];
    snprintf(own, sizeof own, "/proc/%d/exe", getpid());
    bytes = readlink(own, path, sizeof path - 1);
    printf("%zd %s\n", bytes, bytes > 0 ? path : "");
    FILE *name = fopen("/proc/self/comm", "r");
    printf("%s", fgets(path, sizeof path, name) ? path : "");
    if (count > 1 && strcmp(args[1], "again") == 0) {
        args[1] = "once";
        fflush(stdout);
        execv("/proc/self/exe", args);
    }
    return 5;
}
"#;

fn showing(programs: &Programs, name: &str, flag: &str) -> String {
    fs::write(programs.path().join("main.c"), SHOWS).unwrap();
    programs.compiled(name, &[flag])
}

#[test]
fn a_program_sees_itself_as_it_was_started() {
    let programs = Programs::new();
    for flag in ["-static", "-static-pie", "-pie"] {
        let program = showing(&programs, "shows", flag);
        for way in WAYS {
            for args in [&["a", "", "b c"][..], &[], &["again", "x"]] {
                let clean = |command: &mut Command| {
                    end(command.args(args).env_clear().env("ONE", "1").env("EMPTY", ""))
                };
                let mut hosted = run(way);
                let ended = clean(hosted.arg(&program));
                let expected = clean(&mut Command::new(&program));
                assert_eq!(ended.out, expected.out, "{way:?} {args:?}");
                assert_eq!(ended.code, Some(5), "{ended:?}");
            }
        }
    }
}

#[test]
fn programs_that_others_execute_keep_the_limit() {
    let programs = Programs::new();
    let program = showing(&programs, "shows", "-static");
    fs::write(programs.path().join("main.c"), LIMITED).unwrap();
    let large = programs.compiled("large", &["-static"]);
    let dynamic = programs.compiled("dynamic", &[]);
    let script = programs.file("script", format!("#!{program} -x y\n").as_bytes(), 0o755);
    let of_script = programs.file("of-script", format!("#!{script}\n").as_bytes(), 0o755);
    for line in [
        format!("{program} a"),
        format!("env -i {program} a"),
        format!("{script} a 'b c'"),
        format!("{of_script} a"),
        format!("env -i sh -c 'env -i {program} a'"),
        format!("exec {program} again"),
        format!("(exec -a other {program} b) 2>/dev/null"),
        format!("echo {program} c | env -i xargs -n 2 env -i"),
    ] {
        let ended =
            end(run(WAYS[0]).args(["sh", "-c", &line]).env_clear().env("PATH", "/usr/bin:/bin"));
        let expected =
            end(Command::new("sh").args(["-c", &line]).env_clear().env("PATH", "/usr/bin:/bin"));
        assert_eq!(ended.out, expected.out, "{line}: {}", ended.err);
        assert_eq!(ended.code, expected.code, "{line}");
    }
    // The programs stay within the limit, whatever their environment contains.
    for line in
        [format!("env -i {large}"), format!("env -i {dynamic}"), format!("env -i sh -c {dynamic}")]
    {
        let (ended, evicted) = limited(&["--limit", "24M"], &["sh", "-c", &line]);
        assert_eq!(ended.out, "all of it\n", "{line}: {ended:?}");
        assert!(ended.err.is_empty() && evicted > 1000, "{line}: {ended:?} {evicted}");
    }
}

/// The source of a program that allocates 48 MiB, and checks how much of the memory is resident.
const LIMITED: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(void) {
    size_t bytes = 48 << 20;
    unsigned char *memory = malloc(bytes);
    for (size_t at = 0; at < bytes; at++) memory[at] = at % 4096 < 3000 ? at >> 12 : 7;
    char line[256];
    long resident = -1;
    FILE *file = fopen("/proc/self/status", "r");
    while (resident < 0 && fgets(line, sizeof line, file)) sscanf(line, "RssAnon: %ld", &resident);
    if (resident < 0 || resident > 27 << 10) {
        printf("%ld KiB are resident\n", resident);
        return 1;
    }
    for (size_t at = 0; at < bytes; at++)
        if (memory[at] != (unsigned char)(at % 4096 < 3000 ? at >> 12 : 7)) abort();
    printf("all of it\n");
    free(memory);
    return 0;
}
"#;

/// A library's constructor starts a thread.
#[test]
fn libraries_may_start_threads() {
    let programs = Programs::new();
    let library = "#include <pthread.h>\n#include <unistd.h>\n\
        static void *waits(void *unused) { pause(); return 0; }\n\
        __attribute__((constructor)) static void begin(void) {\n\
            pthread_t thread; pthread_create(&thread, 0, waits, 0);\n\
        }\n\
        int of_library(void) { return 5; }\n";
    fs::write(programs.path().join("library.c"), library).unwrap();
    let mut gcc = Command::new("gcc");
    gcc.args(["-shared", "-fPIC", "-o", "libearly.so", "library.c", "-pthread"]);
    assert!(gcc.current_dir(programs.path()).status().unwrap().success());
    let main = SHOWS.replace("return 5;", "int of_library(void); return of_library();");
    fs::write(programs.path().join("main.c"), main).unwrap();
    let path = format!("-Wl,-rpath,{}", programs.path().display());
    let program = programs.compiled("early", &["-L.", "-learly", &path]);
    for way in WAYS {
        for command in [&[program.as_str(), "a", "b c"][..], &["sh", "-c", &format!("{program} d")]]
        {
            let clean =
                |command: &mut Command| end(command.env_clear().env("PATH", "/usr/bin:/bin"));
            let ended = clean(run(way).args(command));
            let expected = clean(Command::new(command[0]).args(&command[1..]));
            assert_eq!((&ended.out, ended.code), (&expected.out, expected.code), "{}", ended.err);
        }
    }
}

#[test]
fn sanitized_programs_keep_the_limit() {
    let programs = Programs::new();
    fs::write(programs.path().join("main.c"), LIMITED.replace("48 << 20", "60 << 20")).unwrap();
    let program = programs.compiled("address", &["-fsanitize=address"]);
    // When the program ends, AddressSanitizer starts a process that stops the program and searches
    // for leaks.
    for _ in 0..scaled(3, 30) {
        let (ended, evicted) = limited(&["--limit", "24M"], &[&program]);
        assert_eq!((ended.out.as_str(), ended.code), ("all of it\n", Some(0)), "{ended:?}");
        assert!(evicted > 1000, "{evicted}");
    }
}

/// Pages of a program's zero-initialized data are managed, even if the program has fixed addresses.
#[test]
fn variables_of_a_program_keep_the_limit() {
    let programs = Programs::new();
    let main = LIMITED
        .replace("int main(void) {", "static unsigned char memory[48 << 20];\nint main(void) {");
    let main =
        main.replace("unsigned char *memory = malloc(bytes);", "").replace("free(memory);", "");
    fs::write(programs.path().join("main.c"), main).unwrap();
    for flags in [&["-static-pie"][..], &["-static", "-no-pie"], &["-no-pie"]] {
        let program = programs.compiled("variables", flags);
        let (ended, evicted) = limited(&["--limit", "24M"], &[&program]);
        assert_eq!((ended.out.as_str(), ended.err.as_str()), ("all of it\n", ""), "{flags:?}");
        assert!(evicted > 1000, "{flags:?}: {evicted}");
    }
}

/// Executing an unsuitable file fails with the same error as natively, and no process hangs.
#[test]
fn execve_fails_as_natively() {
    let programs = Programs::new();
    let program = showing(&programs, "shows", "-static");
    let path = |name: &str| programs.path().join(name).to_str().unwrap().to_owned();
    let no_loader =
        programs.compiled("no-loader", &["-Wl,--dynamic-linker=/no/ld-musl-x86_64.so.1"]);
    let pipe = path("pipe");
    assert!(Command::new("mkfifo").args(["-m", "755", &pipe]).status().unwrap().success());
    let unreadable = programs.file("mode", &fs::read(&program).unwrap(), 0o644);
    let carriage = programs.file("carriage", format!("#!{program}\r\n").as_bytes(), 0o755);
    let with_argument = programs.file("argument", format!("#!{program} a\r\n").as_bytes(), 0o755);
    let sections = {
        // The kernel does not read the section table.
        let mut contents = fs::read(&program).unwrap();
        contents[40..43].fill(0xff);
        programs.file("sections", &contents, 0o755)
    };
    for line in [
        format!("{no_loader} a; echo $?"),
        format!("{pipe}; echo $?"),
        format!("{unreadable}; echo $?"),
        format!("{carriage}; echo $?"),
        format!("{with_argument} b; echo $?"),
        format!("{sections} c; echo $?"),
        "/no/such/file; echo $?".to_owned(),
        format!("{program}/x; echo $?"),
        format!("env -i {program} $(seq 6000) | tail -n 4; echo $?"),
        format!("LD_PRELOAD= {program} d; LD_PRELOAD=libm.so.6 {program} e; echo $?"),
        format!(
            "python3 -c 'import os; f = os.open(\"{program}\", 0); \
            os.execve(f, [\"x\"], dict(os.environ))'"
        ),
        format!(
            "python3 -c 'import os; f = os.open(\"{program}\", 0); os.set_inheritable(f, True); \
            os.execv(\"/proc/self/fd/%d\" % f, [\"x\"])'"
        ),
    ] {
        let shown = |command: &mut Command| {
            let ended = end(command.args(["sh", "-c", &line]));
            let lines = ended.out.lines().filter(|line| !line.starts_with("_="));
            (lines.map(str::to_owned).collect::<Vec<_>>(), ended.code)
        };
        let mut natively = Command::new("env");
        assert_eq!(shown(&mut run(WAYS[0])), shown(&mut natively), "{line}");
    }
}

/// If the host's file no longer exists, executed programs run without a host.
#[test]
fn a_program_runs_where_the_host_is_not_there() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("left out, as only root may change the root directory");
        return;
    }
    let programs = Programs::new();
    programs.compiled("static", &["-static"]);
    let ended = end(run(WAYS[0]).arg("chroot").arg(programs.path()).arg("/static"));
    assert_eq!(ended.code, Some(5), "{ended:?}");
}

/// If one `uzram run` starts another, the outer `uzram run` injects no host into the host of the
/// inner one.
#[test]
fn a_limit_within_a_limit_holds() {
    let programs = Programs::new();
    let program = showing(&programs, "shows", "-static");
    for outer in [&["env", "-i"][..], &["sh", "-c", "exec \"$@\"", "sh"]] {
        let inner = [UZRAM, "run", "--limit", "24M", "--", &program, "a"];
        let ended = end(run(WAYS[0]).args(outer).args(inner));
        assert_eq!(ended.code, Some(5), "{outer:?}: {ended:?}");
    }
}

/// Segments that would overlap the host or overflow are refused.
#[test]
fn damaged_segments_are_refused() {
    const HEADERS: usize = 64;
    const HEADER: usize = 56;
    let programs = Programs::new();
    let program = programs.compiled("static-pie", &["-static-pie"]);
    let contents = fs::read(&program).unwrap();
    let count = usize::from(u16::from_le_bytes([contents[56], contents[57]]));
    let is_load = |nth: &usize| contents[HEADERS + nth * HEADER..][..4] == [1, 0, 0, 0];
    let loads: Vec<usize> = (0..count).filter(is_load).collect();
    // The fields of a segment are its offset, address, length in the file, length in memory, and
    // alignment.
    for (field, nth) in
        [8, 16, 32, 40, 48].into_iter().flat_map(|field| loads.iter().map(move |nth| (field, *nth)))
    {
        for value in [u64::MAX, 1 << 62, 64 << 20] {
            let mut damaged = contents.clone();
            let at = HEADERS + nth * HEADER + field;
            damaged[at..at + 8].copy_from_slice(&value.to_le_bytes());
            let path = programs.file("damaged", &damaged, 0o755);
            let ended = end(run(WAYS[0]).arg(&path));
            let is_refused = ended.code == Some(126) && ended.err.contains("damaged");
            // If the file of a program is too short, a signal can end the program, as it does
            // natively.
            let natively = natively(&[&path]).code;
            assert!(is_refused || ended.code == natively, "{field} {nth} {value}: {ended:?}");
        }
    }
}

#[test]
fn a_host_that_can_not_map_a_program_says_why() {
    let programs = Programs::new();
    let program = programs.compiled("static", &["-static"]);
    let contents = fs::read(&program).unwrap();
    let cut = programs.file("cut", &contents[..60], 0o755);
    let no_loader =
        programs.compiled("no-loader", &["-Wl,--dynamic-linker=/no/ld-musl-x86_64.so.1"]);
    for (program, code, part) in [(&cut, 126, "cut"), (&no_loader, 127, "/no/ld-musl")] {
        for way in WAYS {
            let ended = end(run(way).arg(program));
            assert_eq!(ended.code, Some(code), "{ended:?}");
            assert!(ended.err.contains(part), "{ended:?}");
        }
    }
    let ended = end(run(WAYS[0]).arg(&program).env("UZRAM_HOST", "no/host"));
    assert!(ended.code == Some(1) && ended.err.contains("UZRAM_HOST"), "{ended:?}");
}

/// The source of a program that reads and writes bytes by system calls. The bytes are evicted
/// between calls, and lie at every distance from the boundaries of blocks.
const CALLS: &str = r#"
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
enum { PAGES = 6000, CALLS = 30000 };
static char *memory;
static void *work(void *nth) {
    unsigned long seed = (unsigned long)nth * 77 + 5;
    int ends[2];
    if (pipe(ends) != 0) exit(2);
    for (int call = 0; call < CALLS; call++) {
        seed = seed * 6364136223846793005 + 1442695040888963407;
        // Three of four calls use the same page as the previous call.
        unsigned page = call % 4 ? page : seed >> 33;
        char *at = memory + (page % (PAGES / 4 - 2) * 4 + (unsigned long)nth) * 4096;
        size_t bytes = seed >> 20 & 4095;
        if (bytes == 0) continue;
        at[0] = call, at[bytes - 1] = call + 1;
        if (write(ends[1], at, bytes) != (ssize_t)bytes) exit(3);
        at[0] = at[bytes - 1] = 0;
        if (read(ends[0], at, bytes) != (ssize_t)bytes) exit(4);
        if (bytes > 1 && at[0] != (char)call || at[bytes - 1] != (char)(call + 1)) exit(5);
    }
    return NULL;
}
int main(int count, char **args) {
    int threads = atoi(args[1]);
    pthread_t made[4];
    memory = malloc(PAGES * 4096ul);
    memset(memory, 1, PAGES * 4096ul);
    for (long nth = 1; nth < threads; nth++) pthread_create(&made[nth], 0, work, (void *)nth);
    work(0);
    for (long nth = 1; nth < threads; nth++) pthread_join(made[nth], 0);
    puts("all is there");
}
"#;

#[test]
fn simple_calls_take_no_signal_and_find_their_memory() {
    let programs = Programs::new();
    fs::write(programs.path().join("main.c"), CALLS).unwrap();
    let program = programs.compiled("calls", &["-static", "-O1", "-w", "-pthread"]);
    for (threads, most) in [("1", 30_000), ("3", 90_000)] {
        let stats = programs.path().join("stats");
        let mut uzram = run(&["--limit", "16M", "--stats-file"]);
        let ended = end(uzram.arg(&stats).arg("--").args([&program, threads]));
        assert_eq!(ended.out, "all is there\n", "{threads}: {ended:?}");
        let line: Value = serde_json::from_str(&fs::read_to_string(&stats).unwrap()).unwrap();
        let [calls, evicted] = ["calls", "evicted"].map(|name| line[name].as_u64().unwrap());
        assert!(evicted > 2000 && calls < most, "{threads}: {line}");
        fs::remove_file(&stats).unwrap();
    }
}
