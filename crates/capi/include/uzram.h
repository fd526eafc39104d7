/*
 * libuzram: compressed memory for programs, in C99 and C++.
 *
 *   uzram_device   a disk of bytes that lie compressed in memory; any offset, any length
 *   uzram_pool     objects of all sizes behind handles, packed densely (not compressed)
 *   uzram_cache    many objects of one size, as memory; as fast as malloc, and denser
 *   uzram_region   memory that compresses its cold parts, and fetches them when they are touched
 *
 * Results. A function that returns int returns 0, or a negative errno; then uzram_error_message()
 * says what happened, why, and what helps. Common to all of them:
 *   -EINVAL   NULL where that is not allowed, a length or a value that can't be
 *   -ENOSPC   a limit that was set is reached; nothing that was stored is lost
 *   -ENOMEM   the system has no more memory
 *   -ENODEV   this process is a child, and the data were left with its parent
 *   -E2BIG    a struct has a field set that this version of the library does not know
 *   -ENOTRECOVERABLE   a bug in the library
 * What a call that failed was to give or to tell is left as it was.
 *
 * Structs begin with their size, so that they can grow: set `size` to the struct's sizeof, and all
 * that you don't need to 0, which is the default of every option. (UZRAM_INIT does both.) Of a
 * struct to be filled in, set `size`; what this version of the library does not know becomes 0.
 *
 * Sizes, offsets and limits are in bytes; a limit of 0 is none.
 *
 * Threads. Any function may be called from any thread at any time, but for *_destroy, which comes
 * after all other calls for the object. Memory that is passed must not change during the call; it
 * may be a region's. A thread that is cancelled (pthread_cancel) ends after its call, not within,
 * nor by a touch of a region.
 *
 * Fork. Parent and child have a copy each of every object, whenever the fork comes, unless an
 * option says otherwise. A child of vfork must not call the library.
 *
 * Signals. Don't call the library from a signal's handler.
 *
 * Memory. Of what the library manages, memory that the system refuses is -ENOMEM. Where malloc
 * returns NULL for the few bytes of an object or a message, the program is ended. A call may take
 * 128 KiB of its thread's stack.
 */
#ifndef UZRAM_H
#define UZRAM_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version that this header is of. Before 1.0, another minor version is another interface. */
#define UZRAM_VERSION_MAJOR 0
#define UZRAM_VERSION_MINOR 1
#define UZRAM_VERSION_PATCH 0

/* struct uzram_pool_options options = UZRAM_INIT(struct uzram_pool_options); makes it empty. */
#ifdef __cplusplus
#define UZRAM_INIT(type) uzram_init_<type>()
#else
#define UZRAM_INIT(type) {.size = sizeof(type)}
#endif

/* Returns the version of the library: major << 16 | minor << 8 | patch. */
uint32_t uzram_version(void);

/*
 * Returns the message of the last call of this thread that failed, "" if none has: a line in
 * English. It stays until the next call of this thread that fails, or the thread's end.
 */
const char *uzram_error_message(void);

/* ---- Devices -------------------------------------------------------------------------------- */

typedef struct uzram_device uzram_device;

/* Slots keep the time of their last access, for uzram_device_mark_idle: 4 bytes a slot. */
#define UZRAM_DEVICE_TRACK_ACCESS 1
/* Data have checksums, which are checked when they are read: 4 bytes a slot. */
#define UZRAM_DEVICE_CHECKSUMS 2
/* After a fork the data stay with the parent; a child's calls fail with -ENODEV. */
#define UZRAM_DEVICE_LEAVE_AT_FORK 4

struct uzram_device_options {
    uint64_t size;                /* sizeof(struct uzram_device_options) */
    uint64_t disksize;            /* bytes of the device, which take no memory yet */
    uint64_t mem_limit;           /* most bytes of pages with compressed data */
    uint64_t total_limit;         /* most bytes of everything that the device takes */
    const char *algorithm;        /* "lz4" (NULL is this), "lz4hc" or "zstd" */
    const char *recompression[3]; /* those of priority 1, 2, 3 for cold data; or NULL */
    const char *backing_path;     /* a file or block device, this one's alone; or NULL */
    uint64_t backing_bytes;       /* its size, if the file is to be made; 0: it is there, and what
                                     it holds is lost. Who made it removes it. */
    int32_t level;                /* the algorithm's level; 0 is its default */
    uint32_t block;               /* bytes compressed as one: 4096 (0 is this) to 65536 */
    uint32_t streams;             /* threads that compress at a time; 0 is one per processor */
    uint32_t flags;               /* UZRAM_DEVICE_... */
};

