#!/usr/bin/env python3
"""PyTorch on the weights and rows of a lockstep run of `shakespeare-char`: one JSON line with every loss."""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file

import gpt
import schedule
from twin_train import learning_rate

CONFIG = gpt.GptConfig(n_layer=6, n_head=6, n_embd=384, block_size=256, vocab_size=65)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--init", type=Path, required=True, help="model.safetensors of the checkpoint at step 0"
    )
    parser.add_argument("--train-bin", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1337)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--threads", type=int, required=True)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    ids = np.fromfile(options.train_bin, dtype="<u2")
    model = gpt.Gpt(CONFIG)
    model.load_state_dict(load_file(options.init))
    optimizer = gpt.make_optimizer(model, 1e-3, 0.9, 0.99, 0.1)
    losses, started = [], time.monotonic()
    for step in range(1, options.steps + 1):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step - 1, decay_steps=5000)
        x, y = map(
            torch.from_numpy, schedule.rows(ids, options.seed, step, options.rows, CONFIG.block_size)
        )
        loss = model(x, y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
    print(
        json.dumps({
            "program": "pytorch", "torch": torch.__version__, "threads": torch.get_num_threads(),
            "capability": torch.backends.cpu.get_cpu_capability(), "losses": losses,
            "wall_s": round(time.monotonic() - started, 1),
        })
    )  # fmt: skip


if __name__ == "__main__":
    main()
