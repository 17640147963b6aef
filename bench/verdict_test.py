#!/usr/bin/env python3
"""Tests of bench/verdict.py."""

import unittest

import verdict


class JudgeTest(unittest.TestCase):
    def test_clear_cases(self):
        spread = verdict.Spread.of([1.5, 1.6, 1.55, 1.52, 1.58])
        self.assertEqual(verdict.judge(spread, 1.4), (True, "met"))
        self.assertEqual(verdict.judge(spread, 1.7), (False, "missed"))

    def test_the_median_decides_and_straddling_quartiles_are_said(self):
        spread = verdict.Spread.of([1.0, 1.1, 1.3, 1.4, 1.5])
        self.assertEqual(verdict.judge(spread, 1.2), (True, "undecided"))
        self.assertEqual(verdict.judge(spread, 1.35), (False, "undecided"))

    def test_an_outlier_outside_the_quartiles_does_not_make_it_undecided(self):
        spread = verdict.Spread.of([0.1, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5])
        self.assertEqual(verdict.judge(spread, 1.4), (True, "met"))

    def test_goals_that_are_limits(self):
        spread = verdict.Spread.of([0.3, 0.31, 0.32])
        self.assertEqual(verdict.judge(spread, 0.5, at_least=False), (True, "met"))
        self.assertEqual(verdict.judge(spread, 0.2, at_least=False), (False, "missed"))

    def test_exactly_the_goal_is_met(self):
        spread = verdict.Spread.of([1.4] * 7)
        self.assertEqual(verdict.judge(spread, 1.4), (True, "met"))
        self.assertEqual(verdict.judge(spread, 1.4, at_least=False), (True, "met"))


class SpreadTest(unittest.TestCase):
    def test_quartiles(self):
        spread = verdict.Spread.of([5, 1, 4, 2, 3])
        self.assertEqual(
            (spread.smallest, spread.lower, spread.median, spread.upper, spread.largest), (1, 2, 3, 4, 5)
        )

    def test_one_and_none(self):
        self.assertEqual(verdict.Spread.of([2.0]).lower, 2.0)
        with self.assertRaises(ValueError):
            verdict.Spread.of([])


class InstructionSetTest(unittest.TestCase):
    def test_best_first(self):
        self.assertEqual(verdict.instruction_set({"avx2", "avx512f", "amx_tile"}), "AMX")
        self.assertEqual(verdict.instruction_set({"avx2", "avx512f"}), "AVX-512")
        self.assertEqual(verdict.instruction_set({"avx2"}), "AVX2")
        self.assertEqual(verdict.instruction_set({"sse4_2"}), "older")
        self.assertEqual(verdict.instruction_set({"avx2", "avx512f"}, forced="avx2"), "AVX2")


class GoalsTest(unittest.TestCase):
    def test_an_aim_is_never_below_its_must(self):
        for must, aim in [*verdict.SPEED_GOALS.values(), *verdict.PEAK_GOALS.values()]:
            self.assertLess(must, aim)


if __name__ == "__main__":
    unittest.main()
