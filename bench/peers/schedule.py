"""lockstep's sample schedule in Python: the same rows of the training split for (seed, step, slot).

Philox4x32-10 (Salmon and others, SC'11) keyed by the seed; see src/base/random.h and src/data/samples.h.
"""

import numpy as np

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
LOW = 0xFFFFFFFF
PURPOSE_SAMPLES = 0x80000000 | 2


def philox(key, counter):
    """One block of four 32-bit words from a 64-bit key and a counter of four words."""
    k0, k1 = key & LOW, key >> 32
    c0, c1, c2, c3 = counter
    for _ in range(10):
        p0, p1 = MULTIPLIERS[0] * c0, MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 & LOW, (p0 >> 32) ^ c3 ^ k1, p0 & LOW
        k0, k1 = (k0 + WEYL[0]) & LOW, (k1 + WEYL[1]) & LOW
    return c0, c1, c2, c3


def row_start(seed, step, slot, tokens, block_size):
    """First token of the row in `slot` of `step` (the first step is 1), sampling with replacement."""
    words = philox(seed, (step & LOW, step >> 32, slot, PURPOSE_SAMPLES))
    return ((words[0] | words[1] << 32) * (tokens - block_size)) >> 64


def rows(ids, seed, step, count, block_size):
    """x and y (count, block_size), int64."""
    starts = [row_start(seed, step, slot, len(ids), block_size) for slot in range(count)]
    windows = np.stack([ids[start : start + block_size + 1] for start in starts]).astype(np.int64)
    return windows[:, :-1].copy(), windows[:, 1:].copy()
