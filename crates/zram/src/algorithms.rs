//! The algorithms of a device: the device's own algorithm, and those that recompress cold data. The
//! flags of an object contain the number of the object's algorithm. This number is called the
//! priority.

use crate::Error;
use zcomp::{Codec, Params, Prepared, Stream};

/// The maximum number of algorithms for recompression.
pub const SECONDARY_MAX: usize = 3;

/// A codec with its parameters.
#[derive(Clone, Debug)]
pub struct Algorithm {
    /// The codec.
    pub codec: &'static dyn Codec,
    /// The codec's parameters.
    pub params: Params,
}

impl Algorithm {
    /// Returns a codec with its default parameters.
    pub fn new(codec: &'static dyn Codec) -> Self {
        Algorithm { codec, params: Params::default() }
    }
}

/// All algorithms of a device, indexed by priority.
pub(crate) type AlgorithmList = [Option<Algorithm>; 1 + SECONDARY_MAX];

/// The algorithms and their digested dictionaries, prepared for streams that compress blocks of one
/// size.
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
            *other = prepared.as_ref().map(|prepared| prepared.stream()).transpose()?;
        }
        Ok(Codecs { own: self.own.stream()?, others })
    }

    /// Returns the size in bytes of `streams` streams of each algorithm, and of the digests that
    /// the streams share.
    pub(crate) fn bytes(&self, streams: usize) -> usize {
        let all = std::iter::once(&self.own).chain(self.others.iter().flatten());
        all.map(|prepared| streams * prepared.stream_bytes() + prepared.bytes()).sum()
    }
}

/// One context of each algorithm.
pub(crate) struct Codecs {
    own: Box<dyn Stream>,
    others: [Option<Box<dyn Stream>>; SECONDARY_MAX],
}

impl Codecs {
    /// Returns the context of the device's own algorithm, which compresses the data of writes.
    pub(crate) fn own(&mut self) -> &mut dyn Stream {
        &mut *self.own
    }

    /// Returns the context of the algorithm with `priority`. Every object has the priority of an
    /// existing algorithm (zr-X3).
    pub(crate) fn of(&mut self, priority: u8) -> &mut dyn Stream {
        let other = usize::from(priority).checked_sub(1).and_then(|nth| self.others.get_mut(nth));
        match other {
            Some(Some(other)) => &mut **other,
            _ => &mut *self.own,
        }
    }
}
