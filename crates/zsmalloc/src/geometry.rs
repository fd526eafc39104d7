//! Geometry: the size classes, and the shape of their zspages.
//!
//! Native zspages can be long, because only those of their pages that objects touch are committed.
//! A long zspage costs only address space, and wastes fewer bytes at its end than several short
//! zspages do. A full zspage of k pages of P bytes with slots of s bytes wastes `k * P mod s`
//! bytes. An object of n bytes wastes `s - n` bytes of its slot. Class sizes are 8 bytes apart, and
//! the plan selects the classes that are open.
//!
//! The kernel's geometry can be selected for comparison. The formulas of this geometry are those of
//! the kernel's size classes. The 8 bytes that the kernel adds to a request stay unused at the end
//! of the slot.

use page::{EXTENT_PAGES_MAX, page_size};
use std::ops::RangeInclusive;

/// The unit of object offsets and of native class sizes.
pub(crate) const GRAIN: usize = 8;
const SIZE_MIN: usize = 32;
/// The size of a device's slot in bytes. The largest class of order 0 has the same size, and stores
/// such slots uncompressed.
const BLOCK: usize = 4096;
/// The maximum order. Blocks of this order have 64 KiB.
pub const ORDER_MAX: u32 = 4;
/// The size of the largest object in bytes. This size is also the maximum page size, because the
/// kernel's geometry has a class of one page.
pub(crate) const OBJECT_MAX: usize = BLOCK << ORDER_MAX;
/// The number of bytes that the kernel adds to every request, because the kernel stores the handle
/// in the object.
const HEADER: usize = 8;
/// The maximum number of objects in a native zspage. `NATIVE_OBJECTS_MAX` is for objects of at
/// least `SMALL` bytes, and `SMALL_OBJECTS_MAX` is for smaller objects. A header has space for
/// these numbers of objects.
const NATIVE_OBJECTS_MAX: usize = 160;
const SMALL_OBJECTS_MAX: usize = 512;
const SMALL: usize = 512;
/// The maximum number of objects in any zspage. A page of the maximum size holds this number of the
/// smallest objects.
pub(crate) const OBJECTS_MAX: usize = OBJECT_MAX / SIZE_MIN;
/// The maximum number of classes. There are 509 classes of up to 4 KiB, and 256 for each further
/// order.
pub(crate) const CLASSES_MAX: usize = 1536;

/// The rule that determines the size classes and the shape of their zspages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Geometry {
    /// Native classes. Sizes up to 4 KiB are 8 bytes apart. Larger sizes are 8 << order bytes
    /// apart. The plan opens a class if the class saves more memory than it costs. A zspage has
    /// about a hundred objects and is committed page by page.
    Native {
        /// The largest object has 4096 << order bytes.
        order: u32,
    },
    /// The kernel's classes, whose zspages are committed whole.
    Kernel(KernelGeometry),
}

/// The parameters of the kernel's geometry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelGeometry {
    /// The maximum length of a zspage, 1 to 256 >> order. The unit is a page for classes of up to a
    /// page, and a block of 4096 << order bytes for larger classes.
    pub chain: usize,
    /// The rule that chooses the length of a zspage, up to `chain`.
    pub rule: ChainRule,
    /// True if sizes whose zspages have the same shape share a class.
    pub merge: bool,
    /// The order. The largest object has 4096 << order bytes, or a page if a page is larger.
    pub order: u32,
}

/// The kernel's rules for the length of a class's zspages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainRule {
    /// Chooses the shortest zspage that uses the greatest integer percentage of its bytes. The
    /// kernel used this rule until Linux 6.2, and the kernel's documentation describes this rule.
    UsedPercent,
    /// Chooses the shortest zspage that wastes the fewest bytes. The current kernel uses this rule.
    LeastWaste,
}

