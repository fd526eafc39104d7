"""Seeds of random tests. A failed test prints its seed; UZRAM_SEED sets the seed of a run."""

import contextlib
import os
import random


@contextlib.contextmanager
def seeded(test):
    """Yields a random generator for `test`. If the test fails, the failure shows the seed."""
    seed = int(os.environ.get("UZRAM_SEED") or random.randrange(1 << 32))
    with test.subTest(UZRAM_SEED=seed):
        yield random.Random(seed)


def contents(rng, length):
    """Returns `length` bytes of a random kind: zeros, a repeated pattern, text, or noise."""
    kind = rng.randrange(4)
    if kind == 0:
        return bytes(length)
    if kind == 1:
        return (rng.randbytes(rng.randrange(1, 64)) * length)[:length]
    if kind == 2:
        words = b" ".join(b"%d" % rng.randrange(1000) for _ in range(length // 3 + 1))
        return words[:length].ljust(length, b".")
    return rng.randbytes(length)
