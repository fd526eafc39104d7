//! Structs and constants as C sees them. `tests/library/header.rs` compares them with `uzram.h`.
//!
//! # Safety
//! Each struct consists of integers and pointers only, in an order that leaves no padding, and
//! begins with its size.
#![allow(unsafe_code)]

use crate::border::Sized64;
use std::ffi::{c_char, c_void};
use std::mem::{offset_of, size_of};

/// A field of a struct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The name.
    pub name: &'static str,
    /// The offset in bytes.
    pub offset: usize,
    /// The size in bytes.
    pub bytes: usize,
}

/// A struct, as C sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Struct {
    /// The name.
    pub name: &'static str,
    /// The size in bytes.
    pub bytes: usize,
    /// The fields.
    pub fields: Vec<Field>,
}

/// The name and the value of a constant.
pub type Constant = (&'static str, i64);

/// A function of the C program that receives each evicted key and its value.
pub type OnEvict = unsafe extern "C" fn(
    context: *mut c_void,
    key: *const c_void,
    key_bytes: u64,
    value: *const c_void,
    value_bytes: u64,
);

macro_rules! structs {
    ($($(#[$doc:meta])* $name:ident = $c:literal { $($field:ident: $type:ty,)* })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug)]
            #[repr(C)]
            #[allow(missing_docs, reason = "uzram.h documents them")]
            pub struct $name { $(pub $field: $type,)* }

            // The struct has no padding.
            const _: () = assert!(size_of::<$name>() == 0 $(+ size_of::<$type>())*);
            // SAFETY: the struct consists of integers and pointers, and begins with its size. The
            // assertion above excludes padding.
            unsafe impl Sized64 for $name {}
        )*

        /// Returns all structs.
        pub fn structs() -> Vec<Struct> {
            vec![$({
                let fields = vec![$(Field {
                    name: stringify!($field),
                    offset: offset_of!($name, $field),
                    bytes: size_of::<$type>(),
                },)*];
                Struct { name: $c, bytes: size_of::<$name>(), fields }
            },)*]
        }
    };
}

structs! {
    /// The options of a device.
    DeviceOptions = "uzram_device_options" {
        size: u64, disksize: u64, mem_limit: u64, total_limit: u64, algorithm: *const c_char,
        recompression: [*const c_char; 3], backing_path: *const c_char, backing_bytes: u64,
        level: i32, block: u32, streams: u32, flags: u32,
    }
    /// The statistics of a device.
    DeviceStat = "uzram_device_stat" {
        size: u64, disksize: u64, orig_data_size: u64, compr_data_size: u64, mem_used: u64,
        mem_used_max: u64, mem_limit: u64, mem_total: u64, same_pages: u64, huge_pages: u64,
        pages_compacted: u64, failed_reads: u64, failed_writes: u64, backing_bytes: u64,
    }
    /// The options of a recompression.
    RecompressOptions = "uzram_recompress_options" {
        size: u64, threshold: u64, max_pages: u64, priority: u32, which: u32,
    }
    /// The results of a recompression.
    Recompressed = "uzram_recompressed" {
        size: u64, tried: u64, smaller: u64, saved_bytes: u64, touched: u64, damaged: u64,
    }
    /// The results of a write-back.
    WrittenBack = "uzram_written_back" {
        size: u64, slots: u64, bytes: u64, blocks: u64, touched: u64, damaged: u64,
    }
    /// The options of a pool.
    PoolOptions = "uzram_pool_options" { size: u64, limit: u64, flags: u64, }
    /// The statistics of a pool.
    PoolStat = "uzram_pool_stat" {
        size: u64, objects: u64, pages_bytes: u64, total_bytes: u64, freeable_bytes: u64,
        object_bytes_max: u64,
    }
    /// The options of an object cache.
    CacheOptions = "uzram_cache_options" {
        size: u64, object_bytes: u64, align: u64, limit: u64, name: *const c_char, flags: u64,
    }
    /// The statistics of an object cache.
    CacheStat = "uzram_cache_stat" {
        size: u64, objects: u64, room: u64, slabs: u64, refused: u64, total_bytes: u64,
    }
    /// The options of an LRU cache.
    LruOptions = "uzram_lru_options" {
        size: u64, limit: u64, algorithm: *const c_char, dictionary: *const c_void,
        dictionary_bytes: u64, on_evict: Option<OnEvict>, context: *mut c_void, level: i32,
        flags: u32,
    }
    /// The statistics of an LRU cache.
    LruStat = "uzram_lru_stat" {
        size: u64, entries: u64, limit: u64, held: u64, stored: u64, compressed: u64,
        dictionary_bytes: u64, hits: u64, misses: u64, evictions: u64,
    }
    /// The options of a region.
    RegionOptions = "uzram_region_options" {
        size: u64, bytes: u64, limit: u64, store_limit: u64, algorithm: *const c_char, level: i32,
        block: u32, flags: u64,
    }
    /// The statistics of a region.
    RegionStat = "uzram_region_stat" {
        size: u64, held: u64, held_max: u64, limit: u64, resident: u64, stored: u64,
        compressed: u64, device: u64, filled: u64, evicted: u64,
    }
}

macro_rules! constants {
    ($($name:ident: $type:ty = $value:expr;)*) => {
        $(pub(crate) const $name: $type = $value;)*

        /// Returns all constants, without the prefix `UZRAM_`.
        pub fn constants() -> Vec<Constant> {
            vec![$((stringify!($name), $name as i64),)*]
        }
    };
}

constants! {
    DEVICE_TRACK_ACCESS: u32 = 1;
    DEVICE_CHECKSUMS: u32 = 2;
    DEVICE_LEAVE_AT_FORK: u32 = 4;
    WHICH_ALL: u32 = 0;
    WHICH_IDLE: u32 = 1;
    WHICH_HUGE: u32 = 2;
    WHICH_HUGE_IDLE: u32 = 3;
    WHICH_INCOMPRESSIBLE: u32 = 4;
    RESTORE_SALVAGE: u32 = 1;
    POOL_COMPACT_IN_BACKGROUND: u64 = 1;
    POOL_LEAVE_AT_FORK: u64 = 2;
    CACHE_DEBUG: u64 = 1;
    LRU_NO_DICTIONARY: u32 = 1;
    REGION_COPY_AT_FORK: u64 = 1;
    REGION_CHECKSUMS: u64 = 2;
    REGION_USERFAULTFD: u64 = 4;
    ADVICE_COLD: u32 = 0;
    ADVICE_HOT: u32 = 1;
}
