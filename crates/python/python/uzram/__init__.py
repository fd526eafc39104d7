"""uzram: zram and zsmalloc in user space. Compressed memory, without root and without a kernel module.

- ``Device``: stores pages, images and other data, compressed; reads and writes any range of bytes.
- ``Pool``: stores byte strings of all lengths, each with a number; packs them without compression.
- ``Cache``: a mapping of compressed values; evicts the least recently used ones at a limit.
- ``Region``: memory that Python code uses as a buffer, and whose cold parts are compressed.

Any thread can make any call at any time. During calls that compress much data, other threads can
run. Other threads must not change the bytes that a call reads, and must not use the memory that a
call writes. The same holds for ``os.write`` and for ``readinto`` of files. Calls of a closed object
raise ``ValueError``. All other errors of uzram are ``Error``, which is an ``OSError``. Sizes,
lengths and offsets are in bytes.
"""

from . import _views as _views
from ._stats import CacheStats, DeviceStats, PoolStats, RegionStats
from ._uzram import (
    Cache,
    Device,
    Error,
    Pool,
    Region,
    RegionLock,
    __version__,
    algorithms,
    train_dictionary,
)

__all__ = [
    "Cache",
    "CacheStats",
    "Device",
    "DeviceStats",
    "Error",
    "Pool",
    "PoolStats",
    "Region",
    "RegionLock",
    "RegionStats",
    "__version__",
    "algorithms",
    "train_dictionary",
]
