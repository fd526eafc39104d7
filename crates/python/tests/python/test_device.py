"""Tests of devices: against a bytearray; limits, threads, forks, files, misuse."""

import array
import errno
import gc
import os
import pathlib
import random
import resource
import sys
import tempfile
import threading
import time
import unittest
import weakref

import uzram
from seeds import contents, seeded

SIZE = 1 << 20


class Model(unittest.TestCase):
    def run_against(self, rng, device, size, steps):
        model = bytearray(size)
        for _ in range(steps):
            offset = rng.randrange(size)
            length = min(rng.choice((1, 100, 4096, 20000)), size - offset)
            end = offset + length
            kind = rng.randrange(6)
            if kind < 2:
                data = contents(rng, length)
                self.assertEqual(device.write(offset, data), length)
                model[offset:end] = data
            elif kind == 2:
                self.assertEqual(device.read(offset, length), model[offset:end])
            elif kind == 3:
                room = bytearray(rng.randbytes(length))
                self.assertEqual(device.readinto(offset, room), length)
                self.assertEqual(room, model[offset:end])
            elif kind == 4:
                device.discard(offset, length)
                model[offset:end] = bytes(length)
            else:
                self.assertEqual(device.compact() % os.sysconf("SC_PAGESIZE"), 0)
        self.assertEqual(device.read(0, size), model)

    def test_a_device_is_an_array_of_bytes(self):
        for algorithm in uzram.algorithms():
            with seeded(self) as rng:
                block_size = rng.choice((4096, 8192, 16384, 32768, 65536))
                with uzram.Device(SIZE, algorithm=algorithm, block_size=block_size) as device:
                    self.assertEqual((device.size, device.block_size), (SIZE, block_size))
                    self.run_against(rng, device, SIZE, 300)

    def test_a_dictionary_is_trained_and_used(self):
        with seeded(self) as rng:
            words = [b"name%d: " % n for n in range(200)]
            samples = [b"".join(rng.choices(words, k=500))[:4096] for _ in range(200)]
            dictionary = uzram.train_dictionary(samples, 4096)
            self.assertEqual(dictionary, uzram.train_dictionary(iter(samples), 4096))
            self.assertLessEqual(len(dictionary), 4096)
            sizes = []
            for given in (None, bytearray(dictionary)):
                with uzram.Device(SIZE, algorithm="zstd", level=3, dictionary=given) as device:
                    self.run_against(rng, device, SIZE, 100)
                    device.discard(0, SIZE)
                    device.write(0, b"".join(samples))
                    sizes.append(device.stats().compr_data_size)
            self.assertLess(sizes[1], sizes[0])


class Buffers(unittest.TestCase):
    def test_anything_contiguous_is_written_and_filled(self):
        device = uzram.Device(SIZE)
        numbers = array.array("I", range(3000))
        grid = memoryview(bytes(range(240))).cast("B", (12, 20))
        for data in (b"bytes", bytearray(b"array"), numbers, grid, memoryview(b"abcdef")[2:5], b""):
            count = memoryview(data).nbytes
            self.assertEqual(device.write(5000, data), count)
            self.assertEqual(device.read(5000, count), memoryview(data).tobytes())
        device.write(7, numbers)
        filled = array.array("I", bytes(12000))
        self.assertEqual(device.readinto(7, filled), 12000)
        self.assertEqual(filled, numbers)
        part = bytearray(10)
        self.assertEqual(device.readinto(7, memoryview(part)[2:6]), 4)
        self.assertEqual(part, b"\0\0" + bytes(numbers)[:4] + b"\0\0\0\0")

    def test_other_buffers_are_refused(self):
        device = uzram.Device(SIZE)
        strided = memoryview(bytearray(100))[::2]
        for call in (device.write, device.readinto):
            self.assertRaises(BufferError, call, 0, strided)
            self.assertRaises(TypeError, call, 0, "text")
            self.assertRaises(TypeError, call, 0, 5)
        self.assertRaises(BufferError, device.readinto, 0, b"not to be written")
        view = memoryview(bytearray(10))
        view.release()
        self.assertRaises(ValueError, device.write, 0, view)

    def test_a_view_is_released_after_each_call(self):
        device = uzram.Device(SIZE)
        data = bytearray(5000)
        device.write(0, data)
        device.readinto(0, data)
        self.assertRaises(uzram.Error, device.write, SIZE, data)
        data.append(1)  # Raises BufferError if a view is left.

    def test_nothing_leaks(self):
        device = uzram.Device(SIZE)
        data, handle = bytearray(9000), weakref.ref(device)
        before = sys.getrefcount(data)
        for _ in range(100):
            device.write(0, data)
            device.readinto(0, data)
            self.assertEqual(sys.getrefcount(device.read(0, 5000)), 1)
            self.assertRaises(uzram.Error, device.read, SIZE, 1)
        self.assertEqual(sys.getrefcount(data), before)
        del device
        gc.collect()
        self.assertIsNone(handle())


