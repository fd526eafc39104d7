//! Tests programs whose memory is evicted and filled.

use crate::support::{Place, Stats};
use serde_json::Value;
use std::fs;
use testkit::rights::NOBODY;
use testkit::{scaled, seed};

const MB: u64 = 1_000_000;

/// Runs the program `memory`, which checks its own memory. Returns the statistics of its processes.
fn checks_itself(place: &Place, settings: &str, threads: usize) -> Stats {
    let program = place.compile("memory");
    let program = program.to_str().unwrap();
    let steps = scaled(3000, 100_000) / threads;
    let args = [seed(7), steps as u64, threads as u64].map(|number| number.to_string());
    let command = [program, &args[0], &args[1], &args[2]];
    let (shown, stats) = place.hosted(settings, &command);
    assert_eq!(shown.output, "all is as it has to be\n", "{settings}, {command:?}: {shown:?}");
    stats
}

#[test]
fn a_program_of_one_thread_finds_its_memory() {
    for (limit, block) in [(4, 4096), (6, 16384), (8, 65536)] {
        let settings = format!("limit={},block={block}", limit * MB);
        let stats = checks_itself(&Place::new(), &settings, 1);
        assert!(stats.sum("evicted") > 1000 && stats.sum("filled") > 1000, "{settings}");
    }
}

/// The compressor thread ends before a call that fails in a process with several threads. Children
/// that evict nothing have no compressor thread. The compressor thread does not keep the process
/// running after the program's last thread.
#[test]
fn a_program_of_one_thread_may_do_what_only_such_may() {
    let place = Place::new();
    let program = place.compile("single");
    let settings = format!("limit={},block=4096", 20 * MB);
    let stats = place.same(&settings, &[program.to_str().unwrap(), "namespaces"]);
    assert!(stats.sum("evicted") > 1000 && stats.sum("aside") > 100);
    // A process that ends together with its last thread writes no statistics.
    place.same(&settings, &[program.to_str().unwrap(), "exits"]);
}

#[test]
fn so_does_one_of_several() {
    for (limit, block) in [(5, 4096), (8, 16384)] {
        let settings = format!("limit={},block={block}", limit * MB);
        let stats = checks_itself(&Place::new(), &settings, 4);
        assert!(stats.sum("evicted") > 1000 && stats.sum("filled") > 1000, "{settings}");
    }
}

#[test]
fn calls_of_several_threads_are_whole() {
    let place = Place::new();
    let program = place.compile("held");
    let rounds = scaled(20, 400).to_string();
    let stats = place.same("limit=6000000", &[program.to_str().unwrap(), &rounds]);
    assert!(stats.sum("evicted") > 1000, "{}", stats.sum("evicted"));
}

/// If all other threads wait, a thread fills and evicts blocks without protecting the blocks first.
#[test]
fn threads_that_wait_find_their_memory() {
    let place = Place::new();
    let program = place.compile("waits");
    let program = program.to_str().unwrap();
    let rounds = scaled(12, 600).to_string();
    for (limit, block) in [(8, 4096), (10, 16384), (14, 65536)] {
        let settings = format!("limit={},block={block}", limit * MB);
        let stats = place.same(&settings, &[program, &rounds, "4"]);
        assert!(stats.sum("evicted") > 1000, "{}", stats.sum("evicted"));
    }
    let stats = place.same("limit=8000000,block=4096", &[program, "4", "0"]);
    let (kept, filled) = (stats.sum("kept"), stats.sum("filled"));
    assert!(filled > 4000 && kept < filled / 200, "{kept} of {filled} were marked before");
}

/// Calls whose ranges overlap several areas of memory return the same results as natively.
#[test]
fn calls_about_several_areas_end_as_natively() {
    let place = Place::new();
    let program = place.compile("windows");
    for block in [4096, 65536] {
        place.same(&format!("limit=20000000,block={block}"), &[program.to_str().unwrap()]);
    }
}

/// A thread touches memory while another thread replaces that memory by new mappings.
#[test]
fn memory_that_is_replaced_can_be_touched_at_any_time() {
    let place = Place::new();
    let program = place.compile("replaced");
    let rounds = scaled(600, 20_000).to_string();
    place.same("limit=20000000", &[program.to_str().unwrap(), &rounds]);
}

/// When a thread ends, the kernel finds the robust mutexes of the thread, including mutexes in
/// evicted memory.
#[test]
fn who_waits_for_a_thread_that_has_ended_is_told() {
    let place = Place::new();
    let program = place.compile("robust");
    let stats = place.same("limit=10000000,block=4096", &[program.to_str().unwrap()]);
    assert!(stats.sum("evicted") > 10_000, "{}", stats.sum("evicted"));
}