struct uzram_device_stat {
    uint64_t size;            /* sizeof(struct uzram_device_stat) */
    uint64_t disksize;        /* bytes of the device */
    uint64_t orig_data_size;  /* bytes stored, before compression */
    uint64_t compr_data_size; /* bytes stored, after compression */
    uint64_t mem_used;        /* bytes of pages with compressed data */
    uint64_t mem_used_max;    /* the most there were */
    uint64_t mem_limit;       /* their limit; 0 is none */
    uint64_t mem_total;       /* bytes of everything that the device takes */
    uint64_t same_pages;      /* slots of one repeated word, which take no page */
    uint64_t huge_pages;      /* slots stored uncompressed, as they hardly shrink */
    uint64_t pages_compacted; /* pages that compaction freed so far */
    uint64_t failed_reads;    /* slots that could not be read */
    uint64_t failed_writes;   /* slots that could not be written */
    uint64_t backing_bytes;   /* bytes of the backing file that are in use */
};

/*
 * Makes a device, which reads as zeros and holds no memory for data yet. -EEXIST: the backing file
 * is there already. -EBUSY: another device has it. What lies in it stays with the parent at a fork:
 * a child that needs it gets -ENODEV.
 */
int uzram_device_new(const struct uzram_device_options *options, uzram_device **device);

/* Ends a device; its data are lost. NULL is none. */
void uzram_device_destroy(uzram_device *device);

/*
 * Writes `len` bytes at `offset`. -EINVAL: they go past the end, and nothing was written. -ENOSPC,
 * -ENOMEM: there is no room; what was there before stays. The message names the slot: those before
 * it were written, and no others.
 */
int uzram_device_write(uzram_device *device, uint64_t offset, const void *bytes, uint64_t len);

/*
 * Reads `len` bytes at `offset`; what was never written, or discarded, reads as zeros. -EINVAL:
 * they go past the end. -EIO: data are damaged, or the backing file failed; `bytes` may hold some.
 */
int uzram_device_read(uzram_device *device, uint64_t offset, void *bytes, uint64_t len);

/*
 * Makes `len` bytes at `offset` zeros, exactly; slots of 4096 bytes that the range covers whole are
 * freed first. -EINVAL: the range ends past the end, and nothing was changed. -ENOSPC, -ENOMEM: a
 * slot that is covered in part has no room for its rest, or a block that is covered in part has no
 * room for the entries (8 bytes each) of the slots that it keeps; that slot keeps its contents.
 */
int uzram_device_discard(uzram_device *device, uint64_t offset, uint64_t len);

/* Tells what a device holds. */
int uzram_device_stat(uzram_device *device, struct uzram_device_stat *stat);

/* Sets mem_limit. Below what is used, it refuses what needs more. */
int uzram_device_set_mem_limit(uzram_device *device, uint64_t bytes);

/* Sets total_limit. Below what is used, it refuses what needs more. */
int uzram_device_set_total_limit(uzram_device *device, uint64_t bytes);

/* Moves data together so that pages become free, and tells their bytes, unless `freed` is NULL. */
int uzram_device_compact(uzram_device *device, uint64_t *freed);

/*
 * Marks slots idle that were not read or written for more than `seconds`, for which the device
 * needs UZRAM_DEVICE_TRACK_ACCESS; or, if `seconds` is 0, all. A slot that is used is no longer
 * idle.
 */
int uzram_device_mark_idle(uzram_device *device, uint64_t seconds);

/* Which slots and blocks a job works on. */
#define UZRAM_WHICH_ALL 0
#define UZRAM_WHICH_IDLE 1           /* marked idle, and not used since */
#define UZRAM_WHICH_HUGE 2           /* stored uncompressed */
#define UZRAM_WHICH_HUGE_IDLE 3      /* both */
#define UZRAM_WHICH_INCOMPRESSIBLE 4 /* that no algorithm makes smaller */

struct uzram_recompress_options {
    uint64_t size;      /* sizeof(struct uzram_recompress_options) */
    uint64_t threshold; /* only what is not shorter than this, and becomes shorter than this */
    uint64_t max_pages; /* most slots that are tried; 0 is all */
    uint32_t priority;  /* the algorithm: 1 to 3 (0 is 1) */
    uint32_t which;     /* UZRAM_WHICH_... */
};

struct uzram_recompressed {
    uint64_t size;        /* sizeof(struct uzram_recompressed) */
    uint64_t tried;       /* slots and blocks that were tried */
    uint64_t smaller;     /* that became smaller */
    uint64_t saved_bytes; /* how much smaller */
    uint64_t touched;     /* that were used meanwhile, and stay as they are */
    uint64_t damaged;     /* that are damaged, and stay as they are */
};

