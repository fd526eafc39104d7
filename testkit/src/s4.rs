//! Caches of 4 KiB slabs, aligned to cache lines, for which the change of 2013 contains figures:
//! the objects per slab before and after the change.

/// The cache, the size of an object in bytes, and the objects per slab with a header before the
/// objects and without a header.
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
