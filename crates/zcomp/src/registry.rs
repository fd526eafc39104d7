//! All codecs, and the search for a codec by its name.

use crate::lz4::Lz4;
use crate::names::{ALL, RESERVED};
use crate::zstd::Zstd;
use crate::{Codec, Error};

/// The codecs in the order of `ALL`. Most interfaces use the first codec by default.
static CODECS: [&dyn Codec; ALL.len()] = [&Lz4::Fast, &Lz4::High, &Zstd];

/// Returns all codecs, in the kernel's order.
pub fn codecs() -> &'static [&'static dyn Codec] {
    &CODECS
}

/// Returns the codec with this name in the kernel.
///
/// # Errors
/// [`Error::Unsupported`] for an algorithm that only the kernel has, [`Error::UnknownAlgorithm`]
/// for any other name. The texts of both errors list the available codecs.
pub fn by_name(name: &str) -> Result<&'static dyn Codec, Error> {
    if let Some(codec) = CODECS.iter().find(|codec| codec.name() == name) {
        return Ok(*codec);
    }
    if let Some(name) = RESERVED.iter().find(|reserved| **reserved == name) {
        return Err(Error::Unsupported { name });
    }
    Err(Error::UnknownAlgorithm { name: name.to_owned() })
}