/*
 * Compresses slots and blocks once more, with an algorithm that makes them smaller. Other threads
 * may use the device meanwhile. `done` may be NULL. -EAGAIN: another job is under way.
 */
int uzram_device_recompress(uzram_device *device, const struct uzram_recompress_options *options,
                            struct uzram_recompressed *done);

struct uzram_written_back {
    uint64_t size;    /* sizeof(struct uzram_written_back) */
    uint64_t slots;   /* slots that left memory */
    uint64_t bytes;   /* what they took there, compressed */
    uint64_t blocks;  /* blocks of 4096 bytes that were written */
    uint64_t touched; /* objects that were used meanwhile, and stay in memory */
    uint64_t damaged; /* objects that are damaged, and stay in memory */
};

/*
 * Writes slots and blocks to the backing file; they leave memory, and are read from there when they
 * are needed. `done` may be NULL. -ENODEV: there is no backing file. -ENOSPC: it is full. -EAGAIN:
 * another job is under way.
 */
int uzram_device_write_back(uzram_device *device, uint32_t which, struct uzram_written_back *done);

/*
 * Saves a device to a file, compressed as it lies. A file that is there already stays until the
 * new one is durable. What could not be read is left out; `lost_slots` tells how much, unless it
 * is NULL.
 */
int uzram_device_save(uzram_device *device, const char *path, uint64_t *lost_slots);

/* Restores what is intact of a damaged file; the rest reads as zeros. */
#define UZRAM_RESTORE_SALVAGE 1

/*
 * Restores what was saved, to a device that is empty and not smaller; its other options may
 * differ. Nothing else may use it meanwhile. -EBADMSG: the file is damaged, or is none; the device
 * is empty then. -ENOTEMPTY, -ENOSPC: the device is not empty, or too small. `lost_bytes`, unless
 * it is NULL, tells how much was lost.
 */
int uzram_device_restore(uzram_device *device, const char *path, uint32_t flags,
                         uint64_t *lost_bytes);

/*
 * Makes the job of another thread end as soon as it can; that one's call returns -ECANCELED. It
 * does nothing without a job.
 */
int uzram_device_cancel_job(uzram_device *device);

/* ---- Pools ---------------------------------------------------------------------------------- */

typedef struct uzram_pool uzram_pool;
typedef struct uzram_pool_pinned uzram_pool_pinned;

/* The pool compacts itself when that is worth it, on a thread of its own. */
#define UZRAM_POOL_COMPACT_IN_BACKGROUND 1
/* After a fork the objects stay with the parent; a child's calls fail with -ENODEV. */
#define UZRAM_POOL_LEAVE_AT_FORK 2

struct uzram_pool_options {
    uint64_t size;  /* sizeof(struct uzram_pool_options) */
    uint64_t limit; /* most bytes of pages with objects; rounded up to pages */
    uint64_t flags; /* UZRAM_POOL_... */
};

struct uzram_pool_stat {
    uint64_t size;             /* sizeof(struct uzram_pool_stat) */
    uint64_t objects;          /* objects stored */
    uint64_t pages_bytes;      /* bytes of pages with objects */
    uint64_t total_bytes;      /* bytes of everything that the pool takes */
    uint64_t freeable_bytes;   /* bytes of pages that compaction could free */
    uint64_t object_bytes_max; /* bytes of the largest object that can be stored */
};

/* Makes a pool, without pages. */
int uzram_pool_new(const struct uzram_pool_options *options, uzram_pool **pool);

/* Ends a pool and all of its objects, once their last pin is gone. NULL is none. */
void uzram_pool_destroy(uzram_pool *pool);

/*
 * Stores a copy of `len` bytes, 1 up to object_bytes_max, and gives a handle, which is never 0.
 * Each handle names one object of one pool; when that is freed, it is refused with -ESTALE.
 */
int uzram_pool_store(uzram_pool *pool, const void *bytes, uint64_t len, uint64_t *handle);

/*
 * Copies the first bytes of an object, `len` at most, to `bytes`; and tells the bytes of the
 * object, unless `object_bytes` is NULL.
 */
int uzram_pool_read(uzram_pool *pool, uint64_t handle, void *bytes, uint64_t len,
                    uint64_t *object_bytes);

