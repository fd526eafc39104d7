"""What devices, pools, object caches and regions tell of themselves: frozen data classes.

A field with ``None`` for a limit says that there is none.
"""

from dataclasses import dataclass
from typing import Optional


@dataclass(frozen=True, slots=True)
class CacheStats:
    """What a cache holds and has done.

    entries: the number of values.
    limit: the most bytes of memory that it may take.
    held: bytes of memory that it takes, everything counted.
    stored: bytes of the values, before compression.
    compressed: bytes of the values, after compression.
    dictionary: bytes of the dictionary, 0 without one.
    hits: the number of calls that asked for a value and got it.
    misses: the number of calls that asked for a value that was not there.
    evictions: the number of values that went to make room.
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
    """What a device holds and has done.

    size: the device's size in bytes.
    orig_data_size: bytes stored, before compression.
    compr_data_size: bytes stored, after compression.
    mem_used: bytes of pages that hold compressed data.
    mem_used_max: the most bytes of such pages there were.
    mem_limit: the most bytes of such pages there may be, or None.
    mem_total: bytes of all memory of the device, tables and streams included.
    same_pages: slots of 4096 bytes that are one pattern of 8 bytes, and take no page.
    huge_pages: slots of 4096 bytes that are stored as they are, since they hardly shrink.
    pages_compacted: pages that compaction gave back.
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
    """What a pool holds.

    objects: the number of objects.
    pages_bytes: bytes of pages that hold objects.
    total_bytes: bytes of all memory of the pool, tables included.
    freeable_bytes: bytes of pages that ``compact`` could give back.
    object_bytes_max: bytes of the largest object that can be stored.
    limit: the most bytes of pages there may be, or None.
    """

    objects: int
    pages_bytes: int
    total_bytes: int
    freeable_bytes: int
    object_bytes_max: int
    limit: Optional[int]


@dataclass(frozen=True, slots=True)
class RegionStats:
    """What a region holds and has done.

    held: bytes of memory held: resident blocks, compressed ones, tables and buffers.
    held_max: the most bytes that were held at a time.
    limit: the most bytes that may be held, or None.
    resident: bytes of resident blocks.
    stored: bytes that are compressed, before compression.
    compressed: bytes that are compressed, after compression.
    device: bytes of all memory that serves what is compressed.
    filled: the number of blocks that were brought back.
    evicted: the number of blocks that were compressed.
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