/// The reason why a geometry is impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GeometryError {
    /// The chain is longer than the longest extent, or has no page.
    #[error("chains can't have {chain} pages; 1 to {max} are possible at order {order}")]
    Chain {
        /// The requested number of pages in a chain.
        chain: usize,
        /// The maximum number of pages in a chain.
        max: usize,
        /// The requested order.
        order: u32,
    },
    /// The order is above 4, which is the order of blocks of 64 KiB.
    #[error("the order can't be {order}; 0 to 4 are possible (4 to 64 KiB)")]
    Order {
        /// The requested order.
        order: u32,
    },
    /// The system's pages are larger than the largest object, so a header has no space for all
    /// objects of one page.
    #[error("pages can't have {page} bytes; up to {max} are possible")]
    Page {
        /// The number of bytes in a page of this system.
        page: usize,
        /// The maximum number of bytes in a page.
        max: usize,
    },
}

impl Default for KernelGeometry {
    /// Returns the geometry of the current kernel: chains of up to 8 pages, the rule of least
    /// waste, and merged sizes.
    fn default() -> Self {
        KernelGeometry { chain: 8, rule: ChainRule::LeastWaste, merge: true, order: 0 }
    }
}

impl Default for Geometry {
    fn default() -> Self {
        Geometry::Native { order: 0 }
    }
}

impl Geometry {
    /// Returns the table of all classes.
    pub fn table(&self) -> Result<ClassTable, GeometryError> {
        self.table_for(page_size())
    }

    /// Returns the class table for a system with pages of `page` bytes.
    fn table_for(&self, page: usize) -> Result<ClassTable, GeometryError> {
        if page > OBJECT_MAX {
            return Err(GeometryError::Page { page, max: OBJECT_MAX });
        }
        let order = self.order();
        if order > ORDER_MAX {
            return Err(GeometryError::Order { order });
        }
        let classes = match self {
            Geometry::Native { .. } => native_classes(page, order),
            Geometry::Kernel(kernel) => {
                let max = EXTENT_PAGES_MAX as usize >> order;
                if kernel.chain == 0 || kernel.chain > max {
                    return Err(GeometryError::Chain { chain: kernel.chain, max, order });
                }
                kernel.classes(page)
            }
        };
        let table = ClassTable { classes, geometry: *self };
        assert!(table.largest() <= OBJECT_MAX, "{self:?} has objects that no word can name");
        Ok(table)
    }

    /// Returns the same geometry for objects of up to 4096 << order bytes.
    pub fn with_order(self, order: u32) -> Self {
        match self {
            Geometry::Native { .. } => Geometry::Native { order },
            Geometry::Kernel(kernel) => Geometry::Kernel(KernelGeometry { order, ..kernel }),
        }
    }

    /// Returns the result of [`ClassTable::huge_size`], but creates a table only if necessary.
    ///
    /// # Errors
    /// Fails as [`table`](Self::table) does.
    pub fn huge_size(&self, order: u32) -> Result<usize, GeometryError> {
        match self {
            Geometry::Kernel(_) => Ok(self.table()?.huge_size(order)),
            Geometry::Native { .. } => Ok(native_huge_size(order)),
        }
    }

    fn order(&self) -> u32 {
        match self {
            Geometry::Native { order } => *order,
            Geometry::Kernel(kernel) => kernel.order,
        }
    }
}

/// The shape of a class's zspages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassShape {
    /// The number of the class. Sizes that are merged share the number of the largest of these
    /// sizes.
    pub index: u32,
    /// The distance between the starts of adjacent slots, in bytes.
    pub size: usize,
    /// The smallest of the sizes that share the class, or `size` if the class has only one size.
    pub size_min: usize,
    /// The size of the largest object in the class, in bytes.
    pub capacity: usize,
    /// The number of pages of a zspage.
    pub pages: usize,
    /// The number of slots of a zspage.
    pub objects: usize,
}

impl ClassShape {
    /// Returns the number of bytes of a zspage that no slot covers.
    pub fn waste(&self) -> usize {
        self.waste_for(page_size())
    }

    /// Returns the percentage of a zspage that slots cover, rounded down.
    pub fn used_percent(&self) -> usize {
        self.used_percent_for(page_size())
    }

    fn waste_for(&self, page: usize) -> usize {
        self.pages * page - self.objects * self.size
    }

    fn used_percent_for(&self, page: usize) -> usize {
        let bytes = self.pages * page;
        (bytes - self.waste_for(page)) * 100 / bytes
    }

