"""Tests of caches: against an OrderedDict, with threads, in children, and with misbehaving keys."""

import gc
import json
import os
import pickle
import subprocess
import sys
import threading
import unittest
import weakref
from collections import OrderedDict
from collections.abc import MutableMapping
from errno import ENOSPC
from unittest import mock

import uzram
from seeds import contents, seeded

MIB = 1 << 20
# A limit that is large enough for a codec's buffers, and small enough to be reached soon.
LIMIT = 1 * MIB
RESIDENT = """
import sys, uzram
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
limit = int(sys.argv[1])
document = lambda n: b'{"order":%d,"customer":{"id":%d,"country":"DE"},"lines":[%s]}' % (
    n, n * 7919 % 100003, b",".join(b'{"sku":"%x","colour":"red"}' % (n * 7907 * k % 1000003) for k in range(1, 9)))
uzram.Cache(1 << 20)["key"] = document(1)
before = resident()
cache = uzram.Cache(limit)
highest = nth = 0
while cache.stats().evictions < 3000:
    for _ in range(1000):
        cache["order %d" % nth] = document(nth)
        nth += 1
    highest = max(highest, resident() - before)
cache._check()
assert cache["order %d" % (nth - 1)] == document(nth - 1)
print(highest, cache.stats().held)
"""


# Compares keys at the limit of recursion, where Python raises an exception and may collect cycles.
RECURSION = """
import faulthandler, gc, uzram
faulthandler.dump_traceback_later(30, exit=True)
class Cycle:
    def __init__(self):
        self.me = self
    def __del__(self):
        cache.get("x")
def look(depth):
    if depth == 1:
        gc.enable()
    try:
        return look(depth - 1) if depth else cache[key]
    finally:
        gc.disable()
gc.disable()
gc.set_threshold(1)
for kept, key in (("ab" * 50, "".join(["ab"] * 50)), (1 << 80, (1 << 79) * 2), (2.5, float("2.5")), (10**9, int("1" + "0" * 9))):
    cache = uzram.Cache(1 << 20)
    cache[kept] = b"value"
    for depth in range(900, 1000):
        Cycle()
        try:
            look(depth)
        except RecursionError:
            pass
"""


# If there is no memory for a value, the call raises an exception, and the cache does not change.
NO_MEMORY = """
import resource, uzram
def within(bytes):
    used = int(open("/proc/self/statm").read().split()[0]) * 4096
    resource.setrlimit(resource.RLIMIT_AS, (used + bytes, resource.RLIM_INFINITY))
def fails(error, call, *arguments):
    try:
        call(*arguments)
    except error:
        return
    raise AssertionError(arguments)
cache = uzram.Cache(1 << 30, algorithm="lz4", dictionary=False)
value = bytearray(200 << 20)
cache["key"] = value
within(100 << 20)
fails(MemoryError, cache.__setitem__, "key", value)
for call in (cache.get, cache.pop):
    fails(MemoryError, call, "key")
fails(MemoryError, cache.popitem)
within(1 << 30)
assert cache.pop("key") == value
cache = uzram.Cache(1 << 20)
value = __import__("os").urandom(200 << 20)
within(50 << 20)
fails(uzram.Error, cache.__setitem__, "key", value)
"""


def document(rng):
    lines = [
        {"sku": "%012x" % rng.randrange(1 << 48), "title": rng.choice(["mug", "lamp", "shelf"]), "count": rng.randrange(9)}
        for _ in range(rng.randrange(2, 9))
    ]
    return json.dumps({"order": rng.randrange(10**9), "status": "paid", "lines": lines, "note": None}).encode()


def value(rng):
    """Returns a random value, usually a small one."""
    kind = rng.randrange(30)
    if kind == 0:
        return contents(rng, rng.randrange(300 << 10))
    if kind < 4:
        return contents(rng, rng.choice([0, 1, 63, 64, 4095, 4096, 4097, 16383, 16384, 16385, 65535, 65536, 65537]))
    return document(rng) if kind < 12 else contents(rng, rng.randrange(1500)) if kind < 20 else rng.randbytes(rng.randrange(6000))


