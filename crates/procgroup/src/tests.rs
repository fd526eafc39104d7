//! Tests the slots of processes that start, execute programs, or end in any way.

use crate::figures::Figures;
use crate::inherited::{Sharing, set_parent};
use crate::layout::{HEAD, ROW, SLOT};
use crate::limit::{self, note_all, note_wanted};
use crate::own_slot::NONE;
use crate::policy::LOOK_TIME;
use crate::policy::SAMPLE_TIME;
use crate::process::{own_number, thread_name};
use crate::sums::{Share, sum_but};
use crate::waits::{POKING, poke_idle};
use crate::{
    Exceeded, GroupMember, GroupSnapshot, OverLimit, Presence, ProcessGroup, ProcessSnapshot,
};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use zmem::{Relatives, SharedLimit, Sum, Usage};

fn words(slots: usize) -> &'static [AtomicU64] {
    static ALL: Mutex<Vec<&[AtomicU64]>> = Mutex::new(Vec::new());
    let count = HEAD + slots * (SLOT + ROW);
    let words = Vec::leak((0..count).map(|_| AtomicU64::new(0)).collect());
    // The memory is never freed, so a pointer to it is kept for leak checkers.
    ALL.lock().unwrap().push(words);
    words
}

fn copy(words: &[AtomicU64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.load(Relaxed).to_ne_bytes()).collect()
}

fn group(slots: usize) -> ProcessGroup {
    ProcessGroup::of(words(slots), 7).unwrap()
}

/// A child process that waits until it is killed. Dropping this value kills the process.
struct Waiting(Child);

impl Waiting {
    fn number(&self) -> u64 {
        self.0.id().into()
    }

    fn kill(&mut self) {
        self.0.kill().unwrap();
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _ended = self.0.wait();
    }
}

fn waiting() -> Waiting {
    Waiting(Command::new("sleep").arg("100").stdin(Stdio::null()).spawn().unwrap())
}

fn member(group: ProcessGroup, process: &Waiting) -> GroupMember {
    let member = GroupMember::without_slot(group);
    let number = process.number();
    member.slot.process.store(number, Relaxed);
    member.slot.nth.store(group.take(number).unwrap_or(NONE), Relaxed);
    member
}

fn usage(held: u64, evictable: u64) -> Usage {
    Usage { held, evictable, ..Usage::default() }
}

fn publish(member: &GroupMember, held: u64, evictable: u64) {
    member.publish(&usage(held, evictable));
}

/// Returns the sums of memory over all processes. A process is large if it holds at least `large`
/// bytes.
fn sum(member: &GroupMember, held: u64, evictable: u64, large: u64) -> Sum {
    member.sum(&Usage { limit: 16 * large, ..usage(held, evictable) })
}

#[test]
fn memory_is_a_trees_if_it_is_large_enough_and_of_one_space() {
    let words = words(1);
    assert!(ProcessGroup::of(words, 7).is_some());
    assert!(ProcessGroup::of(words, 8).is_none());
    assert!(ProcessGroup::of(&words[..HEAD + SLOT + ROW - 1], 7).is_none());
    words[0].store(5, Relaxed);
    assert!(ProcessGroup::of(words, 7).is_none());
}

#[test]
fn what_processes_hold_is_added_up() {
    let (group, others) = (group(4), [waiting(), waiting()]);
    let own = GroupMember::new(group);
    let members = others.each_ref().map(|process| member(group, process));
    members.iter().zip([10, 200]).for_each(|(member, held)| publish(member, held, held / 2));
    publish(&own, 3000, 1000);
    let expected = Sum { held: 3210, evictable: 1105, large: 3 };
    assert_eq!(sum(&own, 3000, 1000, 10), expected);
    assert_eq!(sum(&members[1], 200, 100, 10), expected);
    assert_eq!(group.held_max(), 3210);
    // The sum includes memory that only the kernel counts, and excludes memory that only the pager
    // counts.
    note_all(&own, 5000, 3000, 100);
    assert_eq!(sum(&own, 3000, 0, 0).held, 5310);
    note_all(&own, 500, 3000, 100);
    assert_eq!(sum(&own, 3000, 0, 0).held, 810);
    own.set_executing(Some(&Figures::default()));
    assert_eq!(sum(&members[0], 10, 5, 1), Sum { held: 210, evictable: 105, large: 2 });
}