    /// Returns whether a zspage has only one object.
    fn is_huge(&self) -> bool {
        self.objects == 1
    }
}

/// All classes of a geometry, smallest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassTable {
    classes: Vec<ClassShape>,
    geometry: Geometry,
}

impl ClassTable {
    /// Returns the classes, smallest first.
    pub fn classes(&self) -> &[ClassShape] {
        &self.classes
    }

    /// Returns the geometry for which the table was created.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Returns the size of the largest object in bytes.
    pub fn largest(&self) -> usize {
        self.classes.last().map_or(0, |class| class.capacity)
    }

    /// Returns the position of the smallest class that holds objects of `len` bytes.
    pub fn position(&self, len: usize) -> Option<usize> {
        let position = self.classes.partition_point(|class| class.capacity < len);
        (len > 0 && position < self.classes.len()).then_some(position)
    }

    /// Returns the largest class size, up to 4096 << order bytes, whose zspages have more than one
    /// slot.
    pub fn watermark(&self, order: u32) -> usize {
        let within = |class: &&ClassShape| class.size <= BLOCK << order && !class.is_huge();
        self.classes.iter().rev().find(within).map_or(0, |class| class.size)
    }

    /// Returns the minimum compressed length at which blocks of order `order` are stored raw,
    /// because compression to this length gains nothing.
    pub fn huge_size(&self, order: u32) -> usize {
        match self.geometry {
            Geometry::Kernel(_) => (self.watermark(order) + 1).saturating_sub(HEADER),
            Geometry::Native { .. } => native_huge_size(order),
        }
    }
}

/// Returns the minimum compressed length at which a native block is stored raw. A raw block is read
/// without decompression. So compression must save at least a 64th of the block.
fn native_huge_size(order: u32) -> usize {
    (BLOCK << order) - ((BLOCK << order) >> 6) + 1
}

fn native_classes(page: usize, order: u32) -> Vec<ClassShape> {
    if cfg!(loom) {
        // Loom models of order 0 have one class, whose objects straddle pages: 4 objects lie in 3
        // pages. Models of higher orders also have a smaller class, and therefore a plan.
        let (small, large) = (shape(page, 0, 2048, 2048, 1), shape(page, order, 3072, 3072, 3));
        return if order == 0 { vec![large] } else { vec![small, large] };
    }
    let mut sizes: Vec<usize> = (SIZE_MIN..=BLOCK).step_by(GRAIN).collect();
    for above in 1..=order as usize {
        let (from, to) = (BLOCK << (above - 1), BLOCK << above);
        let step = GRAIN << above;
        sizes.extend((from + step..=to).step_by(step));
    }
    let sizes = sizes.into_iter().enumerate();
    let shapes = sizes.map(|(index, size)| {
        let known = NATIVE_CHAINS.get((size - SIZE_MIN) / GRAIN).filter(|_| page == BLOCK);
        let pages = known.map_or_else(|| native_chain(page, size), |pages| usize::from(*pages));
        shape(page, index as u32, size, size, pages)
    });
    merged(shapes.collect())
}

/// The results of `native_chain` for pages of 4 KiB and sizes up to a page. The results are
/// computed at compile time, because every process of `uzram run` creates the table of classes.
static NATIVE_CHAINS: [u16; (BLOCK - SIZE_MIN) / GRAIN + 1] = {
    let mut chains = [0; (BLOCK - SIZE_MIN) / GRAIN + 1];
    let mut nth = 0;
    while nth < chains.len() {
        chains[nth] = native_chain(BLOCK, SIZE_MIN + nth * GRAIN) as u16;
        nth += 1;
    }
    chains
};

/// Returns the number of pages of a native zspage. Considers the upper third of the possible
/// lengths, and chooses the shortest length that wastes the smallest share of its bytes.
const fn native_chain(page: usize, size: usize) -> usize {
    let objects = if size < SMALL { SMALL_OBJECTS_MAX } else { NATIVE_OBJECTS_MAX };
    let (least, bytes) = (size.div_ceil(page), objects * size);
    let most = EXTENT_PAGES_MAX as usize;
    let longest = if bytes / page < most { bytes / page } else { most };
    let longest = if longest < least { least } else { longest };
    let third = longest - longest / 3;
    let mut pages = if third < least { least } else { third };
    let mut best = (pages, pages * page % size);
    while pages < longest {
        pages += 1;
        let wasted = pages * page % size;
        // Compares `wasted / pages` with the best ratio so far, without a division.
        if wasted * best.0 < best.1 * pages {
            best = (pages, wasted);
        }
    }
    best.0
}

