#!/usr/bin/env python3
"""Tests of bench/peers/schedule.py: published answers of Philox, and rows that stay inside the text."""

import sys
import unittest

try:
    import numpy as np

    import schedule
except ImportError as error:
    print(f"SKIPPED: {error}")
    sys.exit(77)


class PhiloxTest(unittest.TestCase):
    def test_known_answers(self):
        # From the known-answer file of Random123, philox4x32-10.
        self.assertEqual(schedule.philox(0, (0, 0, 0, 0)), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8))
        ones = 0xFFFFFFFF
        self.assertEqual(
            schedule.philox((ones << 32) | ones, (ones,) * 4),
            (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
        )


class RowsTest(unittest.TestCase):
    def test_targets_follow_inputs_and_steps_differ(self):
        ids = np.arange(1000, dtype=np.uint16)
        x, y = schedule.rows(ids, seed=7, step=1, count=50, block_size=9)
        self.assertTrue((y == x + 1).all())
        self.assertEqual(x.shape, (50, 9))
        self.assertLess(y.max(), 1000)
        self.assertGreater(len(set(x[:, 0])), 40)
        self.assertFalse((x == schedule.rows(ids, 7, 2, 50, 9)[0]).all())


if __name__ == "__main__":
    unittest.main()