class Limits(unittest.TestCase):
    def test_a_full_device_has_lost_nothing(self):
        with seeded(self) as rng:
            device = uzram.Device(8 << 20, mem_limit=1 << 20)
            self.assertEqual(device.stats().mem_limit, 1 << 20)
            model = {}
            with self.assertRaises(uzram.Error) as caught:
                for slot in range(2048):
                    data = rng.randbytes(4096)
                    device.write(slot * 4096, data)
                    model[slot] = data
            self.assertEqual(caught.exception.errno, errno.ENOSPC)
            self.assertIsInstance(caught.exception, OSError)
            self.assertTrue(caught.exception.strerror)
            self.assertIn("[Errno 28] ", str(caught.exception))
            self.assertGreater(len(model), 100)
            for slot, data in model.items():
                self.assertEqual(device.read(slot * 4096, 4096), data)
            self.assertEqual(device.read(len(model) * 4096, 4096), bytes(4096))
            stats = device.stats()
            self.assertLessEqual(stats.mem_used_max, 1 << 20)
            self.assertEqual(stats.failed_writes, 1)
            device.discard(0, 8 << 20)
            device.write(0, rng.randbytes(4096))

    def test_statistics_are_of_what_was_written(self):
        device = uzram.Device(SIZE)
        device.write(0, b"\1\2\3\4\5\6\7\10" * 512)
        device.write(4096, b"some text, some text " * 100)
        stats = device.stats()
        self.assertIsInstance(stats, uzram.DeviceStats)
        self.assertEqual((stats.size, stats.orig_data_size), (SIZE, 8192))
        self.assertEqual((stats.same_pages, stats.huge_pages, stats.mem_limit), (1, 0, None))
        self.assertTrue(0 < stats.compr_data_size < 1000, stats)
        self.assertTrue(0 < stats.mem_used <= stats.mem_total, stats)
        with self.assertRaises(AttributeError):
            stats.size = 1


class Threads(unittest.TestCase):
    def test_threads_work_on_ranges_of_their_own(self):
        device = uzram.Device(8 * SIZE)
        failures = []

        def run(rng, nth):
            try:
                base = nth * SIZE
                model = bytearray(SIZE)
                for _ in range(100):
                    offset = rng.randrange(SIZE - 70000)
                    data = contents(rng, rng.randrange(1, 70000))
                    device.write(base + offset, data)
                    model[offset : offset + len(data)] = data
                if device.read(base, SIZE) != model:
                    failures.append(nth)
            except BaseException as error:
                failures.append(error)

        with seeded(self) as rng:
            threads = [
                threading.Thread(target=run, args=(random.Random(rng.random()), nth))
                for nth in range(8)
            ]
            for thread in threads:
                thread.start()
            for _ in range(20):
                device.compact()
                device.stats()
            for thread in threads:
                thread.join()
            self.assertEqual(failures, [])

    def test_others_run_while_a_codec_works(self):
        # With this interval, no thread is forced to yield. So the counter changes only if the call
        # itself lets the other thread run.
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1000)
        self.addCleanup(sys.setswitchinterval, interval)
        device, data = uzram.Device(SIZE, algorithm="zstd"), os.urandom(SIZE)
        counted, stop = [0], threading.Event()

        def count():
            while not stop.is_set():
                counted[0] += 1
                time.sleep(0)

        thread = threading.Thread(target=count)
        thread.start()
        moved = False
        for _ in range(1000):
            before = counted[0]
            device.write(0, data)
            moved = counted[0] != before
            if moved:
                break
        stop.set()
        thread.join()
        self.assertTrue(moved)

    def test_a_device_is_closed_under_other_threads(self):
        device = uzram.Device(SIZE)
        data, seen = os.urandom(50000), []

        def write():
            try:
                while True:
                    device.write(0, data)
            except ValueError as error:
                seen.append(str(error))

        threads = [threading.Thread(target=write) for _ in range(4)]
        for thread in threads:
            thread.start()
        device.close()
        for thread in threads:
            thread.join()
        self.assertEqual(len(seen), 4)
        self.assertIn("is closed", seen[0])


