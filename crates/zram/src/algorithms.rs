//! The algorithms of a device: its own, and those that cold data are compressed with again. Their
//! number is the priority that objects are marked with.

use crate::Error;
use zcomp::{Codec, Params, Prepared, Stream};

/// How many algorithms cold data can be compressed with again.
pub const SECONDARY_MAX: usize = 3;

/// A codec and how it is to work.
#[derive(Clone, Debug)]
pub struct Algorithm {
    /// The codec.
    pub codec: &'static dyn Codec,
    /// Its parameters.
    pub params: Params,
}

impl Algorithm {
    /// Returns a codec with its default parameters.
    pub fn new(codec: &'static dyn Codec) -> Self {
        Algorithm { codec, params: Params::default() }
    }
}

/// All of a device, by priority.
pub(crate) type AlgorithmList = [Option<Algorithm>; 1 + SECONDARY_MAX];

/// What streams are made of: each algorithm with its digests, for blocks of one size.
pub(crate) struct PreparedSet {
    own: Box<dyn Prepared>,
    others: Vec<Option<Box<dyn Prepared>>>,
}

impl PreparedSet {
    pub(crate) fn of(algorithms: &AlgorithmList, block_bytes: usize) -> Result<Self, Error> {
        let prepare = |algorithm: &Option<Algorithm>| {
            let Some(Algorithm { codec, params }) = algorithm else { return Ok(None) };
            codec.prepare(params, block_bytes).map(Some)
        };
        let [own, others @ ..] = algorithms;
        let own = prepare(own)?.ok_or(Error::NoAlgorithm { priority: 0 })?;
        let others = others.iter().map(prepare).collect::<Result<_, _>>()?;
        Ok(PreparedSet { own, others })
    }

    pub(crate) fn codecs(&self) -> Result<Codecs, Error> {
        let mut others = [const { None }; SECONDARY_MAX];
        for (other, prepared) in others.iter_mut().zip(&self.others) {
            *other = prepared.as_ref().map(|prepared| prepared.stream_owned()).transpose()?;
        }
        Ok(Codecs { own: self.own.stream_owned()?, others })
    }

    /// Returns the bytes of so many streams of each, and of what they share.
    pub(crate) fn bytes(&self, streams: usize) -> usize {
        let all = std::iter::once(&self.own).chain(self.others.iter().flatten());
        all.map(|prepared| streams * prepared.stream_bytes() + prepared.bytes()).sum()
    }
}

/// A context of each algorithm.
pub(crate) struct Codecs {
    own: Box<dyn Stream>,
    others: [Option<Box<dyn Stream>>; SECONDARY_MAX],
}

impl Codecs {
    /// Returns the device's own, which requests compress with.
    pub(crate) fn own(&mut self) -> &mut dyn Stream {
        &mut *self.own
    }

    /// That of a priority. Objects have only the flags of those there are (zr-X3).
    pub(crate) fn of(&mut self, priority: u8) -> &mut dyn Stream {
        let other = usize::from(priority).checked_sub(1).and_then(|nth| self.others.get_mut(nth));
        match other {
            Some(Some(other)) => &mut **other,
            _ => &mut *self.own,
        }
    }
}
