//! What the targets share: choices made by the fuzzer's bytes, and contents that differ everywhere.

use arbitrary::{Result, Unstructured};
use page::{RefuseNth, Supply};
use std::sync::Arc;
use zsmalloc::{ChainRule, Geometry, KernelGeometry};

/// The geometry a byte stands for.
pub fn geometry(byte: u8) -> Geometry {
    let order = u32::from(byte >> 1 & 3);
    if byte & 1 == 0 {
        return Geometry::Native { order: if byte & 0xf8 == 0xf8 { 4 } else { order } };
    }
    let chain = [1, 2, 3, 4, 5, 8, 16, 7][usize::from(byte >> 3 & 7)];
    let rule = if byte & 0x40 == 0 { ChainRule::LeastWaste } else { ChainRule::UsedPercent };
    Geometry::Kernel(KernelGeometry { chain, rule, merge: byte & 0x80 == 0, order })
}

/// Who refuses pages: mostly no one.
pub fn supply(input: &mut Unstructured) -> Result<Option<Arc<dyn Supply>>> {
    let (choice, nth): (u8, u8) = (input.arbitrary()?, input.arbitrary()?);
    Ok(match choice % 8 {
        0 => Some(Arc::new(RefuseNth::new(usize::from(nth) + 1, false))),
        1 => Some(Arc::new(RefuseNth::new(usize::from(nth) + 1, true))),
        _ => None,
    })
}

/// `len` bytes that differ from those of any other version.
pub fn contents(version: u64, len: usize) -> Vec<u8> {
    let mut state = version.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}
