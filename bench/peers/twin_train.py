#!/usr/bin/env python3
"""The PyTorch twin of `lockstep train shakespeare-char-cpu --data shakespeare`: same recipe, own seeds.

nanoGPT's character model for a CPU: 4 layers, 4 heads, 128 wide, block 64, 12 rows, 2000 updates, AdamW with
beta2 0.99, warm-up 100 and cosine to a tenth. Ends with the loss over the whole validation split: every
token but the first is predicted once, in blocks of 64, the last one shorter. One JSON line per seed.
"""

import argparse
import json
import math
import time
from pathlib import Path

import torch

import gpt
import text

CONFIG = gpt.GptConfig(n_layer=4, n_head=4, n_embd=128, block_size=64, vocab_size=65)
ROWS, UPDATES, WARMUP, RATE, RATE_MIN = 12, 2000, 100, 1e-3, 1e-4


def learning_rate(step, warmup=WARMUP, decay_steps=UPDATES, rate=RATE, lowest=RATE_MIN):
    """Of update `step`, counted from 0."""
    if step < warmup:
        return rate * (step + 1) / (warmup + 1)
    if step > decay_steps:
        return lowest
    along = (step - warmup) / (decay_steps - warmup)
    return lowest + 0.5 * (1 + math.cos(math.pi * along)) * (rate - lowest)


@torch.no_grad()
def whole_split_loss(model, ids, rows=64):
    """(mean loss per token, tokens): blocks of block_size, the last one shorter."""
    model.eval()
    block = model.config.block_size
    tokens = len(ids) - 1
    full = tokens // block
    x = ids[: full * block].view(full, block)
    y = ids[1 : full * block + 1].view(full, block)
    total = 0.0
    for first in range(0, full, rows):
        part = x[first : first + rows]
        total += model(part, y[first : first + rows]).item() * part.numel()
    if rest := tokens - full * block:
        total += model(ids[full * block : tokens][None], ids[full * block + 1 :][None]).item() * rest
    model.train()
    return total / tokens, tokens


def train(seed, train_ids, val_ids, updates):
    generator = torch.Generator().manual_seed(seed)
    model = gpt.Gpt(CONFIG)
    model.initialise(generator)
    optimizer = gpt.make_optimizer(model, RATE, 0.9, 0.99, 0.1)
    offsets = torch.arange(CONFIG.block_size)
    started, losses = time.monotonic(), []
    for step in range(updates):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step)
        starts = torch.randint(len(train_ids) - CONFIG.block_size, (ROWS, 1), generator=generator)
        loss = model(train_ids[starts + offsets], train_ids[starts + offsets + 1])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
    train_s = time.monotonic() - started
    val_loss, tokens = whole_split_loss(model, val_ids)
    return {
        "program": "pytorch", "recipe": "shakespeare-char-cpu", "seed": seed, "updates": updates,
        "val_loss": val_loss, "val_tokens": tokens, "loss_first": losses[0],
        "train_loss_last_100": sum(losses[-100:]) / len(losses[-100:]), "train_s": round(train_s, 1),
        "parameters": gpt.parameter_count(model), "torch": torch.__version__,
        "capability": torch.backends.cpu.get_cpu_capability(), "threads": torch.get_num_threads(),
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", default="1,2,3,4,5")
    parser.add_argument("--updates", type=int, default=UPDATES)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--data-path", type=Path, help="folder that holds the text")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    train_ids, val_ids, vocabulary = text.character_splits(
        text.find_shakespeare(options.data_path).read_text()
    )
    assert vocabulary == CONFIG.vocab_size, vocabulary
    train_ids, val_ids = torch.tensor(train_ids), torch.tensor(val_ids)
    for seed in map(int, options.seeds.split(",")):
        print(json.dumps(train(seed, train_ids, val_ids, options.updates)), flush=True)


if __name__ == "__main__":
    main()