/*
 * Pins an object: it stays where it is, as it is, until it is unpinned. Tells where it lies, which
 * must not be written to, and its bytes, unless `object_bytes` is NULL. Any thread may read it, and
 * unpin it.
 *
 * Until then, uzram_pool_write and _free of this object wait, and behind them all other calls for
 * it: so a thread whose pin it is calls nothing for the same object but uzram_pool_unpin. An object
 * has six pins at most (uzram_pool_read takes one for its copy); what wants another one waits. Other
 * objects are free to be used. Pinned objects hold their pages, which compaction passes over.
 *
 * A child has no pins: what its parent pinned must not be read there, and uzram_pool_unpin frees
 * what the pin takes and does nothing else.
 */
int uzram_pool_pin(uzram_pool *pool, uint64_t handle, const void **bytes, uint64_t *object_bytes,
                   uzram_pool_pinned **pinned);

/* Ends a pin; its bytes must not be read any more. NULL is none. */
void uzram_pool_unpin(uzram_pool_pinned *pinned);

/* Overwrites the first `len` bytes of an object, which keeps its length. */
int uzram_pool_write(uzram_pool *pool, uint64_t handle, const void *bytes, uint64_t len);

/* Frees an object. */
int uzram_pool_free(uzram_pool *pool, uint64_t handle);

/* Sets the limit. Below what is used, it refuses what needs more. */
int uzram_pool_set_limit(uzram_pool *pool, uint64_t bytes);

/* Moves objects together so that pages become free; tells their bytes, unless `freed` is NULL. */
int uzram_pool_compact(uzram_pool *pool, uint64_t *freed);

/* Tells what a pool holds. */
int uzram_pool_stat(uzram_pool *pool, struct uzram_pool_stat *stat);

/* ---- Object caches -------------------------------------------------------------------------- */

typedef struct uzram_cache uzram_cache;

/* Looks for writes beyond an object, and to a free one: uzram_cache_free and _alloc tell. */
#define UZRAM_CACHE_DEBUG 1

struct uzram_cache_options {
    uint64_t size;         /* sizeof(struct uzram_cache_options) */
    uint64_t object_bytes; /* bytes of an object, 1 at least */
    uint64_t align;        /* a power of two up to a page; 0 is 16, malloc's */
    uint64_t limit;        /* most bytes of pages with objects; rounded up to pages */
    const char *name;      /* what messages call it; or NULL */
    uint64_t flags;        /* UZRAM_CACHE_... */
};

struct uzram_cache_stat {
    uint64_t size;        /* sizeof(struct uzram_cache_stat) */
    uint64_t objects;     /* in use, and some that another thread than their own freed */
    uint64_t room;        /* objects that the slabs have room for */
    uint64_t slabs;       /* slabs */
    uint64_t refused;     /* frees that were refused */
    uint64_t total_bytes; /* bytes of everything that the cache takes */
};

/* Makes a cache, without slabs. */
int uzram_cache_new(const struct uzram_cache_options *options, uzram_cache **cache);

/* Ends a cache. -EBUSY: objects are in use; it stays then. NULL is none. */
int uzram_cache_destroy(uzram_cache *cache);

/*
 * Takes an object. Its bytes are zero, or those it had when it was last freed; a pattern with
 * UZRAM_CACHE_DEBUG. -EIO, with that: a free object was written to, and is not given out again.
 */
int uzram_cache_alloc(uzram_cache *cache, void **object);

/*
 * Gives an object back, on any thread. NULL is none. -EINVAL: it is none of this cache, or is free
 * already (which is found out if it was not taken anew since, and no other thread frees meanwhile).
 * -EIO, with UZRAM_CACHE_DEBUG: it was written to beyond its end.
 */
int uzram_cache_free(uzram_cache *cache, void *object);

/* Gives empty slabs back, and tells their bytes, unless `freed` is NULL. */
int uzram_cache_shrink(uzram_cache *cache, uint64_t *freed);

/* Tells what a cache holds. */
int uzram_cache_stat(uzram_cache *cache, struct uzram_cache_stat *stat);

/* ---- Regions -------------------------------------------------------------------------------- */

typedef struct uzram_region uzram_region;
typedef struct uzram_region_locked uzram_region_locked;

/* A child has a copy of the region in any case; with a userfaultfd all comes back before a fork. */
#define UZRAM_REGION_COPY_AT_FORK 1
/* What is evicted has checksums, which are checked when it comes back. */
#define UZRAM_REGION_CHECKSUMS 2
/*
 * Touches are answered by a userfaultfd; where the system refuses it, uzram_region_new fails. A
 * child has nothing of the region then, and is killed by a touch, but for
 * UZRAM_REGION_COPY_AT_FORK.
 */
