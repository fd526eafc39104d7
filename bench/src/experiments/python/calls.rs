//! A device written and read in calls of 64 KiB, from Python and from Rust in turns, with the same
//! pages in the same order. The scaling to two threads is measured too.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crate::census::Kind;
use fastrand::Rng;
use measure::page::PAGE_SIZE;
use serde_json::json;
use uzram::{Config, Device};

use super::asked::Asked;
use super::place::Place;
use super::{LIMIT, NAME, over};
use crate::Error;
use crate::contents::Blobs;
use crate::experiments::Request;
use crate::inputs::Input;
use crate::report::{Bound, Figure, Report};
use crate::size::MIB;
use crate::threads::together;

/// The device's size is the limit of the documents divided by `SHARE`.
const SHARE: u64 = 2;
/// The bytes of a call.
const REQUEST: usize = 64 << 10;
/// The number of rounds by default. It is large because a turn lasts a few hundredths of a second,
/// and the speed of a shared processor varies over such times.
const ROUNDS: u64 = 41;
/// The number of slots by which the contents are shifted for each overwrite.
const STEP: usize = 49;
const ONE_MIN: f64 = 0.85;
const TWO_MIN: f64 = 1.7;
const JOBS: [&str; 2] = ["write", "read"];

/// A job that is done once for all slots.
#[derive(Clone, Copy)]
struct Turn {
    job: &'static str,
    /// The distance, in slots, between a slot and the pages that it receives.
    shift: usize,
    threads: usize,
}

/// The side that executes the calls.
trait Side {
    /// Executes a turn and returns its seconds.
    fn turn(&mut self, turn: Turn) -> Result<f64, Error>;

    /// Returns the number of slots whose contents differ from what was written to them.
    fn differing(&mut self, shift: usize) -> Result<usize, Error>;
}

impl Side for Asked {
    fn turn(&mut self, turn: Turn) -> Result<f64, Error> {
        let Turn { job, shift, threads } = turn;
        self.ask(json!(["turn", job, shift, threads]))
    }

    fn differing(&mut self, shift: usize) -> Result<usize, Error> {
        self.ask(json!(["differing", shift]))
    }
}

/// The side that executes the same calls from Rust.
struct Ours<'a> {
    device: Device,
    pages: &'a [u8],
    order: &'a [u32],
}

impl Ours<'_> {
    fn part(&self, slot: u32, shift: usize) -> &[u8] {
        &self.pages[(slot as usize + shift) % self.order.len() * REQUEST..][..REQUEST]
    }
}

impl Side for Ours<'_> {
    fn turn(&mut self, turn: Turn) -> Result<f64, Error> {
        let Turn { job, shift, threads } = turn;
        let slots = self.order.iter();
        let todo: Vec<(u64, &[u8])> =
            slots.map(|&slot| (u64::from(slot) * REQUEST as u64, self.part(slot, shift))).collect();
        let next = AtomicUsize::new(0);
        let done = together(threads, |_| {
            let mut buffer = vec![0; REQUEST];
            let begun = Instant::now();
            // Each thread executes the next request, because the processors of a shared machine are
            // not equally fast.
            while let Some(&(offset, data)) = todo.get(next.fetch_add(1, Ordering::Relaxed)) {
                match job {
                    "write" => self.device.write(offset, data)?,
                    _ => self.device.read(offset, &mut buffer)?,
                }
            }
            Ok((begun, Instant::now()))
        })?;
        let begun = done.answers.iter().map(|(begun, _)| *begun).min();
        let ended = done.answers.iter().map(|(_, ended)| *ended).max();
        Ok(begun.zip(ended).map_or(0.0, |(begun, ended)| (ended - begun).as_secs_f64()))
    }

    fn differing(&mut self, shift: usize) -> Result<usize, Error> {
        let (mut buffer, mut count) = (vec![0; REQUEST], 0);
        for &slot in self.order {
            self.device.read(u64::from(slot) * REQUEST as u64, &mut buffer)?;
            count += usize::from(buffer != self.part(slot, shift));
        }
        Ok(count)
    }
}

/// The seconds of a job on one thread and on two, round by round.
type Seconds = [Vec<f64>; 2];