#[test]
fn functions_of_the_c_library_find_their_memory() {
    let place = Place::new();
    let program = place.compile("wrapped");
    let rounds = scaled(300, 4000).to_string();
    for backend in ["signal", "signal-mappings", "signal-remap"] {
        let settings = format!("limit=4000000,arena=268435456,backend={backend}");
        let stats = place.same(&settings, &[program.to_str().unwrap(), &rounds]);
        assert!(stats.sum("evicted") > 1000, "{}", stats.sum("evicted"));
    }
}

/// Each round makes five calls, and each call with evicted buffers raises a signal.
#[test]
fn streams_find_their_memory() {
    let place = Place::new();
    let program = place.compile("streams");
    let rounds = scaled(2000, 20_000);
    for threads in ["1", "2"] {
        let command = [program.to_str().unwrap(), &rounds.to_string(), threads];
        let stats = place.same("limit=6000000,block=4096", &command);
        assert!(stats.sum("evicted") > 100, "{}", stats.sum("evicted"));
        assert!(stats.sum("calls") < 3 * rounds as u64, "{}", stats.sum("calls"));
    }
}

/// If the memory of cancelled calls stayed pinned, the pinned memory would exceed the first limit.
#[test]
fn who_is_cancelled_ends_and_lets_go() {
    let place = Place::new();
    let program = place.compile("cancel");
    let program = program.to_str().unwrap();
    place.same("limit=6000000,block=4096", &[program, "held"]);
    for backend in ["signal", "signal-mappings", "signal-remap"] {
        let settings = format!("limit=60000000,arena=268435456,backend={backend}");
        let stats = place.same(&settings, &[program, "all"]);
        assert!(stats.sum("evicted") > 1000, "{}", stats.sum("evicted"));
    }
}

#[test]
fn limits_of_memory_are_kept_and_inherited() {
    let place = Place::new();
    let program = place.compile("limits");
    let stats = place.same("limit=40000000,block=4096", &[program.to_str().unwrap()]);
    assert!(stats.sum("evicted") > 10_000, "{}", stats.sum("evicted"));
}

/// A process that shares the program's memory can read that memory while all threads of the program
/// are stopped (di-15).
#[test]
fn memory_of_stopped_threads_is_found() {
    let place = Place::new();
    let program = place.compile("stopped");
    let rounds = scaled(30, 1000).to_string();
    let stats = place.same("limit=8000000,block=4096", &[program.to_str().unwrap(), &rounds]);
    assert!(stats.sum("evicted") > 10_000, "{}", stats.sum("evicted"));
}

#[test]
fn programs_that_take_the_clock_away_find_their_memory() {
    let place = Place::new();
    let program = place.compile("clocks");
    for way in ["vdso", "counter"] {
        let stats = place.same("limit=20000000", &[program.to_str().unwrap(), way]);
        assert!(stats.sum("evicted") > 1000, "{way}");
    }
}

#[test]
fn code_that_a_program_drops_comes_back() {
    let place = Place::new();
    let program = place.compile("drops");
    place.same("limit=20000000", &[program.to_str().unwrap()]);
}

#[test]
fn addresses_that_are_free_look_free() {
    let place = Place::new();
    let program = place.compile("probes");
    place.same("limit=20000000,block=16384", &[program.to_str().unwrap()]);
}

#[test]
fn what_outlives_a_call_stays() {
    let place = Place::new();
    let program = place.compile("lasting");
    for block in [4096, 16384] {
        let settings = format!("block={block}");
        let stats = place.same(&settings, &[program.to_str().unwrap()]);
        assert!(stats.sum("evicted") > 4, "{}", stats.sum("evicted"));
    }
}

#[test]
fn each_backend_finds_it() {
    for backend in ["signal", "signal-mappings", "signal-remap"] {
        // The arena is small, because mappings use memory, and each block of the arena may need a
        // mapping.
        let settings = format!("limit=6000000,arena=268435456,backend={backend}");
        let stats = checks_itself(&Place::new(), &settings, 2);
        assert!(stats.sum("evicted") > 1000 && stats.sum("filled") > 1000, "{backend}");
        let told = stats.0[0]["backend"].as_str().unwrap();
        // On a kernel without guard markers in page tables, another backend replaces `signal`.
        assert!(told == backend || backend == "signal", "{backend}: {told}");
    }
}

#[test]
fn threads_are_answered_whose_own_storage_has_gone() {
    let place = Place::new();
    let program = place.compile("locals");
    let (shown, stats) = place.hosted("limit=4000000", &[program.to_str().unwrap()]);
    assert_eq!(shown.output, "all is as it has to be\n", "{shown:?}");
    assert!(stats.sum("evicted") > 1000, "{}", stats.sum("evicted"));
    // Threads that fault at the same time evict one after the other.
    assert!(stats.sum("held_max") <= 4_200_000, "{}", stats.sum("held_max"));
}

