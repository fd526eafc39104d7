//! A wrapper of a codec that calls a test's function before each call. The function can make the
//! call fail.

use std::ops::RangeInclusive;
use zcomp::{Codec, Error, Params, Prepared, Stream};

/// The call that the wrapper is about to forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Compress,
    Decompress,
}

type Before = fn(Call) -> Result<(), Error>;

#[derive(Debug)]
pub struct WatchedCodec {
    /// The name of the wrapped codec.
    pub of: &'static str,
    /// The test's function. If it returns an error, the call returns this error and has no other
    /// effect.
    pub before: Before,
}

impl WatchedCodec {
    fn inner(&self) -> &'static dyn Codec {
        zcomp::by_name(self.of).unwrap()
    }
}

impl Codec for WatchedCodec {
    fn name(&self) -> &'static str {
        self.of
    }

    fn levels(&self) -> RangeInclusive<i32> {
        self.inner().levels()
    }

    fn default_level(&self) -> i32 {
        self.inner().default_level()
    }

    fn prepare(&self, params: &Params, block: usize) -> Result<Box<dyn Prepared>, Error> {
        let prepared = self.inner().prepare(params, block)?;
        Ok(Box::new(WatchedPrepared { prepared, before: self.before }))
    }
}

#[derive(Debug)]
struct WatchedPrepared {
    prepared: Box<dyn Prepared>,
    before: Before,
}

impl Prepared for WatchedPrepared {
    fn stream_bytes(&self) -> usize {
        self.prepared.stream_bytes()
    }

    fn bytes(&self) -> usize {
        self.prepared.bytes()
    }

    fn stream(&self) -> Result<Box<dyn Stream>, Error> {
        Ok(Box::new(WatchedStream { stream: self.prepared.stream()?, before: self.before }))
    }
}

struct WatchedStream {
    stream: Box<dyn Stream>,
    before: Before,
}

impl Stream for WatchedStream {
    fn compress(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Option<usize>, Error> {
        (self.before)(Call::Compress)?;
        self.stream.compress(src, dst)
    }

    fn decompress(&mut self, src: &[u8], dst: &mut [u8]) -> Result<(), Error> {
        (self.before)(Call::Decompress)?;
        self.stream.decompress(src, dst)
    }
}
