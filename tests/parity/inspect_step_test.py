#!/usr/bin/env python3
"""Compares `lockstep inspect step` with PyTorch on random legal shapes: loss, gradients, parameters.

    inspect_step_test.py --lockstep build/release/lockstep [--cases 60] [--seed 1]
    inspect_step_test.py --self-test      PyTorch's float32 stands in for lockstep: the tolerances must let it
                                          pass, and must catch a planted mistake in every kind of result

Exit code 77 (ctest: skipped) without PyTorch.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import torch
    from safetensors.torch import load_file, save_file

    import cases
except ImportError as error:
    print(f"SKIPPED: {error}\n  hint: bench/setup_venv.sh makes an environment with PyTorch")
    sys.exit(77)


def run_lockstep(program, case, micro_rows):
    with tempfile.TemporaryDirectory(prefix="lockstep-parity-") as folder:
        paths = {name: Path(folder) / name for name in ("config", "init", "batch", "out")}
        paths["config"].write_text(json.dumps(case.fields))
        save_file(case.weights, paths["init"])
        save_file({"x": case.x.to(torch.int32), "y": case.y.to(torch.int32)}, paths["batch"])
        command = [str(program), "inspect", "step"]
        for name, path in paths.items():
            command += ["--" + name, str(path)]
        if micro_rows:
            command += ["--micro-rows", str(micro_rows)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode:
            raise ValueError(f"exit code {done.returncode}: {done.stderr.strip()}")
        return load_file(paths["out"])


def torch_float32(case):
    """What run_lockstep would return, by PyTorch."""
    loss, grads, _ = cases.gradients(case, torch.float32)
    params, _ = cases.first_update(case, grads)
    out = {"loss": torch.tensor(loss)}
    out.update({"grad." + name: tensor for name, tensor in grads.items()})
    out.update({"param." + name: tensor for name, tensor in params.items()})
    return out


def compare(options):
    failures, worst = 0, (0.0, "", 0)
    for seed in range(options.seed, options.seed + options.cases):
        case = cases.random_case(seed)
        expected = cases.expectation(case, seed)
        try:
            ratio, name = cases.worst_ratio(expected, run_lockstep(options.lockstep, case, seed % 3))
        except ValueError as error:
            ratio, name = float("inf"), str(error)
        if not ratio <= 1:
            failures += 1
            print(
                f"FAILED seed {seed} ({case.describe()}): error / tolerance {ratio:.3g} in {name}",
                flush=True,
            )
        worst = max(worst, (ratio, name, seed))
    print(
        f"{options.cases} cases, {failures} failed; worst error / tolerance {worst[0]:.3f} in {worst[1]} "
        f"(seed {worst[2]})"
    )
    return 1 if failures else 0


def tells_gelus_apart(case, swapped, expected):
    exact, other = (cases.gradients(c, torch.float64)[1] for c in (case, swapped))
    return any((exact[n] - other[n]).abs().max() > 2 * expected.tolerances["grad." + n] for n in exact)


def self_test(options):
    """The tolerances are wide enough for a correct float32 program and too narrow for a wrong one."""
    worst, caught, planted = (0.0, "", 0), 0, 0
    for seed in range(options.seed, options.seed + options.cases):
        case = cases.random_case(seed)
        expected = cases.expectation(case, seed)
        honest = torch_float32(case)
        worst = max(worst, (*cases.worst_ratio(expected, honest), seed))
        other = "tanh" if case.fields["gelu"] == "erf" else "erf"
        swapped = cases.Case({**case.fields, "gelu": other}, case.weights, case.x, case.y)
        # Where the activations are tiny, the two GELUs are one in float32: that is not a mistake.
        mistakes = [torch_float32(swapped)] if tells_gelus_apart(case, swapped, expected) else []
        for name in honest:
            wrong = dict(honest)
            # One element off by a thousandth of the largest; a parameter by a hundredth of the step.
            size = honest[name].abs().max().item() * 1e-3
            if name.startswith("param."):
                size = case.fields["learning_rate"] * 1e-2 + honest[name].abs().max().item() * 1e-5
            wrong[name] = honest[name].clone()
            position = expected.tolerances[name]
            index = int(torch.as_tensor(position).expand(wrong[name].shape).flatten().argmin())
            wrong[name].view(-1)[index] += size
            mistakes.append(wrong)
        planted += len(mistakes)
        caught += sum(cases.worst_ratio(expected, wrong)[0] > 1 for wrong in mistakes)
    print(
        f"{options.cases} cases: PyTorch's float32 at {worst[0]:.3f} of the tolerance at worst ({worst[1]}, "
        f"seed {worst[2]}); {caught} of {planted} planted mistakes caught"
    )
    return 0 if worst[0] <= 1 and caught == planted else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lockstep", type=Path, help="the program")
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.self_test:
        return self_test(options)
    if options.lockstep is None or not os.access(options.lockstep, os.X_OK):
        parser.error("give --lockstep PROGRAM")
    return compare(options)


if __name__ == "__main__":
    sys.exit(main())