#[test]
fn mappings_that_are_the_systems_grow() {
    let place = Place::new();
    let program = place.compile("grow");
    let stats = place.same("", &[program.to_str().unwrap()]);
    assert_eq!(stats.sum("evicted"), 0);
}

#[test]
fn a_program_that_evicts_nothing_finds_its_memory() {
    let stats = checks_itself(&Place::new(), "", 2);
    assert_eq!(stats.sum("evicted"), 0);
}

#[test]
fn an_ordinary_user_needs_no_right() {
    let place = Place::new().for_nobody();
    let (shown, _) = place.hosted("limit=4000000", &["id", "-u"]);
    assert_eq!(shown.output, format!("{NOBODY}\n"));
    checks_itself(&place, "limit=4000000", 1);
}

#[test]
fn each_process_tells_what_it_did_itself() {
    let place = Place::new();
    let program = place.compile("children");
    let command = [program.to_str().unwrap(), "24"];
    let (shown, stats) = place.hosted("limit=8000000", &command);
    assert_eq!((&*shown.output, &*shown.status), ("", "exit status: 0"));
    // The statistics of a child of `vfork` are included in those of its parent.
    let [forked, cloned, parent] = &stats.0[..] else { panic!("{:?}", stats.0) };
    let of = |line: &Value, name: &str| line[name].as_u64().unwrap();
    assert!(of(parent, "evicted") > 4000 && of(parent, "first_touches") > 6000, "{parent}");
    for child in [forked, cloned] {
        for name in ["faults", "first_touches", "kept", "filled", "evicted", "refused", "calls"] {
            assert!(of(child, name) < 100, "{name}: {child}, {parent}");
        }
        assert!(of(child, "held_max") >= of(child, "held"), "{child}");
        assert!(of(child, "stored") > 12 << 20, "what it has is counted: {child}");
    }
}

#[test]
fn python_objects_go_and_come() {
    let place = Place::new();
    let script = "import os\n\
        d = {i: ('key%d' % i, [i, str(i) * 3, {'a': i}]) for i in range(60000)}\n\
        print(sum(d[i][1][0] + len(d[i][0]) for i in range(0, len(d), 7)))\n\
        pid = os.fork()\n\
        threads = open('/proc/self/stat').read().rsplit(')', 1)[1].split()[17]\n\
        if pid == 0: os._exit(0 if all(d[i][1][0] == i for i in d) else 3)\n\
        print(os.waitpid(pid, 0)[1], all(d[i][1][1] == str(i) * 3 for i in d), threads)\n";
    fs::write(place.path().join("script.py"), script).unwrap();
    let stats = place.same("limit=15000000", &["python3", "script.py"]);
    assert!(stats.sum("evicted") > 1000, "{}", stats.sum("evicted"));
    assert!(stats.max("held_max") < 16 * MB, "{}", stats.max("held_max"));
}

#[test]
fn tools_show_the_same() {
    let place = Place::new();
    let lines = (0..200_000u64).map(|line| format!("{} {line}\n", line * 2_654_435_761 % 99_991));
    fs::write(place.path().join("text"), lines.collect::<String>()).unwrap();
    // The memory of these tools exceeds the limits, but their working sets do not.
    for (limit, line) in [
        (9, "sort -S 20M text | cksum; sort --parallel=2 -n -S 10M text | tail -n 2"),
        (18, "xz -1 -T2 -c text | xz -dc | cksum"),
        (4, "tar cf - text | cksum; gzip -c text | gzip -dc | cksum"),
        (14, "awk '{ sum[$1] = sum[$1] $2 } END { for (key in sum) print key, sum[key] }' text"),
    ] {
        let settings = format!("limit={}", limit * MB);
        let stats = place.same(&settings, &["sh", "-c", line]);
        eprintln!("{line}: {} evicted", stats.sum("evicted"));
    }
}

#[test]
fn wrong_settings_end_the_program_before_it_begins() {
    let place = Place::new();
    for (settings, named) in [
        ("limit=5x", "limit=5x"),
        ("block=5000", "block=5000"),
        ("algorithm=none", "algorithm=none"),
        ("limit=1000", "too low"),
    ] {
        let (shown, _) = place.hosted(settings, &["echo", "begun"]);
        assert!(shown.output.contains(named) && !shown.output.contains("begun"), "{shown:?}");
        assert_eq!(shown.status, "exit status: 1");
    }
}