#define UZRAM_REGION_USERFAULTFD 4

struct uzram_region_options {
    uint64_t size;         /* sizeof(struct uzram_region_options) */
    uint64_t bytes;        /* bytes of the region */
    uint64_t limit;        /* most bytes held, with 1.6 to 9 MB of buffers; locks pass it */
    uint64_t store_limit;  /* most bytes of pages with what is evicted */
    const char *algorithm; /* "lz4" (NULL is this), "lz4hc" or "zstd" */
    int32_t level;         /* the algorithm's level; 0 is its default */
    uint32_t block;        /* bytes that go and come as one: 4096 (0 is this) to 65536 */
    uint64_t flags;        /* UZRAM_REGION_... */
};

struct uzram_region_stat {
    uint64_t size;       /* sizeof(struct uzram_region_stat) */
    uint64_t held;       /* bytes held: what is resident, what is stored, tables, buffers */
    uint64_t held_max;   /* the most there were */
    uint64_t limit;      /* the limit of what is held; 0 is none */
    uint64_t resident;   /* bytes that are resident */
    uint64_t stored;     /* bytes that are stored, before compression */
    uint64_t compressed; /* bytes that are stored, after compression */
    uint64_t device;     /* bytes of everything that stores them */
    uint64_t filled;     /* blocks that came back so far */
    uint64_t evicted;    /* blocks that went so far */
};

/*
 * Makes a region, all zero. It is memory as any other for the program's own loads and stores, on
 * all threads. Three things are to be known:
 *
 * - A system call on parts that are not resident fails with EFAULT: lock what you pass to one.
 * - A touch of what is not resident raises SIGSEGV, which the library answers. So no thread may
 * block that signal, nor a handler's sa_mask contain it, while it touches a region; and a handler
 * of the program's for SIGSEGV has to be installed before the first region is made. In a program
 * that forks, a handler of any signal touches only what is locked.
 * - What can't go passes the limit: data that do not get smaller, compressed data that do not fit,
 * and what is locked. A limit that is lowered, and an unlock, take effect within half a second or
 * so; data that get smaller only later, within some seconds.
 */
int uzram_region_new(const struct uzram_region_options *options, uzram_region **region);

/* Ends a region, whose memory is unmapped once its last lock is gone. NULL is none. */
void uzram_region_destroy(uzram_region *region);

/* Returns the address of a region's first byte; NULL of NULL. */
void *uzram_region_address(uzram_region *region);

/* Returns the bytes of a region; 0 of NULL. */
uint64_t uzram_region_bytes(uzram_region *region);

/*
 * Brings a range back, and keeps it resident until it is unlocked: for system calls on it. What is
 * locked passes the limit, if that has no room for it: a lock is not refused. Other parts are
 * evicted then, and the limit is kept again once enough is unlocked.
 */
int uzram_region_lock(uzram_region *region, uint64_t offset, uint64_t len,
                      uzram_region_locked **locked);

/* Ends a lock, on any thread. NULL is none. */
void uzram_region_unlock(uzram_region_locked *locked);

/* Brings a range back. */
int uzram_region_prefetch(uzram_region *region, uint64_t offset, uint64_t len);

/* How a range will be used. */
#define UZRAM_ADVICE_COLD 0 /* not soon: it is evicted now */
#define UZRAM_ADVICE_HOT 1  /* soon, and often: it is brought back, and stays longer */

/* Tells how a range will be used. */
int uzram_region_advise(uzram_region *region, uint64_t offset, uint64_t len, uint32_t advice);

/*
 * Makes zeros of a range, which no one may use meanwhile. -EBUSY: a block that lies there whole is
 * locked. Nothing was changed then; but where another thread locked it meanwhile, all before that
 * block may be zeros.
 */
int uzram_region_discard(uzram_region *region, uint64_t offset, uint64_t len);

/*
 * Evicts the coldest `bytes` bytes, rounded up to whole blocks, and tells how many went (fewer where
 * no more can go), unless `evicted` is NULL.
 */
int uzram_region_reclaim(uzram_region *region, uint64_t bytes, uint64_t *evicted);

/* Sets the limit. What is above it is evicted from then on. -EINVAL: an empty region takes more. */
int uzram_region_set_limit(uzram_region *region, uint64_t bytes);

/* Tells what a region holds and has done. */
int uzram_region_stat(uzram_region *region, struct uzram_region_stat *stat);

#ifdef __cplusplus
} /* extern "C" */

template <typename type> static inline type uzram_init_() {
    type empty = type();
    empty.size = sizeof(type);
    return empty;
}
#endif

#endif