/// A process that holds little memory and needs no room keeps its memory. The other processes
/// divide the remaining limit equally.
#[test]
fn a_limit_is_divided_among_those_who_want_more() {
    let (group, others) = (group(8), [waiting(), waiting(), waiting()]);
    let own = GroupMember::new(group);
    let members = others.each_ref().map(|process| member(group, process));
    members.iter().zip([100, 60, 700]).for_each(|(member, held)| publish(member, held, 0));
    publish(&own, 40, 0);
    let share = |bytes, is_passed| Share { bytes, is_passed };
    assert_eq!(limit::share(&own, 1000), share((1000 - 160) / 2, true));
    assert_eq!(limit::share(&own, 1600), share(1600 - 160 - 700, false));
    note_wanted(&members[1]);
    assert_eq!(limit::share(&own, 1000), share((1000 - 100) / 3, true));
    // A process that has left its slot needs no room. A process whose `wanted` lies in the future
    // needs no room either.
    group.leave(members[1].slot.nth(), others[1].number(), true);
    assert_eq!(limit::share(&own, 1000), share((1000 - 100) / 2, true));
    group.slot(members[0].slot.nth()).wanted.store(u64::MAX, Relaxed);
    assert_eq!(limit::share(&own, 1000), share((1000 - 100) / 2, true));
    // The other processes together can hold more than the limit.
    assert_eq!(limit::share(&own, 10), share(10 / 3, true));
    assert_eq!(limit::share(&own, 0).bytes, 0);
}

#[test]
fn a_process_that_executes_a_program_keeps_its_slot() {
    let group = group(4);
    let before = GroupMember::new(group);
    publish(&before, 100, 0);
    let after = GroupMember::new(group);
    publish(&after, 30, 0);
    assert_eq!(before.slot.nth(), after.slot.nth());
    assert_eq!(sum(&after, 30, 0, 0), Sum { held: 30, evictable: 0, large: 1 });
}

#[test]
fn a_program_goes_on_from_what_its_process_did_before() {
    let group = group(4);
    let first = GroupMember::new(group);
    assert_eq!(first.before(), None);
    first.set_executing(Some(&Figures { evicted: 5, held: 7, ..Figures::default() }));
    // The first `execve` failed, and then another thread called `execve`.
    first.set_executing(None);
    first.set_executing(Some(&Figures { evicted: 6, held: 9, ..Figures::default() }));
    let next = GroupMember::new(group);
    let expected = Figures { process: own_number(), evicted: 6, ..Figures::default() };
    assert_eq!(next.before(), Some(&expected));
    // The figures do not belong to a process with another ID, such as a child. The figures also do
    // not belong to a later process with the same ID.
    next.slot.process.fetch_add(1, Relaxed);
    assert_eq!(next.before(), None);
    next.slot.process.fetch_sub(1, Relaxed);
    next.leave(true);
    assert_eq!(GroupMember::new(group).before(), None);
}

#[test]
fn what_the_dead_held_is_free() {
    let group = group(8);
    let own = GroupMember::new(group);
    let (mut killed, lives) = (waiting(), waiting());
    publish(&member(group, &killed), 1000, 0);
    publish(&member(group, &lives), 20, 0);
    assert_eq!(sum(&own, 0, 0, 0).held, 1020);
    group.clear_gone();
    assert_eq!(sum(&own, 0, 0, 0).held, 1020);
    killed.kill();
    // A killed process exists until its parent waits for it, but it holds no memory.
    let is_free = || {
        group.clear_gone();
        sum(&own, 0, 0, 0).held == 20
    };
    testkit::wait::until("what it held is free", is_free);
    drop(killed);
    // The next process takes the slot of the killed process.
    let next = waiting();
    publish(&member(group, &next), 5, 0);
    assert_eq!((sum(&own, 0, 0, 0).held, group.in_use()), (25, 0..3));
    drop(lives);
}

