//! The class tables of the kernel's zsmalloc document, and of a later kernel.

/// For each chain length: two numbers of classes, and the watermark. The document's rule (used
/// percent) gives the first number. The rule of kernel 7.3 (least waste) gives the second number.
/// The watermark is equal with both rules.
pub const COUNTS: [(usize, usize, usize, usize); 13] = [
    (4, 69, 69, 3264),
    (5, 86, 86, 3408),
    (6, 93, 94, 3504),
    (7, 112, 110, 3584),
    (8, 123, 119, 3632),
    (9, 140, 136, 3680),
    (10, 143, 141, 3712),
    (11, 159, 153, 3744),
    (12, 164, 159, 3776),
    (13, 180, 173, 3792),
    (14, 183, 179, 3808),
    (15, 188, 186, 3840),
    (16, 191, 192, 3840),
];
