//! What a dictionary gives on blocks it was not trained with.

use super::samples::Samples;
use crate::clock::{Clock, Stopwatch};
use crate::codec::PackedBlocks;
use crate::error::Error;
use crate::interrupt::Interrupt;
use crate::progress::Progress;
use serde::Serialize;
use zcomp::{Codec, Dictionary, Params, Prepared, Stream};

/// Each codec goes over the blocks so often, with and without in turns; the median counts.
const PASSES: usize = 3;

/// A codec at its default level, with the dictionary and without.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Evaluation {
    pub(crate) algorithm: &'static str,
    pub(crate) level: i32,
    pub(crate) without: Figures,
    pub(crate) with: Figures,
    /// Bytes that a device holds for the dictionary, once for all streams.
    pub(crate) dictionary_memory: usize,
}

/// What the blocks come to, and how fast. Rates are in 10^6 bytes per second of processor time.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Figures {
    /// The sum of min(block, compressed length).
    pub(crate) stored: u64,
    pub(crate) ratio: f64,
    pub(crate) compress_mb_s: f64,
    pub(crate) decompress_mb_s: f64,
}

impl Evaluation {
    /// How much less is stored with the dictionary, of what is stored without it; below zero it is
    /// more.
    pub(crate) fn saved(&self) -> f64 {
        1.0 - self.with.stored as f64 / self.without.stored as f64
    }
}

/// Tries the dictionary with every codec.
pub(crate) fn run(
    dictionary: &Dictionary,
    samples: &Samples,
    interrupt: &Interrupt,
) -> Result<Vec<Evaluation>, Error> {
    let bytes = samples.held_out.len() * 2 * PASSES * zcomp::codecs().len();
    let progress = Progress::new("trying", bytes as u64);
    let mut tried = Vec::new();
    for codec in zcomp::codecs() {
        let plain = codec.prepare(&Params::default(), samples.block)?;
        let params = Params { dictionary: Some(dictionary.clone()), ..Params::default() };
        let with = codec.prepare(&params, samples.block)?;
        let mut runs =
            [CodecRun::new(*codec, &*plain, samples)?, CodecRun::new(*codec, &*with, samples)?];
        for _ in 0..PASSES {
            for run in &mut runs {
                interrupt.check()?;
                run.pass()?;
                progress.advance(samples.held_out.len() as u64);
            }
        }
        let [without, dictionary] = runs.map(CodecRun::figures);
        tried.push(Evaluation {
            algorithm: codec.name(),
            level: codec.default_level(),
            without,
            with: dictionary,
            dictionary_memory: with.bytes(),
        });
    }
    progress.finish();
    Ok(tried)
}

/// A codec going over the blocks that are held out.
struct CodecRun<'a> {
    codec: &'static str,
    stream: Box<dyn Stream>,
    samples: &'a Samples,
    packed: PackedBlocks,
    back: Vec<u8>,
    /// Seconds of each pass.
    compressing: Vec<f64>,
    decompressing: Vec<f64>,
}

impl<'a> CodecRun<'a> {
    /// Returns all memory it needs is made here, and touched.
    fn new(
        codec: &dyn Codec,
        prepared: &dyn Prepared,
        samples: &'a Samples,
    ) -> Result<Self, zcomp::Error> {
        // Two blocks are more than any codec makes of one, and hardly any gets longer at all.
        let room = samples.held_out.len() + samples.held_out.len() / 64 + 2 * samples.block;
        Ok(CodecRun {
            codec: codec.name(),
            stream: prepared.stream_owned()?,
            samples,
            packed: PackedBlocks::new(room, samples.held_out.len() / samples.block),
            back: vec![1; samples.held_out.len()],
            compressing: Vec::new(),
            decompressing: Vec::new(),
        })
    }

    /// Compresses and decompresses all blocks, and compares.
    fn pass(&mut self) -> Result<(), Error> {
        let Samples { block, held_out, .. } = self.samples;
        let (packed, stream) = (&mut self.packed, &mut *self.stream);
        packed.clear();
        // Others on the machine matter less to a thread's own time than to the time of day.
        let mut watch = Stopwatch::new(Clock::ThreadCpu);
        watch.time(|| held_out.chunks(*block).try_for_each(|src| packed.push(stream, src)))?;
        self.compressing.push(watch.seconds());

        let mut watch = Stopwatch::new(Clock::ThreadCpu);
        let mut blocks = self.back.chunks_mut(*block).enumerate();
        watch.time(|| blocks.try_for_each(|(nth, dst)| packed.unpack(nth, stream, dst)))?;
        self.decompressing.push(watch.seconds());
        match self.back == *held_out {
            true => Ok(()),
            false => Err(Error::Failed(format!(
                "{} decompressed blocks to other bytes than it had compressed; please report it",
                self.codec
            ))),
        }
    }

    fn figures(self) -> Figures {
        let Samples { block, held_out, .. } = self.samples;
        let blocks = 0..held_out.len() / block;
        let stored: usize = blocks.map(|nth| self.packed.stored_len(nth, *block)).sum();
        let bytes = held_out.len() as f64;
        let mb_s = |mut passes: Vec<f64>| {
            passes.sort_unstable_by(f64::total_cmp);
            bytes / 1e6 / passes[PASSES / 2].max(1e-9)
        };
        Figures {
            stored: stored as u64,
            ratio: bytes / stored as f64,
            compress_mb_s: mb_s(self.compressing),
            decompress_mb_s: mb_s(self.decompressing),
        }
    }
}
