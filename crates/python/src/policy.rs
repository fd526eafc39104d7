//! Tuning parameters.

/// While a cache compresses or decompresses a value of at least this length in bytes, other Python
/// threads can run.
pub(crate) const DETACHED_FROM: usize = 16 << 10;
/// The unit in bytes to which the heap rounds up the sizes of objects.
pub(crate) const GRAIN: usize = 16;
/// The size in bytes that is assumed for a key that does not report its size.
pub(crate) const KEY_BYTES: usize = 64;

/// For fewer bytes, a codec finishes before another thread could take the interpreter.
pub(crate) const TINY: usize = 2048;
/// After its work, a thread checks at most this number of times whether another thread has the
/// interpreter. All checks together take some microseconds.
pub(crate) const LOOKS: usize = 200;
