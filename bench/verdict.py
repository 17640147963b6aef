"""Goals of `./dev bench`, and how a set of measurements is judged against them. Pure functions."""

import statistics
from dataclasses import dataclass

# Ratios (PyTorch's time over ours) that a machine with AVX2 must reach, and those that we aim at. They hold
# for float32 and the plain peers; on AVX-512 and AMX the same ratios are reported without judgement.
SPEED_GOALS = {  # (shape, mode): (must, aim)
    ("tiny", "eager"): (1.40, 1.50),
    ("tiny", "compile"): (1.40, 1.50),
    ("baby", "eager"): (1.15, 1.20),
    ("baby", "compile"): (1.14, 1.18),
    ("gpt2", "eager"): (1.28, 1.35),
    ("gpt2", "compile"): (1.12, 1.20),
}
PEAK_GOALS = {"tiny": (0.80, 0.85), "baby": (0.90, 0.93), "gpt2": (0.87, 0.92)}  # of the GEMM peak
MEMORY_GOALS = {"gpt2": 0.75, "baby": 0.50}  # our resident memory over PyTorch's, at most
START_GOAL_S = 0.5  # first step of tiny after process start, at most


@dataclass(frozen=True)
class Spread:
    """Median and quartiles of some measurements, with the smallest and the largest."""

    median: float
    lower: float
    upper: float
    smallest: float
    largest: float
    count: int

    @classmethod
    def of(cls, values):
        if not values:
            raise ValueError("no measurements")
        if len(values) == 1:
            lower = upper = values[0]
        else:
            lower, _, upper = statistics.quantiles(values, n=4, method="inclusive")
        return cls(statistics.median(values), lower, upper, min(values), max(values), len(values))


def judge(spread, goal, at_least=True):
    """(met, word): the median decides; the word is "undecided" where the quartiles straddle the goal."""
    met = spread.median >= goal if at_least else spread.median <= goal
    if spread.lower < goal < spread.upper:
        return met, "undecided"
    return met, "met" if met else "missed"


def instruction_set(cpu_flags, forced=None):
    """ "AMX", "AVX-512", "AVX2" or "older": what both programs may use."""
    if forced == "avx2":
        return "AVX2"
    for flag, name in (("amx_tile", "AMX"), ("avx512f", "AVX-512"), ("avx2", "AVX2")):
        if flag in cpu_flags:
            return name
    return "older"