impl KernelGeometry {
    /// Returns the classes of sizes up to a page, then the classes of sizes up to 4096 << order
    /// bytes.
    fn classes(&self, page: usize) -> Vec<ClassShape> {
        let mut classes = self.run(page, page, SIZE_MIN..=page, 0);
        let block = BLOCK << self.order;
        if block > page {
            let step = block >> 8;
            // If pages are above 4 KiB, there are 257 sizes up to a page, otherwise 255.
            let first = classes.last().map_or(256, |last| 256.max(last.index + 1));
            classes.extend(self.run(page, block, page + step..=block, first));
        }
        classes
    }

    /// Returns the classes for those sizes in `sizes` that are a 256th of `unit` apart. The zspages
    /// of these classes consist of blocks of `unit` bytes.
    fn run(
        &self,
        page: usize,
        unit: usize,
        sizes: RangeInclusive<usize>,
        first: u32,
    ) -> Vec<ClassShape> {
        let (step, top) = (unit >> 8, *sizes.end());
        let count = (top - sizes.start()).div_ceil(step) + 1;
        let shapes = (0..count).map(|nth| {
            let size = (sizes.start() + nth * step).min(top);
            // The largest class stores objects of its full size. In other classes the kernel's
            // handle takes 8 bytes of each slot.
            let capacity = if size == top { size } else { size - HEADER };
            let of_blocks =
                |blocks| shape(page, first + nth as u32, size, capacity, blocks * unit / page);
            // If several lengths have the same score, the shortest length is chosen.
            let others = (2..=self.chain).map(of_blocks);
            others.fold(of_blocks(1), |best, next| {
                if self.score(page, &next) < self.score(page, &best) { next } else { best }
            })
        });
        let shapes = shapes.collect();
        if self.merge { merged(shapes) } else { shapes }
    }

    /// Returns the score of a shape. The lowest score is the best.
    fn score(&self, page: usize, shape: &ClassShape) -> usize {
        match self.rule {
            ChainRule::UsedPercent => 100 - shape.used_percent_for(page),
            ChainRule::LeastWaste => shape.waste_for(page),
        }
    }

    /// Returns the shape of a zspage for each possible length, for a `size` of at most a page.
    pub fn candidates(&self, size: usize) -> impl Iterator<Item = ClassShape> {
        let capacity = size.saturating_sub(HEADER);
        (1..=self.chain).map(move |pages| shape(page_size(), 0, size, capacity, pages))
    }
}

fn shape(page: usize, index: u32, size: usize, capacity: usize, pages: usize) -> ClassShape {
    let objects = pages * page / size;
    ClassShape { index, size, size_min: size, capacity, pages, objects }
}

