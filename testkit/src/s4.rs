//! Caches with slabs of 4 KiB and objects aligned to cache lines. The text of the change of 2013
//! contains their objects per slab before and after the change.

/// For each cache: its name, the size of an object in bytes, and two numbers of objects per slab.
/// The first number is for slabs with a header before the objects, the second for slabs without a
/// header.
pub const CACHES: [(&str, usize, usize, usize); 8] = [
    ("kmalloc-512", 512, 8, 8),
    ("kmalloc-256", 256, 15, 15),
    ("kmalloc-192", 192, 20, 20),
    ("kmalloc-96", 96, 30, 31),
    ("kmalloc-64", 64, 59, 60),
    ("kmalloc-128", 128, 30, 31),
    ("kmalloc-32", 32, 112, 113),
    ("kmem_cache", 192, 20, 20),
];