def keys(rng):
    """Returns keys of many types, some of which are equal to each other."""
    kinds = [lambda n: n, str, lambda n: b"%d" % n, float, lambda n: (n, "of a tuple"), lambda n: n == 1, frozenset]
    return [kind(n) if kind is not frozenset else frozenset([n]) for n in range(60) for kind in kinds]


class Key:
    """A key that equals every key of the same name. There are two hashes.

    Each comparison calls `compared`.
    """

    def __init__(self, name, compared=lambda: None):
        self.name, self.compared = name, compared

    def __hash__(self):
        return len(self.name) % 2

    def __eq__(self, other):
        self.compared()
        return isinstance(other, Key) and self.name == other.name


class Passing:
    """A class whose objects can be pickled."""

    def __getstate__(self):
        return 1

    def __setstate__(self, state):
        pass


class Mappings(unittest.TestCase):
    def test_it_keeps_what_an_ordered_dict_keeps(self):
        with seeded(self) as rng:
            ways = ({}, {"algorithm": "lz4"}, {"dictionary": False}, {"level": 1, "dictionary": b"order status"})
            # A single run may evict nothing if its values are small.
            self.assertGreater(sum(self.run_beside_model(rng, options, 1500) for options in ways), 0)

    def run_beside_model(self, rng, options, calls):
        model, all_keys = OrderedDict(), keys(rng)

        def evicted(key, value):
            oldest, kept = model.popitem(last=False)
            self.assertEqual((key, value), (oldest, kept))

        cache = uzram.Cache(LIMIT, on_evict=evicted, **options)
        hits = misses = 0
        for _ in range(calls):
            key, what = rng.choice(all_keys), rng.randrange(12)
            if what < 6:
                new = value(rng)
                # The cache makes the old value the most recently used before it evicts others.
                if key in model:
                    model.move_to_end(key)
                if self.put(cache, key, memoryview(new) if rng.randrange(2) else new):
                    model[key] = new
            elif what < 9:
                if key in model:
                    self.assertEqual(cache[key], model[key])
                    model.move_to_end(key)
                    hits += 1
                else:
                    self.assertIsNone(cache.get(key))
                    misses += 1
            elif what == 9:
                self.assertEqual(cache.pop(key, None), model.pop(key, None))
            elif what == 10 and model:
                self.assertEqual(cache.popitem(), model.popitem(last=False))
            else:
                self.assertEqual(key in cache, key in model)
                self.assertEqual(cache.peek(key, 7), model.get(key, 7))
            stats = cache.stats()
            self.assertLessEqual(stats.held, LIMIT)
            self.assertEqual(stats.entries, len(model))
        cache._check()
        self.assertEqual(list(cache.items()), list(model.items()))
        self.assertEqual(cache, model)
        self.assertEqual((stats.hits, stats.misses), (hits, misses))
        self.assertEqual(stats.stored, sum(map(len, model.values())))
        return stats.evictions

    def put(self, cache, key, new):
        """Stores a value. Returns false if the value is too large for the cache."""
        told = []
        with mock.patch.object(sys, "unraisablehook", told.append):
            try:
                cache[key] = new
            except uzram.Error as error:
                self.assertEqual(error.errno, ENOSPC)
                self.assertGreater(len(new), 100_000)
                return False
            finally:
                self.assertEqual(told, [])
        return True

    def test_it_is_a_mapping_like_others(self):
        cache = uzram.Cache(LIMIT)
        self.assertIsInstance(cache, MutableMapping)
        cache.update({"a": b"1"}, b=b"2")
        cache.update([("c", b"3")])
        self.assertEqual(dict(cache), {"a": b"1", "b": b"2", "c": b"3"})
        self.assertEqual(cache.setdefault("a", b"9"), b"1")
        self.assertEqual(cache.setdefault("d", bytearray(b"4")), b"4")
        # "a" was used after "b" and "c" were stored, and before "d" was stored.
        self.assertEqual(list(cache), ["b", "c", "a", "d"])
        self.assertEqual(list(cache.keys()), ["b", "c", "a", "d"])
        self.assertEqual(list(cache.values()), [b"2", b"3", b"1", b"4"])
        self.assertEqual(cache.keys() & {"a", "z"}, {"a"})
        self.assertIn(("b", b"2"), cache.items())
        self.assertNotIn(("b", b"3"), cache.items())
        self.assertIn(b"2", cache.values())
        self.assertEqual(list(cache), ["b", "c", "a", "d"])
        self.assertEqual(cache.pop("b"), b"2")
        self.assertEqual(cache.pop("b", None), None)
        self.assertEqual(cache.popitem(), ("c", b"3"))
        del cache["a"]
        for missing in (lambda: cache["a"], lambda: cache.pop("a"), lambda: cache.__delitem__("a")):
            with self.assertRaises(KeyError) as raised:
                missing()
            self.assertEqual(raised.exception.args, ("a",))
        for key in ((1, 2), (), None):
            for call in (cache.__getitem__, cache.pop, cache.__delitem__):
                with self.assertRaises(KeyError) as raised:
                    call(key)
                self.assertEqual(raised.exception.args, (key,))
        cache.update([["e", b"5"]])
        del cache["e"]
        self.assertNotIn(("absent", mock.ANY), cache.items())
        other = uzram.Cache(LIMIT, algorithm="lz4")
        other["d"] = b"4"
        self.assertTrue(cache == other and cache == {"d": b"4"} and not cache != other)
        self.assertTrue(cache != {"d": b"5"} and cache != {} and cache != 5)
        cache.clear()
        self.assertRaises(KeyError, cache.popitem)
        self.assertEqual((len(cache), bool(cache), list(cache.items())), (0, False, []))
        self.assertRaises(TypeError, hash, cache)
        self.assertRaises(TypeError, pickle.dumps, cache)
        self.assertIn("0 values", repr(cache))
        self.assertGreaterEqual(sys.getsizeof(cache), cache.stats().held)
        self.assertEqual(uzram.Cache[str, bytes].__args__, (str, bytes))

    def test_a_full_cache_updates_itself(self):
        cache = uzram.Cache(LIMIT, dictionary=False)
        while cache.stats().evictions < 50:
            cache[cache.stats().entries, cache.stats().evictions] = os.urandom(3000)
        cache.update(cache)
        cache._check()

    def test_iteration_goes_over_the_keys_of_its_beginning(self):
        cache = uzram.Cache(LIMIT)
        cache.update((n, b"%d" % n) for n in range(9))
        for n in cache:
            cache.get(n)
            cache[n + 100] = b"new"
            cache.pop(n + 1, None)
        self.assertEqual(list(cache), [0, *range(100, 109)])
        seen = []
        for n, _ in cache.items():
            seen.append(n)
            cache.pop(100, None)
        self.assertNotIn(100, seen)

    def test_keys_are_as_those_of_a_dict(self):
        cache = uzram.Cache(LIMIT)
        cache[1] = b"one"
        self.assertEqual((cache[1.0], cache[True]), (b"one", b"one"))
        cache[1.0] = b"float"
        self.assertEqual(list(map(type, cache)), [int])
        nan = float("nan")
        cache[nan] = b"nan"
        self.assertEqual(cache[nan], b"nan")
        self.assertNotIn(float("nan"), cache)
        for call in (cache.get, cache.__getitem__, cache.__contains__, cache.pop, lambda key: cache.update({}, **{}) or cache[key]):
            self.assertRaises(TypeError, call, [])
        self.assertRaises(TypeError, cache.__setitem__, [], b"")
        self.assertEqual(len(cache), 2)


