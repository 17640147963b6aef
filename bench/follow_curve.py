#!/usr/bin/env python3
"""Does lockstep follow PyTorch's loss from the same weights and rows, as closely as PyTorch follows itself?

Trains `shakespeare-char` without dropout for --steps steps with lockstep, and with PyTorch from lockstep's
initial weights on the same rows with one and with two threads. The largest difference of the losses between
lockstep and PyTorch may be at most twice that between PyTorch's two runs. The full size (100 steps of 64
rows) takes half an hour on two fast cores; --rows makes it shorter. Exit code 1 when it is larger.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import machine

BLOCK_SIZE = 256
LIMIT = 2.0


def lockstep(program, *arguments):
    command = [str(program), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise machine.ProgramFailed(
            f"{' '.join(command)} ended with exit code {done.returncode}:\n{done.stderr}"
        )


def lockstep_losses(out_dir):
    events = [json.loads(line) for line in (out_dir / "metrics.jsonl").read_text().splitlines()]
    return [event["loss"] for event in events if event["event"] == "step"]


def difference(a, b):
    gaps = [abs(x - y) for x, y in zip(a, b, strict=True)]
    return {"max": max(gaps), "mean": sum(gaps) / len(gaps), "at_step": 1 + gaps.index(max(gaps))}


def run(options, work):
    data, program = work / "data", options.lockstep
    lockstep(program, "data", "prepare", "shakespeare", "--out-dir", data)
    # The validation loss is not the question here: a few tokens keep its evaluation short. Without the meta
    # file, which would notice, the vocabulary must be given.
    os.truncate(data / "val.bin", 2 * (BLOCK_SIZE + 2))
    (data / "meta.json").unlink()
    common = ["train", "shakespeare-char", "--data", data, "--vocab-size", 65, "--dropout", 0,
              "--seed", options.seed, "--batch-size", options.rows, "--eval-interval", 0]  # fmt: skip
    lockstep(program, *common, "--max-iters", 0, "--out-dir", work / "init")
    lockstep(program, *common, "--max-iters", options.steps, "--out-dir", work / "run")
    runs = {"lockstep": lockstep_losses(work / "run")}
    print(f"lockstep: loss {runs['lockstep'][0]:.4f} -> {runs['lockstep'][-1]:.4f}", flush=True)
    versions = {}
    for threads in (1, 2):
        command = [options.python, machine.ROOT / "bench/peers/follow_train.py",
                   "--init", work / "init/checkpoints/0/model.safetensors", "--train-bin", data / "train.bin",
                   "--seed", options.seed, "--steps", options.steps, "--rows", options.rows,
                   "--threads", threads]  # fmt: skip
        result = machine.run_json(command, dict(os.environ), timeout_s=4 * 3600)
        losses = runs[f"pytorch_{threads}"] = result.pop("losses")
        versions = {key: result[key] for key in ("torch", "capability")}
        print(f"PyTorch, {threads} threads: loss {losses[0]:.4f} -> {losses[-1]:.4f}", flush=True)
    return runs, versions


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lockstep", type=Path, default=machine.ROOT / "build/release/lockstep")
    parser.add_argument("--python", type=Path, default=machine.ROOT / "build/venv/bin/python")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1337)
    parser.add_argument("--out", type=Path, help="JSON file for the result")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lockstep-follow-") as folder:
        try:
            runs, versions = run(options, Path(folder))
        except machine.ProgramFailed as error:
            sys.exit(f"follow_curve: {error}")
    own = difference(runs["pytorch_1"], runs["pytorch_2"])
    ours = [difference(runs["lockstep"], runs[name]) for name in ("pytorch_1", "pytorch_2")]
    # The farther of the two: which of them lockstep resembles more is chance.
    ratio = max(gap["max"] for gap in ours) / own["max"] if own["max"] > 0 else float("inf")
    result = {
        "what": "shakespeare-char, dropout 0, same weights and rows", "steps": options.steps,
        "rows": options.rows, "seed": options.seed, "cpu": machine.cpu_description()[0],
        "version": machine.program_version(options.lockstep), **versions, "pytorch_1_against_2_threads": own,
        "lockstep_against_pytorch_1": ours[0], "lockstep_against_pytorch_2": ours[1], "ratio": ratio,
        "limit": LIMIT, "losses": runs,
    }  # fmt: skip
    if options.out:
        options.out.write_text(json.dumps(result, indent=1) + "\n")
    for name in ("pytorch_1_against_2_threads", "lockstep_against_pytorch_1", "lockstep_against_pytorch_2"):
        gap = result[name]
        print(f"{name}: largest {gap['max']:.3g} at step {gap['at_step']}, mean {gap['mean']:.3g}")
    verdict = "met" if ratio <= LIMIT else "missed"
    print(f"ratio of the largest differences {ratio:.3f}, limit {LIMIT}: {verdict}")
    sys.exit(0 if ratio <= LIMIT else 1)


if __name__ == "__main__":
    main()
