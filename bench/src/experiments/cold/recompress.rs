//! A heap recompressed from lz4 to zstd 3: its memory relative to the output of raw zstd, and the
//! time relative to raw decoding and encoding.

use std::time::Instant;

use crate::codec::RawCodec;
use measure::page::{PAGE_SIZE, same_filled};
use zram::{Algorithm, Compaction, Config, Device, Recompress};

use super::{NAME, ROUNDS, median};
use crate::Error;
use crate::experiments::Request;
use crate::filled;
use crate::inputs::Input;
use crate::report::{Bound, Figure, Report};
use crate::size::mebibytes;

/// The maximum ratio of the memory to the output of raw zstd, and the maximum ratio of the time to
/// the time of raw decoding and encoding.
const MEMORY_MAX: f64 = 1.03;
const TIME_MAX: f64 = 1.1;

/// Pages compressed by raw lz4.
struct Raw {
    lens: Vec<usize>,
    bytes: Vec<u8>,
}

impl Raw {
    fn of(pages: &[u8]) -> Result<Raw, Error> {
        let mut codec = RawCodec::lz4()?;
        let mut raw = Raw { lens: Vec::new(), bytes: Vec::new() };
        for page in pages.chunks(PAGE_SIZE).filter(|page| same_filled(page).is_none()) {
            let packed = codec.compress(page)?;
            let packed = if packed.len() < page.len() { packed } else { page };
            raw.lens.push(packed.len());
            raw.bytes.extend_from_slice(packed);
        }
        Ok(raw)
    }

    /// Decodes all pages and encodes them with zstd. Returns C, the sum of the stored lengths, with
    /// zstd in bytes, and the time in seconds.
    fn recode(&self) -> Result<(u64, f64), Error> {
        let (mut lz4, mut zstd) = (RawCodec::lz4()?, RawCodec::new("zstd")?);
        let (mut page, mut stored, mut at) = ([0; PAGE_SIZE], 0, 0);
        let begun = Instant::now();
        for &len in &self.lens {
            let packed = &self.bytes[at..at + len];
            at += len;
            match len {
                PAGE_SIZE => page.copy_from_slice(packed),
                _ => lz4.decompress(packed, &mut page)?,
            }
            stored += zstd.compress(&page)?.len().min(PAGE_SIZE) as u64;
        }
        Ok((stored, begun.elapsed().as_secs_f64()))
    }
}

pub(super) fn run(request: &Request, report: &mut Report<'_>) -> Result<(), Error> {
    for input in request.inputs(&[Input::Heap]) {
        let pages = request.pages(input)?.load()?;
        let raw = Raw::of(&pages)?;
        let (mut times, mut used, mut zstd, mut lz4_used) = (Vec::new(), 0, 0, 0);
        for _ in 0..ROUNDS {
            let recompression = [Some(Algorithm::new(zcomp::by_name("zstd")?)), None, None];
            let config = Config::new(pages.len() as u64)?;
            // Automatic compaction would disturb the measurement.
            let compaction = Compaction::Manual;
            let device = Device::new(Config { recompression, compaction, ..config })?;
            filled::write(&device, &pages)?;
            lz4_used = device.mm_stat().mem_used_total;
            let begun = Instant::now();
            device.recompress(&Recompress::default())?;
            let seconds = begun.elapsed().as_secs_f64();
            device.compact();
            used = device.mm_stat().mem_used_total;
            filled::verify(&device, &pages)?;
            let (stored, raw_seconds) = raw.recode()?;
            zstd = stored;
            times.push(seconds / raw_seconds);
        }
        let named = |figure: &str| format!("recompress/{}/{figure}", input.name());
        let over =
            Figure::new(NAME, named("memory after over raw zstd"), used as f64 / zstd as f64, "");
        report.add(over.must(Bound::at_most(MEMORY_MAX)))?;
        let time = Figure::new(NAME, named("time over raw decode and encode"), median(&times), "");
        report.add(time.must(Bound::at_most(TIME_MAX)))?;
        for (figure, bytes) in
            [("memory before", lz4_used), ("memory after", used), ("C by raw zstd", zstd)]
        {
            report.add(Figure::new(NAME, named(figure), mebibytes(bytes), "MiB"))?;
        }
    }
    Ok(())
}