class Forks(unittest.TestCase):
    def test_a_child_has_a_copy(self):
        device = uzram.Device(SIZE)
        before, after = os.urandom(9000), os.urandom(9000)
        device.write(100, before)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                if device.read(100, 9000) == before:
                    device.write(100, bytes(9000))
                    device.compact()
                    status = 0 if device.read(100, 9000) == bytes(9000) else 2
            finally:
                os._exit(status)
        device.write(20000, after)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        self.assertEqual(device.read(100, 9000), before)
        self.assertEqual(device.read(20000, 9000), after)

    def test_a_child_is_made_while_threads_write(self):
        device, stop = uzram.Device(SIZE), threading.Event()
        data = os.urandom(100000)

        def write():
            while not stop.is_set():
                device.write(0, data)

        threads = [threading.Thread(target=write) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(10):
                child = os.fork()
                if child == 0:
                    status = 1
                    try:
                        device.write(200000, data)
                        status = 0 if device.read(200000, len(data)) == data else 2
                    finally:
                        os._exit(status)
                self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        finally:
            stop.set()
            for thread in threads:
                thread.join()


class Files(unittest.TestCase):
    def test_a_saved_device_is_restored(self):
        data = os.urandom(30000) + b"text " * 30000
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "saved"
            with uzram.Device(SIZE, algorithm="zstd", block_size=16384) as device:
                device.write(777, data)
                self.assertEqual(device.save(path), path.stat().st_size)
            with uzram.Device.restore(str(path), mem_limit=SIZE) as device:
                self.assertEqual((device.size, device.block_size), (SIZE, 16384))
                self.assertEqual(device.read(777, len(data)), data)
                self.assertEqual(device.stats().mem_limit, SIZE)
            damaged = bytearray(path.read_bytes())
            damaged[len(damaged) // 2] ^= 1
            path.write_bytes(damaged)
            self.assertRaises(uzram.Error, uzram.Device.restore, path)
            with self.assertRaises(uzram.Error) as caught:
                uzram.Device.restore(path.with_name("none"))
            self.assertEqual(caught.exception.errno, errno.ENOENT)
            with uzram.Device(SIZE) as device, self.assertRaises(uzram.Error) as caught:
                device.save(f"{folder}/with\0in it")
            self.assertEqual(caught.exception.errno, errno.EINVAL)


class Misuse(unittest.TestCase):
    def test_what_can_not_be_made(self):
        for arguments in (
            {"size": 0},
            {"size": (1 << 64) - 1},
            {"size": SIZE, "algorithm": "none of these"},
            {"size": SIZE, "level": 1 << 30},
            {"size": SIZE, "block_size": 5000},
            {"size": SIZE, "dictionary": b""},
        ):
            with self.subTest(arguments), self.assertRaises(uzram.Error) as caught:
                uzram.Device(**arguments)
            self.assertEqual(caught.exception.errno, errno.EINVAL)
        self.assertRaises(OverflowError, uzram.Device, -1)
        self.assertRaises(OverflowError, uzram.Device, 1 << 64)
        self.assertRaises(TypeError, uzram.Device, "1")
        self.assertRaises(TypeError, uzram.Device, 1.5)
        self.assertRaises(TypeError, uzram.Device)
        self.assertRaises(TypeError, uzram.Device, SIZE, "zstd")
        self.assertRaises(TypeError, uzram.train_dictionary, 5, 5)
        self.assertRaises(TypeError, uzram.train_dictionary, ["text"], 5)
        self.assertRaises(uzram.Error, uzram.train_dictionary, [], 4096)

    def test_ranges_beyond_the_end(self):
        device = uzram.Device(SIZE)
        for call in (
            lambda: device.read(SIZE, 1),
            lambda: device.read(0, SIZE + 1),
            lambda: device.read(0, (1 << 63) - 1),
            lambda: device.read((1 << 64) - 1, 2),
            lambda: device.readinto(SIZE - 1, bytearray(2)),
            lambda: device.write(SIZE - 1, b"ab"),
            lambda: device.discard(SIZE, 1),
        ):
            with self.assertRaises(uzram.Error) as caught:
                call()
            self.assertEqual(caught.exception.errno, errno.EINVAL)
        self.assertRaises(OverflowError, device.read, -1, 1)
        self.assertRaises(OverflowError, device.read, 0, -1)
        self.assertRaises(OverflowError, device.read, 0, 1 << 64)
        self.assertRaises(OverflowError, device.write, -1, b"")
        self.assertEqual((device.read(SIZE, 0), device.write(SIZE, b"")), (b"", 0))

    def test_there_is_no_memory_for_a_result(self):
        device = uzram.Device(1 << 43)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                resource.setrlimit(resource.RLIMIT_AS, (1 << 40, 1 << 40))
                device.read(0, 1 << 42)
            except MemoryError:
                status = 0
            finally:
                os._exit(status)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)

    def test_what_is_closed_refuses(self):
        device = uzram.Device(SIZE)
        self.assertFalse(device.closed)
        with device as entered:
            self.assertIs(device, entered)
        self.assertTrue(device.closed)
        device.close()
        for call in (
            lambda: device.read(0, 1),
            lambda: device.readinto(0, bytearray(1)),
            lambda: device.write(0, b"a"),
            lambda: device.discard(0, 1),
            lambda: device.save("none"),
            device.compact,
            device.stats,
            device.__enter__,
            lambda: device.size,
            lambda: device.block_size,
        ):
            with self.assertRaisesRegex(ValueError, "the device is closed"):
                call()
        self.assertEqual(repr(device), "<uzram.Device closed>")

    def test_an_exception_passes_through_its_block(self):
        with self.assertRaises(KeyError), uzram.Device(SIZE) as device:
            raise KeyError
        self.assertTrue(device.closed)
