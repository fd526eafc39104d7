//! A codec with a planted fault: lz4, but decompression changes the last byte of a block if the
//! second last byte is 7.

use std::ops::RangeInclusive;
use zcomp::{Codec, Error, Params, Prepared, Stream};

#[derive(Debug)]
pub struct WrongCodec;

fn lz4() -> &'static dyn Codec {
    zcomp::by_name("lz4").expect("it is always there")
}

impl Codec for WrongCodec {
    fn name(&self) -> &'static str {
        "lz4"
    }

    fn levels(&self) -> RangeInclusive<i32> {
        lz4().levels()
    }

    fn default_level(&self) -> i32 {
        lz4().default_level()
    }

    fn prepare(&self, params: &Params, block: usize) -> Result<Box<dyn Prepared>, Error> {
        Ok(Box::new(WrongPrepared(lz4().prepare(params, block)?)))
    }
}

#[derive(Debug)]
struct WrongPrepared(Box<dyn Prepared>);

impl Prepared for WrongPrepared {
    fn stream_bytes(&self) -> usize {
        self.0.stream_bytes()
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }

    fn stream(&self) -> Result<Box<dyn Stream>, Error> {
        Ok(Box::new(WrongStream(self.0.stream()?)))
    }
}

struct WrongStream(Box<dyn Stream>);

impl Stream for WrongStream {
    fn compress(&mut self, src: &[u8], dst: &mut [u8]) -> Result<Option<usize>, Error> {
        self.0.compress(src, dst)
    }

    fn decompress(&mut self, src: &[u8], dst: &mut [u8]) -> Result<(), Error> {
        self.0.decompress(src, dst)?;
        if let [.., 7, last] = dst {
            *last ^= 1;
        }
        Ok(())
    }
}
