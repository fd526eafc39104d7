//! A device saved to a file and restored from it, relative to `cp --sparse` of the same bytes with
//! a sync.

use std::process::Command;
use std::time::Instant;

use zram::{Compaction, Config, Damage, Device, SaveOptions, SaveTo};

use super::files::{Scratch, seconds};
use super::{NAME, ROUNDS, median};
use crate::Error;
use crate::experiments::Request;
use crate::filled;
use crate::inputs::Input;
use crate::report::{Bound, Figure, Report};
use crate::size::mebibytes;

/// The maximum time of a save or a restore, relative to the time of the copy.
const TIME_MAX: f64 = 1.3;

pub(super) fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    for input in request.inputs(&[Input::Source]) {
        let pages = request.pages(input)?.load()?;
        let file = Scratch::new(&request.cache, "saved")?;
        let copy = Scratch::new(&request.cache, "copied")?;
        let config = Config { compaction: Compaction::Manual, ..Config::new(pages.len() as u64)? };
        let device = Device::new(config.clone())?;
        filled::write(&device, &pages)?;
        let (mut saves, mut restores, mut bytes) = (Vec::new(), Vec::new(), 0);
        for _ in 0..ROUNDS {
            // The time to free the old files is not part of either measurement.
            let _ = std::fs::remove_file(copy.path());
            let _ = std::fs::remove_file(file.path());
            let begun = Instant::now();
            bytes = device.save(SaveTo::File(file.path()), &SaveOptions::default())?.bytes;
            let save = begun.elapsed().as_secs_f64();
            // Brings the file into the page cache, from which the copy and the restore read it.
            let mut read = file.open()?;
            let _ = std::io::copy(&mut read, &mut std::io::sink());
            let script = "cp --sparse=always --reflink=never -- \"$0\" \"$1\" && sync -- \"$1\"";
            let mut command = Command::new("sh");
            let cp = seconds(command.args(["-c", script]).args([file.path(), copy.path()]))?;
            saves.push(save / cp);
            let restored = Device::new(config.clone())?;
            let begun = Instant::now();
            restored.restore(file.path(), Damage::Refuse)?;
            restores.push(begun.elapsed().as_secs_f64() / cp);
            filled::verify(&restored, &pages)?;
        }
        let named = |figure: &str| format!("save/{}/{figure}", input.name());
        for (figure, ratios) in [("save over cp", &saves), ("restore over cp", &restores)] {
            let figure = Figure::new(NAME, named(figure), median(ratios), "");
            report.add(figure.must(Bound::at_most(TIME_MAX)))?;
        }
        let stored = device.mm_stat().compr_data_size;
        let over = bytes as f64 / stored as f64;
        report.add(Figure::new(NAME, named("file over compressed bytes"), over, ""))?;
        report.add(Figure::new(NAME, named("file"), mebibytes(bytes), "MiB"))?;
    }
    Ok(())
}
