"""uzram: zram and zsmalloc in user space. Compressed memory, without root and without a kernel module.

- ``Device``: pages, images, anything with offsets; reads and writes any range, and compresses.
- ``Pool``: bytes of all lengths behind a number; packs them densely, and does not compress.
- ``Cache``: a mapping that compresses its values and keeps those used last, within a limit of memory.
- ``Region``: memory that lends itself as a buffer, and compresses itself when it is cold.

Every call may come from any thread at any time; calls that compress much let other threads run
meanwhile. Other threads must not change what a call reads, nor use what it writes, as with
``os.write`` and ``readinto`` of files. What is closed refuses its calls with ``ValueError``; all
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
