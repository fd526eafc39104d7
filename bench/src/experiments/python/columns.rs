//! A numpy array three times as large as its limit: the same work on it in plain memory, in a
//! `Region` of the package, and in `numpy.memmap`, in turns.

use std::time::{Duration, Instant};

use serde_json::json;
use testkit::cgroup::Group;

use super::asked::Asked;
use super::place::Place;
use super::{NAME, Scale, median, over};
use crate::Error;
use crate::experiments::Request;
use crate::report::{Figure, Report};
use crate::size::MIB;

/// The limit of the array is the limit of the documents divided by `SHARE`.
const SHARE: u64 = 4;
/// The ratio of the array to its limit.
const TIMES: u64 = 3;
/// The number of bytes in a row.
const ROW: u64 = 64;
/// The algorithm and the block size of the region. The blocks suit an array that is mostly
/// processed in order.
const OPTIONS: [&str; 2] = ["lz4", "16384"];
/// The jobs. All sides do a job before the next job begins. If a job is checked, its answers must
/// be equal on all sides.
const JOBS: [(&str, &str, bool); 5] = [
    ("load", "filled", false),
    ("sums", "summed by columns", true),
    ("sort", "sorted by pieces", false),
    ("update", "updated at random in a tenth of it", false),
    ("check", "", true),
];
const TIMED: usize = 4;
/// The time after which the side in a cgroup executes no further round, because a swap disk may be
/// slow.
const CONFINED_LONGEST: Duration = Duration::from_secs(60);

const PLAIN: usize = 0;
const OURS: usize = 1;
const CACHED: usize = 2;
const CONFINED: usize = 3;
const KINDS: [&str; 4] = ["plain", "region", "memmap", "memmap"];
const NAMES: [&str; 4] = [
    "plain memory",
    "uzram.Region",
    "numpy.memmap, all of it in the page cache",
    "numpy.memmap in a cgroup of as much memory",
];

/// A process with the array, and its measurements.
struct Side {
    asked: Asked,
    /// The seconds of each job, round by round.
    times: [Vec<f64>; JOBS.len()],
    /// The maximum growth of the process's own memory since its start, in bytes.
    most: u64,
    spent: Duration,
}

/// Measures all sides.
pub fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    let scale = Scale::of(request)?;
    let place = Place::new(&request.cache)?;
    let limit = scale.limit / SHARE;
    let source = place.file("lines");
    let arguments = [source.clone(), (TIMES * limit).to_string(), scale.seed.to_string()];
    let rows = place.make("lines.py", &arguments, &scale.folders)?.as_u64().unwrap_or(0);
    if rows * ROW < TIMES * limit / ROW * ROW {
        let reason = format!("the input has {rows} lines, too few for {TIMES} times {limit} bytes");
        return Err(Error::Setup { reason, remedy: "give a smaller --limit, or another --input" });
    }
    let start = |side: usize, group| {
        let words = [KINDS[side], &source, &rows.to_string(), &scale.seed.to_string()];
        let mut words: Vec<String> = words.map(str::to_owned).to_vec();
        words.push(place.file(&format!("side-{side}")));
        words.push(limit.to_string());
        words.extend(OPTIONS.map(str::to_owned));
        let asked = Asked::start(&place, "columns.py", &words, group)?;
        Ok::<_, Error>(Side { asked, times: Default::default(), most: 0, spent: Duration::ZERO })
    };
    let mut sides = vec![start(PLAIN, None)?, start(OURS, None)?, start(CACHED, None)?];
    // The memory of the interpreter counts towards the cgroup's limit.
    let beside: u64 = sides[PLAIN].asked.ask(json!(["memory"]))?;
    let group = Group::new("bench-python", (limit + beside) as usize);
    let confined = group.map(|group| start(CONFINED, Some(group))).transpose()?;
    sides.extend(confined);
    rounds(&mut sides, scale.rounds)?;
    let what = format!("an array of {} MiB at {} MiB", TIMES * limit / MIB, limit / MIB);
    add(&what, limit, &sides, report)
}