/// Returns a child that shares the pool of `parent`, in the slot of `process`.
fn child(parent: &GroupMember, process: &Waiting) -> GroupMember {
    let (group, child) = (*parent.group(), GroupMember::without_slot(*parent.group()));
    let parts = |of: &Sharing| {
        [&of.pool, &of.blocks]
            .map(|part| [&part.whole, &part.changed, &part.life].map(|word| word.load(Relaxed)))
    };
    for (to, from) in
        [&child.sharing.pool, &child.sharing.blocks].into_iter().zip(parts(&parent.sharing))
    {
        to.whole.store(from[0], Relaxed);
        to.changed.store(from[1], Relaxed);
        to.life.store(from[2], Relaxed);
    }
    let (nth, inherited) = (group.take(process.number()).unwrap(), child.sharing.inherited());
    child.slot.process.store(process.number(), Relaxed);
    child.slot.nth.store(nth, Relaxed);
    child.sharing.begin(&group.slot(nth));
    set_parent(&group.slot(nth), parent.slot.nth(), inherited);
    child
}

#[test]
fn a_pool_that_a_child_shares_counts_once() {
    let (group, others) = (group(8), [waiting(), waiting()]);
    let own = GroupMember::new(group);
    // Objects that were freed before the fork do not affect a child. Free space in pages is treated
    // as changed memory.
    own.note_pool(1000, 0, 700);
    own.note_pool(1040, 10, 800);
    publish(&own, 1500, 0);
    let (one, two) = (child(&own, &others[0]), child(&own, &others[1]));
    publish(&one, 1500, 0);
    publish(&two, 1500, 0);
    let held = || sum(&own, 1500, 0, 0).held;
    assert_eq!(held(), 1500 + 500 + 500);
    // A child frees an object. Then the child can release the object's pages or write to them, so
    // they are no longer shared.
    one.note_pool(1040, 30, 820);
    assert_eq!((held(), one.held(1500)), (1500 + 580 + 500, 580));
    two.note_pool(1140, 30, 820);
    publish(&two, 1600, 0);
    assert_eq!(held(), 1500 + 580 + 680);
    // Pages that the parent has changed are no longer shared with its children.
    own.note_pool(1000, 0, 810);
    assert_eq!(held(), 1500 + 620 + 720);
    // A grandchild shares memory with its parent. The grandchild's parent also holds memory that is
    // not shared.
    let third = waiting();
    let grandchild = child(&one, &third);
    publish(&grandchild, 1500, 0);
    assert_eq!(held(), 1500 + 620 + 720 + (1500 - 920));
    group.leave(one.slot.nth(), others[0].number(), true);
    assert_eq!(held(), 1500 + 720 + 1500);
    // After the parent has executed a program, the shared memory is charged to each child.
    own.set_executing(Some(&Figures::default()));
    assert_eq!(sum_but(&group, NONE, 0).held, 1600 + 1500);
    // The `execve` failed, so the parent still has its pool.
    own.set_executing(None);
    publish(&own, 5000, 0);
    assert_eq!(sum_but(&group, NONE, 0).held, 5000 + 720 + 1500);
    let (late, held) = (waiting(), sum_but(&group, NONE, 0).held);
    let last = child(&own, &late);
    publish(&last, 1001, 0);
    assert_eq!((sum_but(&group, NONE, 0).held, last.held(1001)), (held + 1, 1));
}

fn borrowed(child: &GroupMember) -> u64 {
    child.relatives().borrowed
}

fn lent(parent: &GroupMember) -> (u64, bool) {
    let Relatives { lent, is_child_short, .. } = parent.relatives();
    (lent, is_child_short)
}