class Values(unittest.TestCase):
    def test_values_of_all_lengths_come_back(self):
        with seeded(self) as rng:
            cache = uzram.Cache(24 * MIB)
            lengths = [0, 1, 15, 16, 17, 1 << 16, 3 * MIB + 1, *(n + d for n in (4096, 16384, 65536, 131072) for d in (-1, 0, 1))]
            put = {length: contents(rng, length) for length in lengths}
            for length, value in put.items():
                cache[length] = value
                self.assertEqual(cache[length], value)
            self.assertEqual(cache, put)
            cache._check()

    def test_values_are_bytes_like(self):
        cache = uzram.Cache(LIMIT)
        for value in (bytearray(b"ab"), memoryview(b"ab")):
            cache["key"] = value
            self.assertEqual((cache["key"], type(cache["key"])), (b"ab", bytes))
        for value in ("ab", 5, None, [1, 2]):
            self.assertRaises(TypeError, cache.__setitem__, "key", value)
        self.assertRaises(BufferError, cache.__setitem__, "key", memoryview(b"abcd")[::2])
        self.assertEqual(cache["key"], b"ab")

    def test_any_values_are_pickled(self):
        cache = uzram.Cache(LIMIT, pickle=True)
        values = [None, "text", {"a": [1, 2.5, (3,)]}, set(range(9)), list(range(9000))]
        cache.update(enumerate(values))
        self.assertEqual(list(cache.values()), values)
        self.assertIsNot(cache[2], values[2])
        self.assertEqual(cache.setdefault("none"), None)
        with self.assertRaises(Exception):
            cache[0] = lambda: None
        self.assertIsNone(cache[0])

    def test_a_value_that_finds_no_memory(self):
        out = subprocess.run([sys.executable, "-c", NO_MEMORY], capture_output=True, text=True, timeout=120)
        self.assertEqual((out.returncode, out.stderr), (0, ""))

    def test_what_cannot_be_returned_stays(self):
        cache = uzram.Cache(LIMIT, pickle=True)
        cache["key"] = Passing()
        with mock.patch.object(Passing, "__setstate__", side_effect=ZeroDivisionError):
            self.assertRaises(ZeroDivisionError, cache.pop, "key")
            self.assertRaises(ZeroDivisionError, cache.popitem)
        self.assertEqual(list(cache), ["key"])
        self.assertIsInstance(cache.pop("key"), Passing)

    def test_a_value_that_finds_no_room_leaves_the_old_one(self):
        cache = uzram.Cache(LIMIT)
        cache["key"] = b"old"
        with self.assertRaises(uzram.Error) as raised:
            cache["key"] = os.urandom(2 * MIB)
        self.assertEqual(raised.exception.errno, ENOSPC)
        self.assertEqual(cache, {"key": b"old"})
        cache._check()

    def test_a_dictionary_is_trained(self):
        with seeded(self) as rng:
            documents = [document(rng) for _ in range(9000)]
            kept = []
            for dictionary in (True, False):
                cache = uzram.Cache(LIMIT, dictionary=dictionary)
                cache.update(enumerate(documents))
                cache._check()
                self.assertTrue(all(documents[n] == value for n, value in cache.items()))
                # The remaining keys are those that were stored last.
                self.assertEqual(list(cache), list(range(9000 - len(cache), 9000)))
                kept.append((len(cache), cache.stats().dictionary > 0))
            (most, has), (fewer, has_not) = kept
            self.assertTrue(has and not has_not and most > fewer)

    def test_a_dictionary_takes_no_memory_until_it_saves_more(self):
        limit = 64 * MIB
        with seeded(self) as rng:
            words = ["%x" % rng.randrange(1 << 20) for _ in range(3000)]
            caches = uzram.Cache(limit), uzram.Cache(limit, dictionary=False)
            for n in range(1500):
                value = " ".join(rng.choices(words, k=3000)).encode()[: 16 << 10]
                for cache in caches:
                    cache[n] = value
                if n % 100 == 99:
                    with_dictionary, without = (cache.stats() for cache in caches)
                    self.assertLessEqual(with_dictionary.held, without.held + limit // 256, n)

    def test_what_cannot_be_is_refused(self):
        with self.assertRaisesRegex(ValueError, "takes [0-9]+ bytes or more"):
            uzram.Cache(1000)
        for options in ({"algorithm": "none"}, {"level": 99}, {"dictionary": b""}):
            self.assertRaises(uzram.Error, uzram.Cache, LIMIT, **options)
        self.assertRaises(OverflowError, uzram.Cache, -1)
        self.assertRaises(TypeError, uzram.Cache, LIMIT, dictionary=5)
        self.assertRaises(TypeError, uzram.Cache)


class Limits(unittest.TestCase):
    def test_the_process_grows_by_no_more(self):
        limit = 32 * MIB
        out = subprocess.run([sys.executable, "-c", RESIDENT, str(limit)], capture_output=True, text=True, check=True)
        highest, held = map(int, out.stdout.split())
        self.assertLessEqual(highest, limit + limit * 3 // 100)
        self.assertLessEqual(held, limit)

    def test_memory_is_given_back(self):
        cache = uzram.Cache(16 * MIB, dictionary=False)
        empty = cache.stats().held
        cache.update((n, os.urandom(5000)) for n in range(2000))
        self.assertGreater(cache.stats().held, 9 * MIB)
        cache.clear()
        self.assertLess(cache.stats().held, empty + MIB // 2)


class Evictions(unittest.TestCase):
    def fill(self, cache, count=1200):
        for n in range(count):
            cache[n] = os.urandom(1000)

    def test_on_evict_is_told_of_what_goes(self):
        gone = []
        cache = uzram.Cache(LIMIT, on_evict=lambda key, value: gone.append((key, len(value))))
        self.fill(cache)
        self.assertEqual(gone, [(n, 1000) for n in range(1200 - len(cache))])
        self.assertEqual(cache.stats().evictions, len(gone))
        del cache[1199]
        cache.clear()
        self.assertEqual(len(gone), cache.stats().evictions)

    def test_what_on_evict_raises_is_unraisable(self):
        def fails(key, value):
            raise RuntimeError(key)

        cache, told = uzram.Cache(LIMIT, on_evict=fails), []
        with mock.patch.object(sys, "unraisablehook", lambda unraisable: told.append(unraisable.exc_value.args[0])):
            self.fill(cache)
        self.assertEqual(told, list(range(cache.stats().evictions)))
        cache._check()

    def test_on_evict_may_use_the_cache(self):
        def again(key, value):
            self.assertNotIn(key, cache)
            cache["last"] = b"%d" % key
            if key % 100 == 0:
                cache.clear()

        cache = uzram.Cache(LIMIT, on_evict=again)
        with mock.patch.object(sys, "unraisablehook", lambda unraisable: self.fail(unraisable.exc_value)):
            self.fill(cache)
        cache._check()

    def test_a_cycle_is_collected(self):
        class Holder:
            pass

        for through in ("on_evict", "key"):
            holder = Holder()
            holder.cache = uzram.Cache(LIMIT, on_evict=(lambda key, value, holder=holder: None) if through == "on_evict" else None)
            if through == "key":
                holder.cache[holder] = b"value"
            gone = weakref.ref(holder)
            del holder
            gc.collect()
            self.assertIsNone(gone(), through)


class Keys(unittest.TestCase):
    """Keys whose comparison runs Python code."""

    def test_keys_of_one_hash(self):
        cache, model = uzram.Cache(LIMIT), {}
        for n in range(60):
            cache[Key(str(n))] = model[str(n)] = b"%d" % n
        self.assertTrue(all(cache[Key(name)] == value for name, value in model.items()))
        self.assertNotIn(Key("60"), cache)
        cache._check()

    def test_a_comparison_that_raises(self):
        def fails():
            raise ZeroDivisionError

        cache = uzram.Cache(LIMIT)
        cache[Key("a", fails)] = b"value"
        for call in (cache.get, cache.pop, cache.__contains__, cache.__delitem__, lambda key: cache.__setitem__(key, b"")):
            self.assertRaises(ZeroDivisionError, call, Key("a"))
            self.assertRaises(ZeroDivisionError, call, Key("b"))
        self.assertEqual(len(cache), 1)
        cache._check()

    def test_a_comparison_that_changes_the_cache(self):
        with seeded(self) as rng:
            cache = uzram.Cache(LIMIT)
            left = 0

            def changes():
                nonlocal left
                if left > 0:
                    left -= 1
                    key = Key(rng.choice("abcd"), changes)
                    what = rng.randrange(5)
                    if what == 0:
                        cache.clear()
                    elif what == 1:
                        cache.pop(key, None)
                    elif what == 2:
                        cache.get(key)
                    else:
                        cache[key] = b"%d" % left

            for n in range(2000):
                left = rng.randrange(6)
                key = Key(rng.choice("abcd"), changes)
                if rng.randrange(3):
                    cache[key] = b"%d" % n
                    left = 0
                    self.assertEqual(cache.peek(key), b"%d" % n)
                else:
                    cache.get(key)
                left = 0
                self.assertEqual(len({key.name for key in cache}), len(cache))
            cache._check()

    def test_no_comparison_raises_under_the_lock(self):
        out = subprocess.run([sys.executable, "-c", RECURSION], capture_output=True, text=True, timeout=60)
        self.assertEqual((out.returncode, out.stderr), (0, ""))

    def test_plain_keys_that_are_alike(self):
        kinds = [0, -1, 1 << 63, -(1 << 63), (1 << 63) - 1, 1 << 64, -(1 << 64), 2.0**64, 0.5, "", "a", b"", b"a", "\ud800", "ä€😀"]
        cache, model = uzram.Cache(LIMIT), {}
        for n, key in enumerate(kinds):
            cache[key] = model[key] = b"%d" % n
        copies = pickle.loads(pickle.dumps(kinds))
        self.assertEqual([cache[key] for key in copies], [model[key] for key in copies])
        self.assertEqual(set(map(repr, cache)), set(map(repr, model)))

    def test_a_key_that_calls_the_cache_as_it_goes(self):
        class Last(Key):
            def __del__(self):
                cache.get("x"), cache.pop("y", None)
                cache["z"] = b"from a destructor"

        cache = uzram.Cache(LIMIT)
        for n in range(3000):
            cache[Last(str(n))] = os.urandom(1000)
        cache.clear()
        cache._check()
        self.assertLessEqual(set(cache), {"z"})


class Threads(unittest.TestCase):
    def test_threads_find_what_they_put(self):
        with seeded(self) as rng:
            cache, failures = uzram.Cache(2 * MIB), []
            seeds = [rng.randrange(1 << 32) for _ in range(8)]
            interval = sys.getswitchinterval()
            sys.setswitchinterval(1e-5)
            self.addCleanup(sys.setswitchinterval, interval)
            threads = [threading.Thread(target=self.work, args=(cache, seed, failures)) for seed in seeds]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(failures, [])
            cache._check()
            self.assertLessEqual(cache.stats().held, 2 * MIB)

    def test_all_get_the_default_that_was_set(self):
        cache = uzram.Cache(64 * MIB, dictionary=False)
        for key in range(50):
            barrier, got = threading.Barrier(4), []

            def sets(n):
                barrier.wait()
                got.append(cache.setdefault(key, bytes([n]) * 200_000))

            threads = [threading.Thread(target=sets, args=(n,)) for n in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(set(got), {cache[key]})

    def work(self, cache, seed, failures):
        import random

        rng = random.Random(seed)
        try:
            for _ in range(400):
                name = rng.randrange(300)
                key = name if rng.randrange(2) else Key(str(name))
                what = rng.randrange(8)
                if what < 4:
                    # A value repeats the name of its key.
                    cache[key] = (b"%d;" % name) * rng.choice([1, 50, 200, 9000])
                elif what < 7:
                    found = cache.get(key)
                    mark = b"%d;" % name
                    if found is not None and found != mark * (len(found) // len(mark)):
                        failures.append((name, found[:40]))
                elif rng.randrange(20) == 0:
                    list(cache.items())
                else:
                    cache.pop(key, None)
        except Exception as error:
            failures.append(error)

    def test_a_child_has_a_copy(self):
        cache, stops = uzram.Cache(2 * MIB), threading.Event()

        def busy():
            n = 0
            while not stops.is_set():
                n += 1
                cache[n % 50] = b"%d" % n * 9000
                cache.get(n % 50)

        threads = [threading.Thread(target=busy) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            cache["of the parent"] = b"parent"
            for _ in range(8):
                child = os.fork()
                if child == 0:
                    import signal

                    signal.alarm(30)
                    cache["of the child"] = b"child" * 9000
                    is_right = cache["of the child"] == b"child" * 9000 and len(list(cache.items())) == len(cache)
                    os._exit(0 if is_right and cache.get("of the parent", b"parent") == b"parent" else 1)
                self.assertEqual(os.waitpid(child, 0)[1], 0)
        finally:
            stops.set()
            for thread in threads:
                thread.join()
        self.assertNotIn("of the child", cache)
        cache._check()


if __name__ == "__main__":
    unittest.main()
