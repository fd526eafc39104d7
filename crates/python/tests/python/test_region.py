"""Tests of regions: against a bytearray; orphaned views, locks, threads, forks, misuse."""

import errno
import gc
import os
import random
import re
import sys
import tempfile
import threading
import unittest
import weakref

import uzram
from seeds import contents, seeded

try:
    import numpy
except ImportError:
    numpy = None

SIZE = 1 << 20


def tight(size, **options):
    """Returns a limit in bytes with which half of a region of `size` bytes must be compressed."""
    try:
        uzram.Region(size, 1, **options)
    except uzram.Error as error:
        least = re.search(r"(\d+) is what these options need", error.strerror)
        return int(least[1]) + size // 2 + size // 16
    raise AssertionError("a limit of one byte is kept")


def numbers(size):
    """Returns `size` compressible bytes, in which all aligned groups of 8 bytes differ."""
    return b"".join(b"%08d" % n for n in range(size // 8))


class Model(unittest.TestCase):
    def run_against(self, rng, region, steps, base=0, size=SIZE):
        """Makes random calls on a range that is zero, and compares the range with a bytearray."""
        view, model = memoryview(region)[base : base + size], bytearray(size)
        for _ in range(steps):
            offset = rng.randrange(size)
            length = min(rng.choice((1, 100, 4096, 40000)), size - offset)
            end = offset + length
            kind = rng.randrange(8)
            if kind < 3:
                data = contents(rng, length)
                view[offset:end] = data
                model[offset:end] = data
            elif kind == 3:
                self.assertEqual(view[offset:end], model[offset:end])
            elif kind == 4:
                region.reclaim(length)
            elif kind == 5:
                region.advise(base + offset, length, rng.choice(("cold", "hot")))
            elif kind == 6:
                region.discard(base + offset, length)
                model[offset:end] = bytes(length)
            else:
                region.prefetch(base + offset, length)
        self.assertEqual(view, model)

    def test_a_region_is_a_bytearray(self):
        for algorithm in uzram.algorithms():
            for is_limited in (False, True):
                with seeded(self) as rng:
                    how = {"algorithm": algorithm, "block_size": rng.choice((4096, 16384))}
                    limit = tight(SIZE, **how) if is_limited else None
                    region = uzram.Region(SIZE, limit, **how)
                    self.assertEqual(len(region), SIZE)
                    self.run_against(rng, region, 200)
                    self.assertEqual(region.stats().limit, limit)
                    if is_limited:
                        self.assertLessEqual(region.stats().held_max, limit)
                    region.close()

    def test_threads_share_a_region(self):
        region, failures = uzram.Region(4 * SIZE, tight(4 * SIZE)), []

        def run(seed, nth):
            try:
                self.run_against(random.Random(seed), region, 100, nth * SIZE)
            except BaseException as error:
                failures.append(error)
                raise

        with seeded(self) as rng:
            threads = [
                threading.Thread(target=run, args=(rng.random(), nth)) for nth in range(4)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(failures, [])

    def test_what_is_cold_takes_less(self):
        region = uzram.Region(4 << 20)
        view = memoryview(region)
        view[:] = b"some text, more or less, " * ((4 << 20) // 25) + bytes((4 << 20) % 25)
        before = region.stats()
        self.assertIsInstance(before, uzram.RegionStats)
        self.assertGreaterEqual(before.resident, 4 << 20)
        region.advise(0, 4 << 20, "cold")
        after = region.stats()
        self.assertEqual(after.resident, 0)
        self.assertEqual(after.stored, 4 << 20)
        self.assertTrue(0 < after.compressed < 1 << 20, after)
        self.assertLess(after.held, before.held)
        self.assertEqual(view[100:125], b"some text, more or less, ")
        self.assertGreater(region.stats().filled, 0)
        region.set_limit(1 << 30)
        self.assertEqual(region.stats().limit, 1 << 30)

    def test_a_child_has_a_copy(self):
        region = uzram.Region(SIZE)
        view, data = memoryview(region), numbers(SIZE)
        view[:] = data
        region.advise(0, SIZE, "cold")
        self.assertGreater(region.stats().evicted, 0)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                if view == data:
                    view[:] = bytes(SIZE)
                    status = 0 if view == bytes(SIZE) else 2
            finally:
                os._exit(status)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        self.assertEqual(view, data)


class Views(unittest.TestCase):
    def test_views_are_of_plain_bytes(self):
        region = uzram.Region(5000)
        view = memoryview(region)
        told = (view.format, view.ndim, view.nbytes, view.shape, view.strides, view.itemsize)
        self.assertEqual(told, ("B", 1, 5000, (5000,), (1,), 1))
        self.assertEqual((view.readonly, view.c_contiguous), (False, True))
        self.assertIs(view.obj, region)
        self.assertEqual(bytes(region), bytes(5000))
        view[10] = 7
        self.assertEqual(bytes(region)[10], 7)

    def test_a_view_outlives_its_object(self):
        region = uzram.Region(SIZE)
        gone, view = weakref.ref(region), memoryview(region)[5:50]
        view[:] = b"a" * 45
        region.advise(0, SIZE, "cold")
        del region
        gc.collect()
        self.assertIsNotNone(gone())
        self.assertEqual(view, b"a" * 45)
        view.release()
        gc.collect()
        self.assertIsNone(gone())

    def test_it_is_not_closed_under_a_view(self):
        region = uzram.Region(SIZE)
        views = [memoryview(region), memoryview(region)]
        part = views[0][5:]
        for view in (*views, part):
            self.assertRaisesRegex(BufferError, "release them first", region.close)
            self.assertFalse(region.closed)
            view.release()
        region.close()
        self.assertTrue(region.closed)
        region.close()
        with self.assertRaises(BufferError), uzram.Region(SIZE) as region:
            view = memoryview(region)
        self.assertFalse(region.closed)

    def test_nothing_leaks(self):
        region = uzram.Region(SIZE)
        gone, before = weakref.ref(region), sys.getrefcount(region)
        for _ in range(100):
            memoryview(region).release()
            with region.lock(0, 5):
                pass
            region.lock(0, 5)
            bytes(region)
            self.assertRaises(uzram.Error, region.lock, 0, SIZE + 1)
        self.assertEqual(sys.getrefcount(region), before)
        region.close()
        del region
        gc.collect()
        self.assertIsNone(gone())

    def test_a_region_is_an_array_of_a_device_too(self):
        device, region = uzram.Device(SIZE), uzram.Region(SIZE)
        view, data = memoryview(region), numbers(SIZE)
        view[:] = data
        region.advise(0, SIZE, "cold")
        self.assertGreater(region.stats().evicted, 0)
        device.write(0, region)
        region.discard(0, SIZE)
        self.assertEqual(view, bytes(SIZE))
        device.readinto(0, region)
        self.assertEqual(view, data)

    @unittest.skipIf(numpy is None, "numpy is not installed")
    def test_numpy_sees_a_region(self):
        region = uzram.Region(SIZE)
        gone = weakref.ref(region)
        numbers = numpy.frombuffer(region, dtype=numpy.uint32)
        numbers[:] = numpy.arange(len(numbers), dtype=numpy.uint32)
        region.advise(0, SIZE, "cold")
        self.assertRaises(BufferError, region.close)
        del region
        gc.collect()
        self.assertTrue((numbers == numpy.arange(SIZE // 4, dtype=numpy.uint32)).all())
        del numbers
        gc.collect()
        self.assertIsNone(gone())
        device = uzram.Device(SIZE)
        grid = numpy.arange(600, dtype=numpy.float64).reshape(20, 30)
        self.assertEqual(device.write(8, grid), 4800)
        room = numpy.zeros_like(grid)
        self.assertEqual(device.readinto(8, room), 4800)
        self.assertTrue((grid == room).all())
        self.assertRaises((BufferError, ValueError), device.write, 0, grid.T)


class Locks(unittest.TestCase):
    def test_a_locked_range_stays_for_system_calls(self):
        region, data = uzram.Region(SIZE), b"16 bytes of text" * (SIZE // 16)
        view = memoryview(region)
        with tempfile.TemporaryFile(buffering=0) as file:
            file.write(data)
            for _ in range(2):
                file.seek(0)
                region.advise(0, SIZE, "cold")
                with region.lock(0, SIZE) as lock:
                    self.assertTrue(lock.locked)
                    region.reclaim(SIZE)
                    region.advise(0, SIZE, "cold")
                    self.assertGreaterEqual(region.stats().resident, SIZE)
                    self.assertEqual(file.readinto(view), SIZE)
                self.assertFalse(lock.locked)
                self.assertEqual(view, data)
        region.advise(0, SIZE, "cold")
        self.assertEqual(region.stats().resident, 0)

    def test_a_lock_keeps_its_region(self):
        region = uzram.Region(SIZE)
        lock = region.lock(5, 10)
        self.assertRaises(BufferError, region.close)
        with self.assertRaises(uzram.Error) as caught:
            region.discard(0, SIZE)
        self.assertEqual(caught.exception.errno, errno.EBUSY)
        del region
        gc.collect()
        lock.unlock()
        lock.unlock()
        self.assertFalse(lock.locked)
        self.assertRaises(ValueError, lock.__enter__)


class Misuse(unittest.TestCase):
    def test_what_can_not_be_made(self):
        for arguments in (
            {"size": 0},
            {"size": (1 << 64) - 1},
            {"size": SIZE, "algorithm": "none of these"},
            {"size": SIZE, "level": 1 << 30},
            {"size": SIZE, "limit": 1},
            {"size": SIZE, "block_size": 1 << 20},
        ):
            with self.subTest(arguments), self.assertRaises(uzram.Error) as caught:
                uzram.Region(**arguments)
            self.assertIn(caught.exception.errno, (errno.EINVAL, errno.ENOMEM))
        for block_size in (0, 1, 2048, 5000):
            self.assertRaises(ValueError, uzram.Region, SIZE, block_size=block_size)
        self.assertRaises(OverflowError, uzram.Region, -1)
        self.assertRaises(OverflowError, uzram.Region, 1 << 64)
        self.assertRaises(TypeError, uzram.Region, "1")
        self.assertRaises(TypeError, uzram.Region, SIZE, None, "zstd")
        self.assertRaises(TypeError, uzram.RegionLock)

    def test_ranges_beyond_the_end(self):
        region = uzram.Region(SIZE)
        for call in (
            lambda offset, length: region.advise(offset, length, "cold"),
            region.prefetch,
            region.lock,
            region.discard,
        ):
            for offset, length in ((0, SIZE + 1), (SIZE, 1), (SIZE + 1, 0)):
                with self.assertRaises(uzram.Error) as caught:
                    call(offset, length)
                self.assertEqual(caught.exception.errno, errno.EINVAL)
            self.assertRaises(ValueError, call, (1 << 64) - 1, 1)
            self.assertRaises(OverflowError, call, -1, 1)
            self.assertRaises(OverflowError, call, 0, -1)
        self.assertRaisesRegex(ValueError, '"cold" or "hot"', region.advise, 0, 1, "warm")
        with self.assertRaises(uzram.Error) as caught:
            region.set_limit(1)
        self.assertEqual(caught.exception.errno, errno.EINVAL)
        region.close()

    def test_what_is_closed_refuses(self):
        region = uzram.Region(SIZE)
        self.assertTrue(region)
        with region:
            pass
        for call in (
            lambda: memoryview(region),
            lambda: bytes(region),
            lambda: region.reclaim(1),
            lambda: region.prefetch(0, 1),
            lambda: region.advise(0, 1, "cold"),
            lambda: region.lock(0, 1),
            lambda: region.discard(0, 1),
            lambda: region.set_limit(None),
            lambda: len(region),
            region.stats,
            region.__enter__,
        ):
            with self.assertRaisesRegex(ValueError, "the region is closed"):
                call()
        self.assertEqual(repr(region), "<uzram.Region closed>")
