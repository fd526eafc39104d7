"""The statistics of devices, pools, caches and regions, as frozen data classes.

If there is no limit, the field ``limit`` or ``mem_limit`` is ``None``.
"""

from dataclasses import dataclass
from typing import Optional


@dataclass(frozen=True, slots=True)
class CacheStats:
    """The contents and the counters of a cache.

    entries: the number of values.
    limit: the maximum number of bytes of memory that the cache can use.
    held: bytes of all memory that the cache uses.
    stored: bytes of the values, before compression.
    compressed: bytes of the values, after compression.
    dictionary: bytes of the dictionary, or 0 if no dictionary is used.
    hits: the number of calls that requested a value and found it.
    misses: the number of calls that requested a value and found no value.
    evictions: the number of values that were evicted.
    """

    entries: int
    limit: int
    held: int
    stored: int
    compressed: int
    dictionary: int
    hits: int
    misses: int
    evictions: int


@dataclass(frozen=True, slots=True)
class DeviceStats:
    """The contents and the counters of a device.

    size: the device's size in bytes.
    orig_data_size: bytes stored, before compression.
    compr_data_size: bytes stored, after compression.
    mem_used: bytes of pages that hold compressed data.
    mem_used_max: the maximum of ``mem_used`` so far.
    mem_limit: the limit of ``mem_used``, or None.
    mem_total: bytes of all memory of the device, including tables and streams.
    same_pages: slots of 4096 bytes that repeat a pattern of 8 bytes, and use no page.
    huge_pages: slots of 4096 bytes that are stored uncompressed, because they hardly shrink.
    pages_compacted: pages that compaction has freed so far.
    failed_reads: slots of 4096 bytes that could not be read.
    failed_writes: slots of 4096 bytes that could not be written.
    """

    size: int
    orig_data_size: int
    compr_data_size: int
    mem_used: int
    mem_used_max: int
    mem_limit: Optional[int]
    mem_total: int
    same_pages: int
    huge_pages: int
    pages_compacted: int
    failed_reads: int
    failed_writes: int


@dataclass(frozen=True, slots=True)
class PoolStats:
    """The contents of a pool.

    objects: the number of objects.
    pages_bytes: bytes of pages that hold objects.
    total_bytes: bytes of all memory of the pool, including tables.
    freeable_bytes: bytes of pages that ``compact`` could free.
    object_bytes_max: bytes of the largest object that can be stored.
    limit: the limit of ``pages_bytes``, or None.
    """

    objects: int
    pages_bytes: int
    total_bytes: int
    freeable_bytes: int
    object_bytes_max: int
    limit: Optional[int]


@dataclass(frozen=True, slots=True)
class RegionStats:
    """The contents and the counters of a region.

    held: bytes of memory held: resident blocks, compressed blocks, tables and buffers.
    held_max: the maximum of ``held`` so far.
    limit: the limit of ``held``, or None.
    resident: bytes of resident blocks.
    stored: bytes of the evicted blocks, before compression.
    compressed: bytes of the evicted blocks, after compression.
    device: bytes of all memory that stores compressed blocks.
    filled: the number of blocks that were decompressed so far.
    evicted: the number of blocks that were evicted so far.
    """

    held: int
    held_max: int
    limit: Optional[int]
    resident: int
    stored: int
    compressed: int
    device: int
    filled: int
    evicted: int