#[test]
fn blocks_that_a_child_shares_count_once_until_they_are_touched() {
    let (group, others) = (group(8), [waiting(), waiting()]);
    let own = GroupMember::new(group);
    own.note_pool(1000, 0, 0);
    own.add_blocks(3000);
    publish(&own, 5000, 3000);
    let [one, two] = others.each_ref().map(|process| child(&own, process));
    [&one, &two].into_iter().for_each(|child| publish(child, 5000, 3000));
    let sum = || sum(&own, 5000, 3000, 0);
    // Only blocks are evictable.
    assert_eq!((sum().held, sum().evictable), (5000 + 1000 + 1000, 3000));
    assert_eq!((borrowed(&one), borrowed(&own)), (3000, 0));
    assert_eq!((lent(&own), lent(&one)), ((3000, false), (0, false)));
    // A child touches shared blocks and gets its own copies. The parent and the other child still
    // share these blocks.
    one.leave_blocks(500);
    assert_eq!((sum().held, sum().evictable), (5000 + 1500 + 1000, 3500));
    assert_eq!((one.blocks(), borrowed(&one)), (2500, 2500));
    // The parent touches shared blocks. These blocks can differ from the blocks that the child
    // touched.
    own.leave_blocks(700);
    assert_eq!((sum().held, own.blocks()), (5000 + 2200 + 1700, 2300));
    // Changes of the pool do not affect the blocks.
    own.note_pool(1000, 0, 100_000);
    assert_eq!((sum().held, lent(&own).0), (5000 + 3200 + 2700, 2300));
    // The parent closes blocks again for another child. These blocks are not shared with the first
    // two children.
    own.add_blocks(700);
    let third = waiting();
    let last = child(&own, &third);
    publish(&last, 5000, 3000);
    assert_eq!((sum().held, borrowed(&last)), (5000 + 3200 + 2700 + 1000, 3000));
    // The number of shared blocks never falls below zero.
    note_wanted(&two);
    two.leave_blocks(two.blocks());
    own.leave_blocks(own.blocks());
    assert_eq!((borrowed(&two), borrowed(&one), lent(&own)), (0, 0, (0, true)));
    assert_eq!(last.held(5000), 4000);
    let without = GroupMember::without_slot(group);
    assert_eq!(without.relatives(), Relatives::default());
}

#[test]
fn who_has_never_shared_or_has_more_of_it_than_it_holds_counts_as_it_is() {
    let (group, process) = (group(2), waiting());
    let own = GroupMember::new(group);
    own.note_pool(5000, 0, 0);
    publish(&own, 9000, 0);
    assert_eq!(own.held(9000), 9000);
    let child = child(&own, &process);
    publish(&child, 100, 0);
    assert_eq!((child.held(100), sum(&own, 9000, 0, 0).held), (0, 9000));
    // The word `parent` does not contain the number of a slot.
    group.slot(1).parent.store(u64::MAX, Relaxed);
    assert_eq!(child.held(100), 100);
}

#[test]
fn looks_for_the_dead_are_rare() {
    let group = group(1);
    assert!(group.clear_gone_at(1000) && !group.clear_gone_at(1000 + LOOK_TIME - 1));
    assert!(group.clear_gone_at(1000 + LOOK_TIME) && group.clear_gone_at(5));
}

#[test]
fn without_a_slot_a_process_is_by_itself() {
    let (group, processes) = (group(2), [waiting(), waiting()]);
    let _others = processes.each_ref().map(|process| publish(&member(group, process), 10, 0));
    let own = GroupMember::new(group);
    assert!(!own.slot.is_taken());
    publish(&own, 7, 7);
    // A process that found no free slot takes no slot later, because a new process can need a slot
    // that becomes free.
    drop(processes);
    let next = GroupMember::new(group);
    assert!(next.slot.is_taken());
    next.leave(true);
    assert!(!next.slot.is_taken());
}

