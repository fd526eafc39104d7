//! The benefit of a dictionary, measured on the held-out blocks.

use super::samples::Samples;
use crate::commands::analyze::forecast::stored;
use crate::commands::packed::PackedBlocks;
use crate::commands::policy::{COMPRESSED_MAX, PASSES};
use crate::error::Error;
use crate::progress::Progress;
use measure::Interrupt;
use measure::clock::{Clock, Stopwatch};
use serde::Serialize;
use zcomp::{Codec, Dictionary, Params, Stream};
use zram::{Config, Device};

/// The results of a codec at its default level, with the dictionary and without a dictionary.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Evaluation {
    pub(crate) algorithm: &'static str,
    pub(crate) level: i32,
    pub(crate) without: Figures,
    pub(crate) with: Figures,
    /// The bytes of memory that the dictionary adds to a device with a stream for each processor.
    /// These bytes are the dictionary's content, the tables that codecs derive from the content,
    /// and the growth of the streams' contexts.
    pub(crate) dictionary_memory: u64,
    /// The number of bytes of similar data from which on the dictionary reduces a device's memory
    /// use, or `None` if no amount suffices.
    pub(crate) pays_from: Option<u64>,
}

/// The size of the compressed blocks, and the rates in 10^6 bytes per second of processor time.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Figures {
    /// The sum of min(block size, compressed length) over the held-out blocks, in bytes.
    pub(crate) stored: u64,
    pub(crate) ratio: f64,
    /// The memory of a device that holds all the files, and of an empty device, in bytes.
    pub(crate) memory: u64,
    pub(crate) memory_empty: u64,
    pub(crate) compress_mb_s: f64,
    pub(crate) decompress_mb_s: f64,
}

impl Evaluation {
    fn new(codec: &dyn Codec, [without, with]: [Figures; 2], bytes: f64) -> Self {
        let (algorithm, level) = (codec.name(), codec.default_level());
        let dictionary_memory = with.memory_empty.saturating_sub(without.memory_empty);
        let grown = |of: Figures| of.memory - of.memory_empty;
        let saved = grown(without).checked_sub(grown(with)).filter(|saved| *saved > 0);
        let pays_from = saved.map(|of: u64| (bytes * dictionary_memory as f64 / of as f64) as u64);
        Evaluation { algorithm, level, without, with, dictionary_memory, pays_from }
    }
}

pub(crate) fn run(
    dictionary: &Dictionary,
    samples: &Samples,
    interrupt: &Interrupt,
) -> Result<Vec<Evaluation>, Error> {
    let bytes = samples.held_out.len() * 2 * PASSES * zcomp::codecs().len();
    let progress = Progress::new("trying", bytes as u64);
    let mut tried = Vec::new();
    for codec in zcomp::codecs() {
        let with = Params { dictionary: Some(dictionary.clone()), ..Params::default() };
        let new = |params| CodecRun::new(*codec, params, samples);
        let mut runs = [new(Params::default())?, new(with)?];
        for _ in 0..PASSES {
            for run in &mut runs {
                interrupt.check()?;
                run.pass()?;
                progress.advance(samples.held_out.len() as u64);
            }
        }
        let [without, with] = runs.map(CodecRun::figures);
        tried.push(Evaluation::new(*codec, [without?, with?], samples.bytes_of_all as f64));
    }
    Ok(tried)
}

/// The run of a codec over the held-out blocks.
struct CodecRun<'a> {
    codec: &'static dyn Codec,
    params: Params,
    stream: Box<dyn Stream>,
    samples: &'a Samples,
    packed: PackedBlocks,
    back: Vec<u8>,
    /// The processor times for the compression and decompression of each pass, in seconds.
    compressing: Vec<f64>,
    decompressing: Vec<f64>,
}

impl<'a> CodecRun<'a> {
    fn new(codec: &'static dyn Codec, params: Params, samples: &'a Samples) -> Result<Self, Error> {
        // Little spare room suffices, because compression makes very few blocks longer.
        let room =
            samples.held_out.len() + samples.held_out.len() / 64 + COMPRESSED_MAX * samples.block;
        Ok(CodecRun {
            codec,
            stream: codec.prepare(&params, samples.block)?.stream()?,
            params,
            samples,
            packed: PackedBlocks::new(room, samples.held_out.len() / samples.block),
            back: vec![1; samples.held_out.len()],
            compressing: Vec::new(),
            decompressing: Vec::new(),
        })
    }

    /// Compresses and decompresses all held-out blocks, and compares the results with the blocks.
    fn pass(&mut self) -> Result<(), Error> {
        let Samples { block, held_out, .. } = self.samples;
        let (packed, stream) = (&mut self.packed, &mut *self.stream);
        packed.clear();
        // Other load on the machine affects processor time less than wall clock time.
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
                self.codec.name()
            ))),
        }
    }

    fn figures(self) -> Result<Figures, Error> {
        let Samples { block, training, held_out, taken, bytes_of_all } = self.samples;
        let lens = (0..held_out.len() / block).map(|nth| self.packed.stored_len(nth, *block));
        let stored_bytes = lens.clone().sum::<usize>();
        let (block, algorithm, params) = (*block, self.codec, self.params);
        let config = Config { block, algorithm, params, ..Config::new(*bytes_of_all)? };
        let memory_empty = Device::new(config)?.mem_total();
        // `sampled` is the share of blocks that are not same-filled. Each held-out block represents
        // `scale` blocks of the files.
        let sampled = (training.len() + held_out.len()) as f64 / (*taken as usize * block) as f64;
        let scale = *bytes_of_all as f64 * sampled / held_out.len() as f64;
        let (pages, headers) = stored(block, lens.map(|len| (len, scale)));
        let bytes = held_out.len() as f64;
        let mb_s = |mut passes: Vec<f64>| {
            passes.sort_unstable_by(f64::total_cmp);
            bytes / 1e6 / passes[PASSES / 2].max(1e-9)
        };
        Ok(Figures {
            stored: stored_bytes as u64,
            ratio: bytes / stored_bytes as f64,
            memory: memory_empty + (pages + headers) as u64,
            memory_empty,
            compress_mb_s: mb_s(self.compressing),
            decompress_mb_s: mb_s(self.decompressing),
        })
    }
}
