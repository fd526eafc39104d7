//! Requests jobs from a server, and prints their progress and their results.

use super::text;
use crate::error::{Error, saved_in_part};
use crate::policy::JOB_EVERY;
use crate::progress::Progress;
use crate::restore::lost_lines;
use crate::status::Stat;
use crate::text::{counted, human, json_line};
use serde_json::{Map, Value};
use serve::control::Request;
use std::ops::Range;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use zram::{JobKind, SLOT_BYTES};

/// Requests a job, and prints its result.
pub(super) fn run(control: &Path, kind: JobKind, words: &str, is_json: bool) -> Result<(), Error> {
    let progress = Progress::new(phase(kind), 0);
    let answer = thread::scope(|scope| {
        let (over, is_over) = mpsc::channel::<()>();
        if progress.is_seen() {
            scope.spawn(|| watch(control, &progress, is_over));
        }
        let answer = text(control, &Request::Job(kind, words.to_owned()));
        drop(over);
        answer
    });
    drop(progress);
    let (counts, lost) = counts(&answer?);
    let failure = failure(kind, words, &counts);
    let text = if is_json {
        let lost = Some(lost).filter(|_| kind == JobKind::Save);
        let lost = lost.map(|lost| ("lost".to_owned(), serde_json::json!(lost)));
        json_line(&counts.into_iter().chain(lost).collect::<Map<_, _>>())
    } else {
        summary(kind, &counts) + &lost_lines(&lost)
    };
    crate::print(&text)?;
    failure.map_or(Ok(()), Err)
}

/// Shows the progress of the job until it ends.
fn watch(control: &Path, progress: &Progress, is_over: mpsc::Receiver<()>) {
    while is_over.recv_timeout(JOB_EVERY) == Err(RecvTimeoutError::Timeout) {
        let stat = text(control, &Request::Stat).ok();
        let stat: Option<Stat> = stat.and_then(|stat| serde_json::from_str(&stat).ok());
        if let Some(job) = stat.and_then(|stat| stat.job) {
            let of = Some(job.of * SLOT_BYTES as u64).filter(|&of| of > 0);
            progress.reach(job.done * SLOT_BYTES as u64, of);
        }
    }
}

fn phase(kind: JobKind) -> &'static str {
    match kind {
        JobKind::Save => "saving",
        JobKind::Restore => "restoring",
        JobKind::Recompress => "compressing",
        JobKind::WriteBack => "writing",
    }
}

/// Returns the counts and the lost ranges in a server's answer. Each line of the answer is a word
/// and a value.
fn counts(answer: &str) -> (Map<String, Value>, Vec<Range<u64>>) {
    let (mut counts, mut lost) = (Map::new(), Vec::new());
    let mut from = 0;
    for (what, number) in answer.lines().filter_map(|line| line.split_once(' ')) {
        let Ok(number) = number.parse::<u64>() else { continue };
        match what {
            "lost_from" => from = number,
            "lost_to" => lost.push(from..number),
            _ => drop(counts.insert(what.to_owned(), number.into())),
        }
    }
    (counts, lost)
}

/// Returns the error to report if the job skipped or lost data.
fn failure(kind: JobKind, words: &str, counts: &Map<String, Value>) -> Option<Error> {
    let of = |what: &str| counts.get(what).and_then(Value::as_u64).unwrap_or(0);
    match (kind, of("lost_pages"), of("damaged")) {
        (JobKind::Save, pages @ 1.., _) => Some(saved_in_part(pages, Path::new(words))),
        (_, _, pages @ 1..) => Some(Error::Failed(format!(
            "damaged pages or blocks were skipped ({pages}), all others are done; write to them \
             again, or restore a saved disk"
        ))),
        _ => None,
    }
}

/// Returns the result of a job in words.
fn summary(kind: JobKind, counts: &Map<String, Value>) -> String {
    let of = |what: &str| counts.get(what).and_then(Value::as_u64).unwrap_or(0);
    let size = |what: &str| human(of(what));
    let touched = || match of("touched") {
        0 => String::new(),
        count => format!("; {count} changed during the job and were left as they are"),
    };
    match kind {
        JobKind::Save => format!("{} saved in {}\n", counted(of("pages"), "page"), size("bytes")),
        JobKind::Restore => format!("{} restored\n", counted(of("pages"), "page")),
        JobKind::Recompress => format!(
            "{} of {} that were tried are smaller now, by {}{}\n",
            of("smaller"),
            of("tried"),
            size("saved_bytes"),
            touched()
        ),
        JobKind::WriteBack => format!(
            "{} left memory, {} compressed{}\n",
            counted(of("pages"), "page"),
            size("bytes"),
            touched()
        ),
    }
}