/// Measures both sides.
pub fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    let limit = (request.limit.unwrap_or(LIMIT) / SHARE) as usize;
    let input = request.inputs(&[Input::Heap])[0];
    let pages = compressible(&request.pages(input)?.load()?, limit)?;
    let mut order: Vec<u32> = (0..(pages.len() / REQUEST) as u32).collect();
    Rng::with_seed(request.seed).shuffle(&mut order);
    let place = Place::new(&request.cache)?;
    let files = [place.file("pages"), place.file("order")];
    let of_order: Vec<u8> = order.iter().flat_map(|slot| slot.to_ne_bytes()).collect();
    for (file, bytes) in files.iter().zip([&pages, &of_order]) {
        let remedy = "set UZRAM_BENCH_DIR to a directory on a disk with 3 GB free";
        fs::write(file, bytes).map_err(Error::file("write to", Path::new(file), remedy))?;
    }
    let python = Asked::start(&place, "calls.py", &files, None)?;
    let device = Device::new(Config::new(pages.len() as u64)?)?;
    let ours = Ours { device, pages: &pages, order: &order };
    let mut sides: [Box<dyn Side + '_>; 2] = [Box::new(python), Box::new(ours)];
    let mut times: [[Seconds; 2]; 2] = Default::default();
    let mut shift = 0;
    for round in 0..=request.operations.unwrap_or(ROUNDS) {
        let of_round = one_round(&mut sides, round as usize, &mut shift)?;
        // The first round warms up and fills the devices.
        if round > 0 {
            for (all, new) in times.as_flattened_mut().iter_mut().zip(of_round.as_flattened()) {
                all.iter_mut().zip(new).for_each(|(all, new)| all.push(*new));
            }
        }
        for (nth, side) in sides.iter_mut().enumerate() {
            let found = side.differing(shift)? as u64;
            if found > 0 {
                let side = char::from(b'A' + nth as u8);
                return Err(Error::Answer { side, expected: 0, found });
            }
        }
    }
    let what = format!(
        "Device, {} MiB of compressible pages of the {} by 64 KiB",
        pages.len() as u64 / MIB,
        input.name()
    );
    JOBS.into_iter().zip(&times).try_for_each(|(job, times)| add(&what, job, times, report))
}

/// Returns the seconds of a round, by job, side and number of threads. Each job is done by one
/// thread and then by two.
fn one_round(
    sides: &mut [Box<dyn Side + '_>; 2],
    round: usize,
    shift: &mut usize,
) -> Result<[[[f64; 2]; 2]; 2], Error> {
    let mut seconds = [[[0.0; 2]; 2]; 2];
    for (nth, job) in JOBS.into_iter().enumerate() {
        let before = *shift;
        for threads in [1, 2] {
            // Every write changes the contents of a slot.
            *shift = if job == "write" { before + STEP * threads } else { before };
            let turn = Turn { job, shift: *shift, threads };
            for place in 0..2 {
                let side = (place + round) % 2;
                seconds[nth][side][threads - 1] = sides[side].turn(turn)?;
            }
        }
    }
    Ok(seconds)
}

/// Returns at most `most` bytes of the pages that are neither incompressible nor same-filled, cut
/// to whole calls.
fn compressible(pages: &[u8], most: usize) -> Result<Vec<u8>, Error> {
    let blobs = Blobs::of_pages(pages)?;
    let numbered = pages.chunks_exact(PAGE_SIZE).zip(0..);
    let kept = numbered.filter(|(_, nth)| matches!(blobs.kind(*nth), Kind::Compressible(_)));
    let mut kept: Vec<u8> =
        kept.take(most / PAGE_SIZE).flat_map(|(page, _)| page.to_vec()).collect();
    kept.truncate(kept.len() / REQUEST * REQUEST);
    if kept.is_empty() {
        let reason = "the input has no 64 KiB of compressible pages".to_string();
        return Err(Error::Setup { reason, remedy: "give a larger --limit" });
    }
    Ok(kept)
}

/// Reports Python's throughput relative to Rust's on one thread, and the scaling of both to two
/// threads.
fn add(what: &str, job: &str, times: &[Seconds; 2], report: &mut Report<'_>) -> Result<(), Error> {
    let doing = if job == "write" { "writing" } else { "reading" };
    let [python, rust] = times;
    let over_rust = over(&rust[0], &python[0]);
    let name = format!("{what}, {doing}: Python over Rust, one thread");
    report.add(Figure::new(NAME, name, over_rust, "").must(Bound::at_least(ONE_MIN)))?;
    let name = format!("{what}, {doing}: two threads over one");
    let two = Figure::new(NAME, name, over(&python[0], &python[1]), "");
    let two = two.rival("Rust", over(&rust[0], &rust[1]));
    report.add(two.must(Bound::at_least(TWO_MIN)))
}
