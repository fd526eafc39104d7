"""Random tests begin with a seed that they print when they fail: UZRAM_SEED runs it again."""

import contextlib
import os
import random


@contextlib.contextmanager
def seeded(test):
    """Gives a generator to a test, whose failure tells the seed."""
    seed = int(os.environ.get("UZRAM_SEED") or random.randrange(1 << 32))
    with test.subTest(UZRAM_SEED=seed):
        yield random.Random(seed)


def contents(rng, length):
    """Returns bytes as programs have them: zeros, patterns, text, noise."""
    kind = rng.randrange(4)
    if kind == 0:
        return bytes(length)
    if kind == 1:
        return (rng.randbytes(rng.randrange(1, 64)) * length)[:length]
    if kind == 2:
        words = b" ".join(b"%d" % rng.randrange(1000) for _ in range(length // 3 + 1))
        return words[:length].ljust(length, b".")
    return rng.randbytes(length)
