//! Geometries, and sizes that are critical in them.

use crate::Choices;
use zsmalloc::{ChainRule, ClassTable, Geometry, KernelGeometry};

/// Draws any geometry.
pub fn draw(choices: &mut Choices) -> Geometry {
    if choices.bool() {
        return Geometry::Native { order: *choices.pick(&[0, 0, 0, 1, 2, 3, 4]) };
    }
    let rule = *choices.pick(&[ChainRule::LeastWaste, ChainRule::UsedPercent]);
    Geometry::Kernel(KernelGeometry {
        chain: *choices.pick(&[1, 2, 3, 4, 5, 7, 8, 16]),
        rule,
        merge: choices.bool(),
        order: *choices.pick(&[0, 0, 1, 2, 3]),
    })
}

/// Returns four geometries: native, the kernel's default, long zspages as in the kernel's document,
/// and zspages of one page.
pub fn some() -> [Geometry; 4] {
    let kernel = KernelGeometry::default();
    let document = KernelGeometry { chain: 16, rule: ChainRule::UsedPercent, ..kernel };
    let unmerged = KernelGeometry { chain: 1, merge: false, ..kernel };
    let kernels = [kernel, document, unmerged].map(Geometry::Kernel);
    [Geometry::default(), kernels[0], kernels[1], kernels[2]]
}

/// Returns the native and the kernel's geometry, each for blocks of 16 KiB and of 64 KiB.
pub fn of_blocks() -> [Geometry; 4] {
    let kernel = |order| Geometry::Kernel(KernelGeometry { order, ..KernelGeometry::default() });
    [Geometry::Native { order: 2 }, Geometry::Native { order: 4 }, kernel(2), kernel(4)]
}

/// The largest object of each class.
pub struct Edges(Vec<usize>);

impl Edges {
    pub fn of(table: &ClassTable) -> Self {
        Edges(table.classes().iter().map(|shape| shape.capacity).collect())
    }

    pub fn largest(&self) -> usize {
        self.0[self.0.len() - 1]
    }

    /// Draws a length: at the edge of a class, one byte from such an edge, the longest length, a
    /// short length, or any length. Some lengths are too short or too long to be stored.
    pub fn draw(&self, choices: &mut Choices) -> usize {
        match choices.below(10) {
            0..4 => choices.within(0..=self.largest() + 2),
            4..8 => choices.pick(&self.0) - 1 + choices.below(3),
            8 => choices.within(1..=40),
            _ => self.largest(),
        }
    }

    /// Draws a length as `draw` does, but only a length that can be stored.
    pub fn draw_possible(&self, choices: &mut Choices) -> usize {
        self.draw(choices).clamp(1, self.largest())
    }
}
