"""Answers of experiments that were removed from `bench`, for README.md and docs/results.md.

Each answer names a commit, which contains the experiment and all its results in bench/results.
The results name the machine if `bench` recorded it.
"""

# The processor time for moving objects during overwrites, and the time of a store and a free in a
# pool, relative to other allocators.
OVERWRITES_CPU = "4.7 s"
OVERWRITES_COMMIT = "ac3e820e"
STORE_OVER = {"mimalloc": "1.31", "jemalloc": "2.02"}
STORE_COMMIT = "7fe1ea22"

ANSWERS = [
    ("What does compaction cost while a full device, and a full pool, are overwritten ten million times at random?",
     "Overhead 0.93% and 1.43%, a second later 0.43% and 0.44%; without compaction 3.97% and 3.96%. Throughput 0.98 and "
     f"0.96 of that without compaction. Processor time {OVERWRITES_CPU} and 2.2 s.", OVERWRITES_COMMIT),
    ("Do reads wait for compaction?",
     "No. The slowest 0.1% of reads take 1.06 (device) and 1.007 (pool) times as long as without compaction.",
     "5fc5bbcf"),
    ("How large is the overhead of the whole source tree, as soon as it is stored?",
     "0.66%, everything counted 1.75%; kernel zram 2.72%.", "5fc5bbcf"),
    ("With the kernel's size classes and zspages, does uzram take as much memory as the kernel?",
     "Yes: they differ by 0.006% (source), 0.005% (system) and 0.000% (heap).", "5fc5bbcf"),
    ("How much processor time do 16 KiB blocks of the heap take over 4 KiB blocks (zstd 3)?",
     "Whole blocks: writing 0.68, reading 0.75. Single pages: reading in order 0.75, reading anywhere 2.65, overwriting "
     "anywhere 1.17.", "fb36c2e7"),
    ("How much memory do a pool (with numbered slots) and allocators take for the compressed pages of the source tree, "
     "over C: all stored; directories dropped; a random 97% dropped?",
     "The pool 1.015; 1.05; 1.06. glibc malloc 1.02; 1.45; 4.15. jemalloc 1.12; 2.13; 10.40. mimalloc 1.13; 2.12; "
     "25.07.", "6a280fa7"),
    ("And after ten million overwrites?",
     "The pool 1.015, glibc malloc 1.03, jemalloc 1.14, mimalloc 1.15. The pool takes 0.99 of the memory of the best "
     "rival; at most 0.95 was required.", "ac3e820e"),
    ("How long do a store and a free of such blobs take, and a read?",
     "A store and a free: pool (by handle) 884 ns, glibc malloc 617 ns, mimalloc 660 ns, jemalloc 447 ns; the median of "
     f"the ratios is {STORE_OVER['mimalloc']} to mimalloc and {STORE_OVER['jemalloc']} to jemalloc. A read: pool by "
     "slot number 350 ns, pool by handle 476 ns, memcpy 259 ns.", STORE_COMMIT),
    ("How long does an object of 32, 64, 192 and 512 bytes take in an object cache, on one thread?",
     "Our cache 6.9, 7.2, 9.5, 14.0 ns; mimalloc 7.7, 7.9, 9.5, 15.3 ns; jemalloc 14.1, 14.2, 15.4, 43.0 ns; glibc "
     "malloc 14.7, 15.1, 26.4, 30.1 ns.", "29edb562"),
    ("And if another thread frees it?",
     "Our cache 13.1, 12.2, 16.8, 31.7 ns; mimalloc 17.2, 22.7, 28.5, 41.4 ns; jemalloc 19.9, 22.0, 26.5, 64.2 ns; glibc "
     "malloc 35.1, 33.8, 53.6, 86.5 ns.", "29edb562"),
    ("How much resident memory do such objects take over their bytes?",
     "Our cache 1.009, 1.008, 1.004, 1.003; mimalloc 1.010, 1.006, 1.004, 1.010; jemalloc 1.03, 1.03, 1.012, 1.03; glibc "
     "malloc 1.50, 1.25, 1.08, 1.03.", "29edb562"),
    ("How long does work on a numpy array of 192 MiB in a `Region` of 64 MiB take, over plain memory: filled; summed by "
     "columns; sorted by pieces; updated at random?",
     "33.94; 49.71; 4.74; 1.86. `memmap` with as much memory: 16.62; 16.55; 5.89; 2.12. `memmap` with all of it in the "
     "page cache: 3.78; 1.15; 1.38; 0.88.", "82d65121"),
    ("How fast is the Python package's `Device` by 64 KiB a call?",
     "Over the same calls in Rust: writing 0.987, reading 0.994. Two threads over one: writing 1.81, reading 1.86.",
     "82d65121"),
    ("How many documents of JSON does the package's `Cache` keep, over a `dict` of bytes in the same memory: sources at "
     "256 MiB; packages at 13 MiB; syntax at 8 MiB?",
     "3.31; 1.74; 2.27. Gets over those of a `dict` and zlib: 2.08; 2.77; 2.54; over diskcache: 2.75; 6.36; 3.56.",
     "82d65121"),
    ("How long does it take to recompress the heap from lz4 to zstd?",
     "1.04 times the time of raw decoding and encoding; the memory is 1.011 of raw zstd's output.", "76f55b82"),
    ("How fast is write-back of a gibibyte to a file, and how fast are random reads from there?",
     "0.73 of the throughput of `dd` with fsync, 1.016 bytes on disk for each compressed byte. Reads take 1.09 times the "
     "time of `pread` of the file, and 4.08 times from the page cache, where decompression takes most of it.",
     "76f55b82"),
    ("How long do a save to a file and a restore take?", "0.76 and 0.80 of the time of `cp` with fsync.", "76f55b82"),
]
