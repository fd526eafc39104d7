"""Tests of pools: against a dict; limits, threads, forks, misuse."""

import errno
import gc
import os
import random
import sys
import threading
import unittest
import weakref

import uzram
from seeds import contents, seeded


def run_against(test, rng, pool, steps):
    model = {}
    for _ in range(steps):
        kind = rng.randrange(8)
        if kind < 3 or not model:
            data = contents(rng, rng.choice((1, 30, 100, 1000, 4000)))
            handle = pool.store(data)
            test.assertNotIn(handle, model)
            model[handle] = data
            continue
        handle = rng.choice(list(model))
        data = model[handle]
        if kind == 3:
            pool.free(handle)
            del model[handle]
            with test.assertRaises(uzram.Error) as caught:
                pool.read(handle)
            test.assertEqual(caught.exception.errno, errno.ESTALE)
        elif kind == 4:
            first = rng.randbytes(rng.randrange(1, len(data) + 1))
            test.assertEqual(pool.write(handle, first), len(first))
            model[handle] = first + data[len(first) :]
        elif kind == 5:
            room = bytearray(rng.randrange(2 * len(data)))
            copied = min(len(room), len(data))
            test.assertEqual(pool.readinto(handle, room), copied)
            test.assertEqual(room, data[:copied] + bytes(len(room) - copied))
        elif kind == 6:
            pool.compact()
        test.assertEqual(pool.size_of(handle) if handle in model else len(data), len(data))
    for handle, data in model.items():
        test.assertEqual(pool.read(handle), data)
    return model


class Model(unittest.TestCase):
    def test_a_pool_is_a_dict(self):
        with seeded(self) as rng, uzram.Pool() as pool:
            model = run_against(self, rng, pool, 3000)
            self.assertEqual(len(pool), len(model))
            stats = pool.stats()
            self.assertIsInstance(stats, uzram.PoolStats)
            self.assertEqual((stats.objects, stats.limit), (len(model), None))
            self.assertTrue(0 < stats.pages_bytes <= stats.total_bytes, stats)
            largest = rng.randbytes(stats.object_bytes_max)
            self.assertEqual(pool.read(pool.store(largest)), largest)
            for handle in model:
                pool.free(handle)
            self.assertEqual(len(pool), 1)

    def test_threads_have_objects_of_their_own(self):
        pool, models = uzram.Pool(), {}

        def run(seed, nth):
            models[nth] = run_against(self, random.Random(seed), pool, 500)

        with seeded(self) as rng:
            threads = [
                threading.Thread(target=run, args=(rng.random(), nth)) for nth in range(4)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(len(models), 4)
            self.assertEqual(len(pool), sum(map(len, models.values())))

    def test_a_full_pool_has_lost_nothing(self):
        pool = uzram.Pool(limit=(1 << 64) - 1)
        self.assertEqual(pool.stats().limit, (1 << 64) - 1)
        pool = uzram.Pool(limit=200_000)
        page = os.sysconf("SC_PAGESIZE")
        self.assertEqual(pool.stats().limit, -(-200_000 // page) * page)
        model = {}
        with self.assertRaises(uzram.Error) as caught:
            while len(model) < 10_000:
                data = os.urandom(1000)
                model[pool.store(data)] = data
        self.assertEqual(caught.exception.errno, errno.ENOSPC)
        self.assertGreater(len(model), 100)
        for handle, data in model.items():
            self.assertEqual(pool.read(handle), data)
        self.assertEqual(len(pool), len(model))
        for handle in list(model)[: len(model) // 2]:
            pool.free(handle)
        pool.compact()
        pool.store(bytes(1000))

    def test_a_child_has_a_copy(self):
        pool = uzram.Pool()
        handle = pool.store(b"before")
        child = os.fork()
        if child == 0:
            status = 1
            try:
                if pool.read(handle) == b"before":
                    pool.free(handle)
                    status = 0 if pool.read(pool.store(b"child")) == b"child" else 2
            finally:
                os._exit(status)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        self.assertEqual((pool.read(handle), len(pool)), (b"before", 1))


class Misuse(unittest.TestCase):
    def test_handles_that_are_none(self):
        pool, other = uzram.Pool(), uzram.Pool()
        handle = other.store(b"of another pool")
        for made_up in (0, 1, (1 << 64) - 1, handle):
            for call in (
                lambda: pool.read(made_up),
                lambda: pool.readinto(made_up, bytearray(1)),
                lambda: pool.write(made_up, b"a"),
                lambda: pool.size_of(made_up),
                lambda: pool.free(made_up),
            ):
                with self.assertRaises(uzram.Error) as caught:
                    call()
                self.assertEqual(caught.exception.errno, errno.ESTALE)
        self.assertEqual(other.read(handle), b"of another pool")
        self.assertRaises(OverflowError, pool.read, -1)
        self.assertRaises(OverflowError, pool.read, 1 << 64)
        self.assertRaises(TypeError, pool.read, "1")

    def test_what_can_not_be_stored(self):
        pool = uzram.Pool()
        handle = pool.store(b"four")
        for call in (
            lambda: pool.store(b""),
            lambda: pool.store(bytes(pool.stats().object_bytes_max + 1)),
            lambda: pool.write(handle, b"five5"),
        ):
            with self.assertRaises(uzram.Error) as caught:
                call()
            self.assertEqual(caught.exception.errno, errno.EINVAL)
        self.assertRaises(TypeError, pool.store, "text")
        self.assertRaises(BufferError, pool.store, memoryview(b"abcd")[::2])
        self.assertRaises(BufferError, pool.readinto, handle, b"abcd")
        self.assertRaises(OverflowError, uzram.Pool, limit=-1)
        self.assertRaises(TypeError, uzram.Pool, 5)
        self.assertEqual(pool.read(handle), b"four")

    def test_what_is_closed_refuses(self):
        pool = uzram.Pool()
        handle = pool.store(b"gone")
        self.assertTrue(pool, "as long as it is open or closed, whatever it holds")
        with pool:
            self.assertFalse(pool.closed)
        self.assertTrue(pool.closed)
        pool.close()
        for call in (
            lambda: pool.store(b"a"),
            lambda: pool.read(handle),
            lambda: pool.readinto(handle, bytearray(4)),
            lambda: pool.write(handle, b"a"),
            lambda: pool.size_of(handle),
            lambda: pool.free(handle),
            lambda: len(pool),
            pool.compact,
            pool.stats,
            pool.__enter__,
        ):
            with self.assertRaisesRegex(ValueError, "the pool is closed"):
                call()
        self.assertEqual(repr(pool), "<uzram.Pool closed>")

    def test_nothing_leaks(self):
        pool, data = uzram.Pool(), bytearray(3000)
        before, gone = sys.getrefcount(data), weakref.ref(pool)
        for _ in range(100):
            handle = pool.store(data)
            pool.write(handle, data)
            pool.readinto(handle, data)
            self.assertEqual(sys.getrefcount(pool.read(handle)), 1)
            pool.free(handle)
        data.append(1)  # Raises BufferError if a view is left.
        self.assertEqual((sys.getrefcount(data), len(pool)), (before, 0))
        del pool
        gc.collect()
        self.assertIsNone(gone())
