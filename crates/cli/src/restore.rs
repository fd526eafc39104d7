//! `uzram restore`: what a saved file has, checked, and written out as an image.

use crate::args::{Form, RestoreArgs};
use crate::error::{Error, escaped};
use crate::units::{counted, human};
use serde::Serialize;
use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use zram::{BLOCK, Device, SavedHeader};

/// Bytes that are written out at a time.
const PIECE: usize = 1 << 20;

/// What came of it.
#[derive(Debug, Serialize)]
struct Report {
    file: String,
    disksize: u64,
    block: usize,
    pages: u64,
    compr_data_size: u64,
    mem_used_total: u64,
    /// Ranges of the device in bytes: first, and first behind.
    lost: Vec<Range<u64>>,
}

/// Restores, and writes out if that was asked for; the report, and why not all is well.
pub(crate) fn run(args: &RestoreArgs) -> Result<(String, Option<Error>), Error> {
    let header = SavedHeader::read(&args.file).map_err(Error::Restore)?;
    let device = Device::new(header.config())?;
    let restored = device.restore(&args.file, args.damage).map_err(Error::Restore)?;
    if let Some(path) = &args.output {
        let written = write_image(&device, path);
        written.map_err(|source| Error::OutFile { path: path.clone(), source })?;
    }
    let stat = device.mm_stat();
    let report = Report {
        file: escaped(&args.file),
        disksize: device.disksize(),
        block: device.block(),
        pages: restored.slots,
        compr_data_size: stat.compr_data_size,
        mem_used_total: stat.mem_used_total,
        lost: restored.lost,
    };
    let lost: u64 = report.lost.iter().map(|lost| lost.end - lost.start).sum();
    let failure = (lost > 0).then(|| Error::Lost { bytes: lost, file: report.file.clone() });
    let text = match args.form {
        Form::Json => serde_json::to_string_pretty(&report).unwrap_or_default() + "\n",
        Form::Table => report.table(),
    };
    Ok((text, failure))
}

impl Report {
    fn table(&self) -> String {
        let mut text = String::new();
        let known = |bytes: u64| human(i64::try_from(bytes).unwrap_or(i64::MAX));
        // Writing to a string can't fail.
        let _ = writeln!(
            text,
            "{}: {} of 4096 bytes on a device of {} in blocks of {}; {} compressed, {} of memory",
            self.file,
            counted(self.pages, "page"),
            known(self.disksize),
            known(self.block as u64),
            known(self.compr_data_size),
            known(self.mem_used_total),
        );
        for Range { start, end } in &self.lost {
            let _ = writeln!(text, "lost: bytes {start} to {} ({})", end - 1, known(end - start));
        }
        text
    }
}

/// Writes a device out as it reads; what is zeros is left out of the file.
fn write_image(device: &Device, path: &std::path::Path) -> io::Result<()> {
    let file = File::create(path)?;
    let mut piece = vec![0; PIECE];
    let mut at = 0;
    while at < device.disksize() {
        let len = (device.disksize() - at).min(PIECE as u64) as usize;
        let bytes = &mut piece[..len];
        device.read(at, bytes).map_err(|error| io::Error::from_raw_os_error(error.errno()))?;
        for (nth, block) in bytes.chunks(BLOCK).enumerate() {
            if block.iter().any(|&byte| byte != 0) {
                file.write_all_at(block, at + (nth * BLOCK) as u64)?;
            }
        }
        at += len as u64;
    }
    file.set_len(device.disksize())?;
    file.sync_all()
}
