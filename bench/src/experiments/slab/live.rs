//! Millions of live objects: all memory relative to their bytes, and the memory that remains after
//! a random 99% are freed. Each allocator runs in a process of its own, so that its figures contain
//! no memory of another allocator.

use std::process::{Command, Stdio};

use fastrand::Rng;
use measure::memory::HeldMemory;
use serde::{Deserialize, Serialize};

use super::{Request, SIZES, figure, kinds};
use crate::Error;
use crate::objects::{ObjectKind, Objects, Visit};
use crate::report::{Bound, Report};

/// The number of live objects by default.
const OBJECTS: u64 = 10_000_000;
/// The maximum ratio of all memory to the objects' bytes.
const MEMORY_MAX: f64 = 1.01;
/// One of `STAYS` objects is not freed.
const STAYS: u32 = 100;

/// The instructions for the process of one allocator.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Held {
    kind: ObjectKind,
    size: usize,
    count: u64,
    seed: u64,
}

/// The bytes of memory, before and after most objects were freed.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Memory {
    counted: [Option<u64>; 2],
    held: [u64; 2],
}

pub(super) fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    let count = request.operations.unwrap_or(OBJECTS);
    for size in SIZES {
        for kind in kinds() {
            let held = Held { kind, size, count, seed: request.seed };
            let memory = measure(held)?;
            let bytes = (size as u64 * count) as f64;
            let told = |what: &str| format!("{size} bytes live/{}: {what}", kind.name());
            let [full, left] = memory.held.map(|held| held as f64);
            if let [Some(counted), Some(after)] = memory.counted {
                let share = figure(
                    told("all that is counted over the objects"),
                    counted as f64 / bytes,
                    "",
                );
                report.add(share.must(Bound::at_most(MEMORY_MAX)))?;
                let left = after as f64 / bytes;
                report.add(figure(
                    told("counted after 99% were freed, over all objects"),
                    left,
                    "",
                ))?;
            }
            report.add(figure(told("resident over the objects"), full / bytes, ""))?;
            report.add(figure(
                told("resident after 99% were freed, over all objects"),
                left / bytes,
                "",
            ))?;
        }
    }
    Ok(())
}

fn measure(held: Held) -> Result<Memory, Error> {
    let failed = |reason: String| Error::ToolFailed {
        tool: "the process of some objects",
        reason,
        remedy: "see its message on standard error; where memory is short, give fewer --operations",
    };
    let order = serde_json::to_string(&held).map_err(|error| failed(error.to_string()))?;
    let program = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
    let mut command = Command::new(program);
    command.args(["--objects", &order]).stderr(Stdio::inherit());
    let output = command.output().map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(output.status.to_string()));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| failed(error.to_string()))
}

/// Allocates and frees objects in a process started for it, and prints their memory.
pub fn hold(order: &str) -> Result<(), Error> {
    let malformed = |_| Error::Malformed {
        thing: "--objects".into(),
        text: order.into(),
        expected: "what an experiment gives",
    };
    let held: Held = serde_json::from_str(order).map_err(malformed)?;
    let memory = held.kind.visit(held.size, Fill(held))?;
    println!("{}", serde_json::to_string(&memory).map_err(malformed)?);
    Ok(())
}

struct Fill(Held);

impl Visit for Fill {
    type Out = Memory;

    fn visit(self, objects: impl Objects + 'static) -> Result<Memory, Error> {
        let Held { size, count, seed, .. } = self.0;
        // The table is written first, so that its memory is resident before anything is counted.
        let mut live: Vec<_> = (0..count).map(|_| Some(0u64)).collect();
        live.fill(None);
        drop(live);
        let mut live = Vec::with_capacity(count as usize);
        let before = HeldMemory::now()?.held;
        for nth in 0..count {
            live.push(Some(objects.alloc(size, nth as u8)?));
        }
        let table = count * size_of_val(&live[0]) as u64;
        let taken =
            || -> Result<u64, Error> { Ok(HeldMemory::now()?.held.saturating_sub(before + table)) };
        let (full, counted) = (taken()?, objects.counted());
        let mut random = Rng::with_seed(seed);
        for (nth, place) in live.iter_mut().enumerate() {
            if random.u32(..STAYS) > 0
                && let Some(object) = place.take()
            {
                if objects.look(&object) != 2 * u64::from(nth as u8) {
                    return Err(Error::Slot { slot: nth as u32 });
                }
                objects.free(object)?;
            }
        }
        objects.purge()?;
        Ok(Memory { counted: [counted, objects.counted()], held: [full, taken()?] })
    }
}
