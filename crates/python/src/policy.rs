//! Tuning parameters.

/// The minimum length in bytes of a cache's value during whose compression or decompression other
/// Python threads can run.
pub(crate) const DETACHED_FROM: usize = 16 << 10;
/// The unit in bytes to which the heap rounds up the sizes of objects.
pub(crate) const GRAIN: usize = 16;
/// The size in bytes that is assumed for a key that does not report its size.
pub(crate) const KEY_BYTES: usize = 64;

/// The length in bytes below which a codec finishes before another thread could take the
/// interpreter.
pub(crate) const TINY: usize = 2048;
/// The maximum number of times that a thread which has finished checks whether another thread has
/// the interpreter. The checks take some microseconds.
pub(crate) const LOOKS: usize = 200;
