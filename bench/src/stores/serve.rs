//! The process that holds a store. It reads blobs and a script from standard input. After each
//! piece of work it writes the store's memory as a line of JSON.

use std::io::{self, Read, Write};

use crate::machine::MachineMemory;
use fastrand::Rng;
use measure::memory::HeldMemory;

use super::holder::refused;
use super::{Allocator, Glibc, Kept, Store, StoreKind, Taken, Work, settle};
use crate::Error;
use crate::contents::Blobs;

/// Executes the script.
pub fn serve(kind: StoreKind) -> Result<(), Error> {
    let failed = |error: io::Error| refused(kind, error.to_string());
    let (blobs, script) = receive(&mut io::stdin().lock()).map_err(failed)?;
    // Releases the memory of the received data, so that it is not attributed to the store.
    Glibc::purge()?;
    let mut before = None;
    let mut kept = Kept::new(&blobs, |slots| {
        before = Some((HeldMemory::now()?, MachineMemory::now()?));
        kind.make(slots)
    })?;
    let Some(before) = before else { return Ok(()) };
    for work in &script {
        carry_out(work, &mut kept)?;
        let answer = taken(&before, &mut kept)?;
        let mut out = io::stdout().lock();
        let written = serde_json::to_writer(&mut out, &answer).map_err(io::Error::from);
        written.and_then(|()| writeln!(out)).map_err(failed)?;
    }
    Ok(())
}

fn receive(orders: &mut impl Read) -> io::Result<(Blobs, Vec<Work>)> {
    let mut count = [0; 4];
    orders.read_exact(&mut count)?;
    let mut lens = vec![0; u32::from_le_bytes(count) as usize * 4];
    orders.read_exact(&mut lens)?;
    let lens = lens.as_chunks::<4>().0.iter().map(|len| u32::from_le_bytes(*len));
    let mut bytes = vec![0; lens.clone().map(|len| len as usize).sum()];
    orders.read_exact(&mut bytes)?;
    Ok((Blobs::from_parts(bytes, lens), serde_json::from_reader(orders)?))
}

fn carry_out(work: &Work, kept: &mut Kept<'_, Box<dyn Store>, Blobs>) -> Result<(), Error> {
    match work {
        Work::Fill => kept.fill()?,
        Work::Drop(slots) => slots.iter().try_for_each(|&slot| kept.drop_slot(slot))?,
        Work::Churn { operations, seed } => kept.churn(&mut Rng::with_seed(*seed), *operations)?,
    }
    kept.verify()
}

fn taken(
    before: &(HeldMemory, MachineMemory),
    kept: &mut Kept<'_, Box<dyn Store>, Blobs>,
) -> Result<Taken, Error> {
    settle();
    kept.store_mut().purge()?;
    let (process, machine) = (HeldMemory::now()?, MachineMemory::now()?);
    Ok(Taken {
        stored: kept.held_bytes(),
        counted: kept.store().counted(),
        held: process.held.saturating_sub(before.0.held),
        machine: before.1.free.saturating_sub(machine.free),
    })
}
