"""uzram: zram and zsmalloc in user space. Compressed memory, without root and without a kernel module.

- ``Device``: pages, images, other data with offsets; reads and writes any range of bytes, compressed.
- ``Pool``: byte strings of all lengths, each with a number; packs them, and does not compress them.
- ``Cache``: a mapping that compresses its values, and keeps the most recently used within a limit.
- ``Region``: memory that Python code uses as a buffer, and whose cold parts are compressed.

Any thread may make any call at any time; during calls that compress much, other threads run. Other
threads must not change the bytes that a call reads, and must not use the memory that a call writes,
as with ``os.write`` and ``readinto`` of files. Calls of a closed object raise ``ValueError``; all
errors of uzram's own are ``Error``, an ``OSError``. Sizes, lengths and offsets are in bytes.
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