#[test]
fn a_process_whose_slot_was_taken_away_writes_to_it_no_more() {
    let group = group(2);
    let (own, other) = (GroupMember::new(group), waiting());
    group.leave(0, own_number(), true);
    publish(&member(group, &other), 10, 0);
    publish(&own, 5000, 0);
    assert_eq!(sum_but(&group, NONE, 0).held, 10);
}

#[test]
fn who_is_about_to_execute_a_program_holds_nothing() {
    let group = group(2);
    let own = GroupMember::new(group);
    publish(&own, 5000, 0);
    own.set_executing(Some(&Figures::default()));
    publish(&own, 5000, 0);
    assert_eq!(sum_but(&group, NONE, 0).held, 0);
    own.set_executing(None);
    publish(&own, 5000, 0);
    assert_eq!(sum_but(&group, NONE, 0).held, 5000);
}

/// The pager counts blocks as held when it opens them, even before their first access. The kernel
/// counts these blocks only after the program has written to them, and no fault reports the writes.
#[test]
fn a_process_with_blocks_opened_ahead_is_weighed_often() {
    let own = GroupMember::new(group(2));
    let due = || (0..512).filter(|_| own.is_measurement_due()).count();
    for (all, counted, samples) in [(5000, 5000, 2), (5000, 9000, 128), (9000, 5000, 2)] {
        // On a busy machine, the calls can take longer than the interval between measurements.
        let is_so = |_| {
            note_all(&own, all, counted, 0);
            due() == samples
        };
        assert!((0..1000).any(is_so), "{all} {counted}");
    }
}

#[test]
fn a_process_that_seldom_faults_is_weighed_at_each_fault() {
    let own = GroupMember::new(group(2));
    note_all(&own, 5000, 5000, 0);
    let due = || (0..8).filter(|_| own.is_measurement_due()).count();
    std::thread::sleep(std::time::Duration::from_millis(SAMPLE_TIME + 10));
    assert_eq!(due(), 8);
}

#[test]
fn that_the_limit_is_lost_is_said_once() {
    let group = group(2);
    let own = GroupMember::new(group);
    let take = |may_say| OverLimit::take(&own, |_| may_say).map(|over| (over.stays, over.most));
    assert_eq!(take(true), None);
    // Any process of the group can report the message.
    publish(&own, 4000, 1000);
    let kept = [1000, 500, 0, 1500];
    let recorded = || own.unevictable.each_ref().map(|word| word.load(Relaxed));
    assert_eq!(recorded(), [0; 4]);
    OverLimit::note(&own, 5000, &kept);
    OverLimit::note(&GroupMember::new(group), 5000, &[0; 4]);
    assert_eq!(recorded(), kept);
    let expected = (None, Some((5000, 3000)), None);
    assert_eq!((take(false), take(true), take(true)), expected);
    // After the report, `note` does not change the recorded bytes.
    OverLimit::note(&own, 6000, &[0; 4]);
    assert_eq!((take(true), recorded()), (None, kept));
}

#[test]
fn a_limit_that_was_exceeded_is_reported_once_with_the_most_memory() {
    let (group, process) = (group(2), waiting());
    let (other, own) = (member(group, &process), GroupMember::new(group));
    let name = String::from_utf8_lossy(&thread_name()).trim_end_matches('\0').to_owned();
    let note = |own_bytes, others| {
        publish(&other, others, 0);
        own.note_process(own_bytes, &Usage { limit: 1000, ..usage(own_bytes, 0) });
    };
    let take = |may_say| Exceeded::take(&own, || may_say);
    // An excess of up to a twentieth of the limit may be a measurement error.
    note(500, 550);
    assert_eq!(take(true), None);
    note(600, 500);
    note(900, 300);
    note(400, 750);
    assert_eq!(take(false), None);
    let held = Exceeded { held: 1200, process: own_number(), name, most: 900 };
    assert_eq!((take(true), take(true)), (Some(held), None));
    // The excess is reported only once. If the message that the limit can't be kept was reported,
    // the excess is not reported.
    note(5000, 300);
    assert_eq!(take(true), None);
    group.head().reported.store(1, Relaxed);
    assert_eq!(take(true), None);
}