/// Merges sizes whose zspages have the same shape into the class of the largest of these sizes. The
/// loop starts at the largest size, because each size is compared with the last class created.
fn merged(shapes: Vec<ClassShape>) -> Vec<ClassShape> {
    let mut classes: Vec<ClassShape> = Vec::new();
    for shape in shapes.into_iter().rev() {
        match classes.last_mut() {
            Some(last) if (last.pages, last.objects) == (shape.pages, shape.objects) => {
                last.size_min = shape.size;
            }
            _ => classes.push(shape),
        }
    }
    classes.reverse();
    classes
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns the tables of all orders for pages of 4, 16 and 64 KiB, each with its page size in
    /// bytes.
    pub(crate) fn tables() -> impl Iterator<Item = (usize, ClassTable)> {
        let geometries = (0..=ORDER_MAX).flat_map(|order| {
            let max = EXTENT_PAGES_MAX as usize >> order;
            let chains = [1, 2, 3, 4, 7, 8, 9, 16, max / 2, max].into_iter();
            let kernels = chains.filter(move |&chain| chain <= max).flat_map(move |chain| {
                [(ChainRule::UsedPercent, true), (ChainRule::LeastWaste, true)]
                    .into_iter()
                    .chain([(ChainRule::LeastWaste, false)])
                    .map(move |(rule, merge)| KernelGeometry { chain, rule, merge, order })
            });
            kernels.map(Geometry::Kernel).chain([Geometry::Native { order }])
        });
        let pages = [4096, 16_384, 65_536];
        geometries
            .flat_map(move |geometry| pages.map(|page| (page, geometry.table_for(page).unwrap())))
    }

    #[test]
    fn every_table_keeps_to_the_limits_whatever_the_page() {
        let mut most = 0;
        for (page, table) in tables() {
            let block = BLOCK << table.geometry().order();
            let is_kernel = matches!(table.geometry(), Geometry::Kernel(_));
            let largest = if is_kernel { block.max(page) } else { block };
            let what = format!("{:?} with pages of {page}", table.geometry());
            assert!(table.largest() <= OBJECT_MAX, "{what} goes up to {}", table.largest());
            assert!(cfg!(loom) || table.largest() == largest, "{what}");
            let classes = table.classes();
            assert!(classes.is_sorted_by(|a, b| a.size < b.size && a.index < b.index), "{what}");
            for class in classes {
                assert!((1..=OBJECTS_MAX).contains(&class.objects), "{what}: {class:?}");
                assert!(
                    (1..=EXTENT_PAGES_MAX as usize).contains(&class.pages),
                    "{what}: {class:?}"
                );
                assert!(class.capacity <= class.size, "{what}: {class:?}");
                assert!(class.objects * class.size <= class.pages * page, "{what}: {class:?}");
                most = most.max(class.objects);
            }
        }
        assert_eq!(most, OBJECTS_MAX, "headers are no larger than they must be");
    }

    #[test]
    fn native_classes_waste_little() {
        for order in 0..=ORDER_MAX {
            let table = Geometry::Native { order }.table().unwrap();
            let classes = table.classes();
            assert_eq!((classes[0].size, table.largest()), (SIZE_MIN, BLOCK << order));
            assert!(classes.is_sorted_by(|a, b| a.size < b.size));
            for class in classes {
                let bytes = class.pages * page_size();
                assert!(class.objects * class.size <= bytes && class.objects <= SMALL_OBJECTS_MAX);
                assert!(
                    class.size.is_multiple_of(GRAIN) && class.pages <= EXTENT_PAGES_MAX as usize
                );
                assert!(class.waste() * 100 < bytes, "{class:?} wastes {}", class.waste());
            }
        }
    }

    #[test]
    fn every_length_finds_the_smallest_class_that_holds_it() {
        let kernel = KernelGeometry { order: 2, ..KernelGeometry::default() };
        for geometry in [Geometry::Native { order: 2 }, Geometry::Kernel(kernel)] {
            let table = geometry.table().unwrap();
            assert_eq!(table.position(0), None);
            assert_eq!(table.position(table.largest() + 1), None);
            for len in 1..=table.largest() {
                let position = table.position(len).unwrap();
                assert!(table.classes()[position].capacity >= len);
                assert!(position == 0 || table.classes()[position - 1].capacity < len);
            }
        }
    }

    #[test]
    fn impossible_geometries_are_refused() {
        let kernel = |chain, order| {
            Geometry::Kernel(KernelGeometry { chain, order, ..KernelGeometry::default() }).table()
        };
        assert_eq!(kernel(0, 0), Err(GeometryError::Chain { chain: 0, max: 256, order: 0 }));
        assert_eq!(kernel(17, 4), Err(GeometryError::Chain { chain: 17, max: 16, order: 4 }));
        assert_eq!(kernel(8, 5), Err(GeometryError::Order { order: 5 }));
        assert!(kernel(256, 0).is_ok() && kernel(16, 4).is_ok());
        let page = 2 * OBJECT_MAX;
        let refused = Err(GeometryError::Page { page, max: OBJECT_MAX });
        assert_eq!(Geometry::default().table_for(page), refused);
    }
}
