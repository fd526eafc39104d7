//! Access to the program's memory during a walk, which finds the memory ranges that a call touches.

/// Reads the program's memory for a walk. A walk reads only ranges that it has already reported.
pub trait Memory {
    /// Copies the bytes at `address` to `into`. If the bytes can't be read, returns false and
    /// leaves `into` unspecified.
    fn read(&self, address: usize, into: &mut [u8]) -> bool;

    /// Returns the machine word at `address`, which need not be aligned.
    fn read_usize(&self, address: usize) -> Option<usize> {
        let mut bytes = [0; size_of::<usize>()];
        self.read(address, &mut bytes).then(|| usize::from_ne_bytes(bytes))
    }

    /// Returns the 4 bytes at `address` as an integer.
    fn read_u32(&self, address: usize) -> Option<u32> {
        let mut bytes = [0; 4];
        self.read(address, &mut bytes).then(|| u32::from_ne_bytes(bytes))
    }

    /// Returns the 2 bytes at `address` as an integer.
    fn read_u16(&self, address: usize) -> Option<u16> {
        let mut bytes = [0; 2];
        self.read(address, &mut bytes).then(|| u16::from_ne_bytes(bytes))
    }
}