#[test]
fn a_limit_that_others_pass_is_lost_until_they_do_not() {
    const MIB: u64 = 1 << 20;
    let (group, process) = (group(2), waiting());
    let other = member(group, &process);
    let (limit, own) = (64 * MIB, GroupMember::new(group));
    let (reserve, floor) = (MIB, own.floor(limit / 64, limit));
    let (held, resident) = (49 * MIB, 48 * MIB);
    let evictable = resident - floor;
    let usage = Usage { limit, reserve, held, resident, evictable, tables: 0 };
    // This process can evict all of its memory except 1 MiB and the floor. Both processes are
    // large.
    assert_eq!(floor, MIB);
    for (stays, half_excess) in [(0, 0), (62, 0), (64, 2), (65, 3), (200, 138), (63, 1), (62, 0)] {
        publish(&other, stays * MIB, 0);
        let sum = own.check(&usage, 0);
        assert_eq!(sum.unevictable(), (stays + 2) * MIB);
        assert_eq!(group.is_short(), stays > 0);
        assert_eq!(own.excess().0, half_excess * MIB / 2, "{stays}");
    }
    // Evictable memory of the other process does not make the limit impossible to keep.
    publish(&other, 200 * MIB, 200 * MIB);
    assert_eq!((own.check(&usage, 0).unevictable(), own.excess().0), (2 * MIB, 0));
    assert!(group.is_short());
}

#[test]
fn a_child_tells_what_it_holds_though_its_parent_was_about_to_execute_a_program() {
    let group = group(2);
    let own = GroupMember::new(group);
    own.set_executing(Some(&Figures::default()));
    own.begin_child();
    publish(&own, 5000, 0);
    assert_eq!(sum_but(&group, NONE, 0).held, 5000);
}

#[test]
fn who_waits_is_free_again_though_its_poker_was_killed() {
    let group = group(2);
    let own = GroupMember::new(group);
    let waits = group.slot(0).waits;
    own.waits();
    assert!(waits.load(Relaxed) != 0);
    // The process is not poked, because it holds no more than its share, or no evictable memory.
    publish(&own, 100, 50);
    poke_idle(&group, 100);
    publish(&own, 100, 0);
    poke_idle(&group, 10);
    waits.fetch_or(POKING, Relaxed);
    own.waited();
    assert_eq!(waits.load(Relaxed), 0);
    own.waited();
    assert_eq!(waits.load(Relaxed), 0);
}

#[test]
fn who_reads_a_copy_sees_what_processes_have_said() {
    let (words, others) = (words(3), [waiting(), waiting()]);
    let seen = || GroupSnapshot::of(&copy(words)).unwrap();
    assert_eq!(seen().processes, []);
    let group = ProcessGroup::of(words, 7).unwrap();
    let own = GroupMember::new(group);
    let [first, second] = others.each_ref().map(|process| member(group, process));
    publish(&first, 10, 0);
    let figures = Figures { evicted: 5, compressed_max: 9, ..Figures::default() };
    first.show(&figures);
    publish(&own, 3000, 0);
    assert_eq!(sum(&own, 3000, 0, 0).held, 3010);
    let process = |figures| ProcessSnapshot { figures, ..ProcessSnapshot::default() };
    let said = Figures { process: others[0].number(), tree_held: 10, ..figures.clone() };
    let new = |number| process(Figures { process: number, ..Figures::default() });
    let mut expected_own = new(own_number());
    expected_own.name = String::from_utf8(thread_name().to_vec()).unwrap().replace('\0', "");
    assert!(!expected_own.name.is_empty());
    expected_own.figures.tree_held = 3000;
    let mut expected = GroupSnapshot {
        space: 7,
        held_max: 3010,
        is_short: false,
        processes: vec![expected_own.clone(), process(said), new(others[1].number())],
    };
    assert_eq!(seen(), expected);
    // The next process in the slot does not inherit the figures. A process that has lost its slot
    // can't write to the slot's row.
    group.leave(1, others[0].number(), true);
    expected.processes.remove(1);
    assert_eq!(seen(), expected);
    first.show(&figures);
    assert_eq!(seen(), expected);
    let next = member(group, &others[0]);
    expected.processes.insert(1, new(others[0].number()));
    assert_eq!(seen(), expected);
    // A process keeps its counts when it executes a program.
    let figures = Figures { held: 7, ..figures };
    own.show(&figures);
    let said = seen().processes.remove(0).figures;
    assert_eq!((said.evicted, said.held), (5, 7));
    own.set_executing(Some(&figures));
    let figures = Figures { process: own_number(), ..Figures::default().after(&figures) };
    let presence = Presence::Executes;
    expected.processes[0] = ProcessSnapshot { figures, presence, ..expected_own };
    assert_eq!(seen(), expected);
    // If the new program has no runtime, another process frees the slot. The process is then not
    // reported as killed.
    group.free(0, own_number(), false);
    expected.processes.remove(0);
    assert_eq!(seen(), expected);
    next.leave(true);
    drop(second);
}