/// Does all jobs on all sides, job by job, with another side first in each round. The first round
/// warms up.
fn rounds(sides: &mut Vec<Side>, rounds: u64) -> Result<(), Error> {
    for round in 0..=rounds {
        let taking_part = match sides.get(CONFINED) {
            // Another round would last as long.
            Some(confined) if confined.begun_rounds_took() > CONFINED_LONGEST => CONFINED,
            _ => sides.len(),
        };
        for (job, (_, _, is_checked)) in JOBS.into_iter().enumerate() {
            let mut expected = None;
            for place in 0..taking_part {
                let nth = (place + round as usize) % taking_part;
                let Some(side) = sides.get_mut(nth) else { continue };
                let answer = match side.work(job, round) {
                    Ok(answer) => answer,
                    Err(error) if nth == CONFINED => {
                        eprintln!("bench: {}: {error}", NAMES[CONFINED]);
                        sides.truncate(CONFINED);
                        continue;
                    }
                    Err(error) => return Err(error),
                };
                if !is_checked {
                    side.most = side.most.max(answer);
                    continue;
                }
                let expected = *expected.get_or_insert(answer);
                if answer != expected {
                    let side = char::from(b'A' + nth as u8);
                    return Err(Error::Answer { side, expected, found: answer });
                }
            }
        }
    }
    Ok(())
}

impl Side {
    /// Does a job, records its time, and returns its answer.
    fn work(&mut self, job: usize, round: u64) -> Result<u64, Error> {
        let begun = Instant::now();
        let (seconds, answer): (f64, u64) = self.asked.ask(json!([JOBS[job].0, round]))?;
        let () = self.asked.ask(json!(["settle", round]))?;
        if round > 0 {
            self.times[job].push(seconds);
        }
        self.spent += begun.elapsed();
        Ok(answer)
    }

    /// Returns the time of all rounds of this side, or zero before the first counted round.
    fn begun_rounds_took(&self) -> Duration {
        if self.times[0].is_empty() { Duration::ZERO } else { self.spent }
    }
}

/// Reports the time of each job relative to plain memory, compared with the other sides.
fn add(what: &str, limit: u64, sides: &[Side], report: &mut Report<'_>) -> Result<(), Error> {
    let confined = sides.get(CONFINED).map_or(0, |side| side.times[TIMED - 1].len());
    for (job, (_, done, _)) in JOBS.into_iter().enumerate().take(TIMED) {
        let over_plain = |side: usize| over(&sides[side].times[job], &sides[PLAIN].times[job]);
        let name = format!("{what}, {done}: time over plain memory's");
        let ratio = Figure::new(NAME, name, over_plain(OURS), "");
        let ratio = match confined {
            0 => ratio.rival_absent("no memory cgroup may be made here, or it did not suffice"),
            _ => ratio.rival(NAMES[CONFINED], over_plain(CONFINED)),
        };
        report.add(ratio)?;
        let name = format!("{what} in {}, {done}: time over plain memory's", NAMES[CACHED]);
        report.add(Figure::new(NAME, name, over_plain(CACHED), ""))?;
        let seconds = |side: usize| median(sides[side].times[job].iter().copied());
        let told = Figure::new(NAME, format!("{what}, {done}"), seconds(OURS), "s");
        report.add(told.rival(NAMES[PLAIN], seconds(PLAIN)))?;
    }
    let name = format!("{what}: rounds");
    let rounds = Figure::new(NAME, name, sides[OURS].times[0].len() as f64, "");
    report.add(rounds.rival(NAMES[CONFINED], confined as f64))?;
    let name = format!("{what}: most memory of the process beside what it had, over the limit");
    let most = |side: usize| sides[side].most as f64 / limit as f64;
    report.add(Figure::new(NAME, name, most(OURS), "").rival(NAMES[PLAIN], most(PLAIN)))
}