#[test]
fn figures_of_a_killed_process_remain_while_other_slots_are_free() {
    let (words, killed) = (words(3), waiting());
    let group = ProcessGroup::of(words, 7).unwrap();
    let number = killed.number();
    let figures = Figures { evicted: 5, ..Figures::default() };
    let first = member(group, &killed);
    group.slot(0).begin(*b"fifteen letters\0");
    first.show(&figures);
    drop(killed);
    group.clear_gone();
    let ended = ProcessSnapshot {
        name: "fifteen letters".to_owned(),
        presence: Presence::Killed,
        figures: Figures { process: number, ..figures },
    };
    let seen = || GroupSnapshot::of(&copy(words)).unwrap().processes;
    assert_eq!(seen(), std::slice::from_ref(&ended));
    // The counts of a process that could not report them remain in the row.
    let own = GroupMember::new(group);
    own.show(&Figures { evicted: 6, ..Figures::default() });
    own.leave(false);
    assert_eq!((seen()[1].presence, seen()[1].figures.evicted), (Presence::Unreported, 6));
    let own = GroupMember::new(group);
    assert_eq!(own.slot.nth(), 2);
    own.leave(true);
    group.rows[1][0].store(0, Relaxed);
    // Other processes take empty slots first, and take the slot with these figures last.
    let others = [waiting(), waiting(), waiting()];
    let members = [member(group, &others[0]), member(group, &others[1])];
    assert!(seen().contains(&ended));
    let last = member(group, &others[2]);
    assert!(
        last.slot.is_taken() && !seen().iter().any(|process| process.presence == Presence::Killed)
    );
    drop((members, last));
}

#[test]
fn any_bytes_can_be_read() {
    let mut rng = fastrand::Rng::with_seed(testkit::seed(1));
    let words = words(4);
    let _tree = ProcessGroup::of(words, 7).unwrap();
    let whole = copy(words);
    for _ in 0..5000 {
        let mut bytes = whole.clone();
        for _ in 0..rng.usize(..40) {
            let at = rng.usize(..bytes.len());
            bytes[at] = rng.u8(..);
        }
        bytes.truncate(rng.usize(..=bytes.len()) + 4000 * usize::from(rng.bool()));
        if let Some(seen) = GroupSnapshot::of(&bytes) {
            assert!(seen.processes.len() <= 4 && bytes.len() >= 8 * (HEAD + SLOT + ROW));
            seen.processes.iter().for_each(|seen| assert!(seen.figures.json().ends_with("}\n")));
        }
    }
    assert!(GroupSnapshot::of(&whole).is_some() && GroupSnapshot::of(&whole[1..]).is_none());
    assert!(GroupSnapshot::of(&[]).is_none() && GroupSnapshot::of(&[0xff; 9999]).is_none());
    assert_eq!(GroupSnapshot::of(&[0; GroupSnapshot::BYTES]).unwrap().processes, []);
}
