#!/usr/bin/env python3
"""The fastest PyTorch training step we can write, for the shapes of `lockstep bench step`.

Forward, backward, clipping and AdamW, as in nanoGPT. Prints one JSON line, last on stdout, with the fields
of `lockstep bench step --json` plus the settings. Compilation and warm-up are not timed. What was tried, and
what each setting is worth, stands in bench/README.md.
"""

import argparse
import json
import math
import os
import resource
import statistics
import sys
import time
from pathlib import Path

# The environment that made PyTorch fastest: the program starts itself again with it, because the allocator
# and OpenMP read it only once. What the caller sets wins.
TUNING = {
    # Large tensors stay in the heap from step to step instead of being mapped and faulted in anew.
    "MALLOC_MMAP_THRESHOLD_": "4294967296",
    "MALLOC_TRIM_THRESHOLD_": "17179869184",
    "MALLOC_TOP_PAD_": "67108864",
}
SHOWN = (
    "ATEN_CPU_CAPABILITY",
    "ONEDNN_MAX_CPU_ISA",
    "MKL_ENABLE_INSTRUCTIONS",
    "OMP_NUM_THREADS",
    "OMP_PROC_BIND",
    "OMP_WAIT_POLICY",
    "GOMP_CPU_AFFINITY",
    "GOMP_SPINCOUNT",
    "GLIBC_TUNABLES",
    "THP_MEM_ALLOC_ENABLE",
    "LD_PRELOAD",
    *TUNING,
)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", choices=("tiny", "baby", "gpt2"), required=True)
    parser.add_argument("--mode", choices=("eager", "compile"), default="eager")
    parser.add_argument("--compile-mode", default="default", help="torch.compile's mode")
    parser.add_argument("--dtype", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--linear", choices=("mkl", "onednn"), default="mkl", help="whose matrix product")
    parser.add_argument("--threads", type=int, default=0, help="0: PyTorch's own choice")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--no-tuning", action="store_true", help="leave the allocator as it is")
    parser.add_argument("--flush-denormal", action="store_true")
    parser.add_argument("--clip", choices=("foreach", "loop"), default="foreach")
    parser.add_argument(
        "--compile-optimizer", action="store_true", help="compile clipping and AdamW as well"
    )
    return parser.parse_args()


def restart_tuned(options):
    wanted = {} if options.no_tuning else dict(TUNING)
    # The compiler's cache does not tell instruction sets apart (code for AVX-512 found under AVX2 gave NaN).
    capability = os.environ.get("ATEN_CPU_CAPABILITY", "native")
    cache = Path(__file__).resolve().parents[2] / "build" / "inductor" / capability
    wanted["TORCHINDUCTOR_CACHE_DIR"] = str(cache)
    if options.threads > 0:
        wanted["OMP_NUM_THREADS"] = wanted["MKL_NUM_THREADS"] = str(options.threads)
    missing = {name: value for name, value in wanted.items() if name not in os.environ}
    if missing:
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **missing})


def make_step(options, torch, gpt, shape):
    """A function that does one whole training step, and the model's FLOPs per token."""
    if options.linear == "onednn":
        import onednn_linear

        gpt.Linear.multiply = staticmethod(onednn_linear.linear)
    config = gpt.GptConfig.from_fields(shape)
    torch.manual_seed(1337)
    model = gpt.Gpt(config)
    model.initialise(torch.Generator().manual_seed(1337))
    optimizer = gpt.make_optimizer(model, 1e-4, 0.9, 0.99, 0.1, fused=not options.compile_optimizer)
    parameters = list(model.parameters())
    loss_of = model
    if options.mode == "compile":
        loss_of = torch.compile(model, mode=options.compile_mode, dynamic=False, fullgraph=True)
    generator = torch.Generator().manual_seed(1)
    rows = (shape["batch"], shape["time"])
    x = torch.randint(shape["vocab_size"], rows, generator=generator)
    y = torch.randint(shape["vocab_size"], rows, generator=generator)
    autocast = torch.autocast("cpu", dtype=torch.bfloat16, enabled=options.dtype == "bf16")

    def update():
        torch.nn.utils.clip_grad_norm_(parameters, 1.0, foreach=options.clip == "foreach")
        optimizer.step()

    if options.compile_optimizer:
        update = torch.compile(update, dynamic=False)

    def step():
        with autocast:
            loss = loss_of(x, y)
        loss.backward()
        update()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    return step, gpt.flops_per_token(model, shape["time"]), gpt.parameter_count(model)


def main():
    options = parse_arguments()
    restart_tuned(options)
    import torch

    import gpt
    from shapes import SHAPES

    if options.threads > 0:
        torch.set_num_threads(options.threads)
    if options.flush_denormal:
        torch.set_flush_denormal(True)
    shape = SHAPES[options.shape]
    step, flops, parameters = make_step(options, torch, gpt, shape)
    started = time.perf_counter()
    loss_first = step()
    first_s = time.perf_counter() - started
    for _ in range(options.warmup):
        step()
    times_ms = []
    for _ in range(options.steps):
        started = time.perf_counter()
        loss = step()
        times_ms.append(1e3 * (time.perf_counter() - started))
    if not math.isfinite(loss):
        sys.exit(
            f"PyTorch's loss is {loss} after {options.steps} steps of {options.shape}: its time means nothing"
        )
    tokens = shape["batch"] * shape["time"]
    fastest_ms, median_ms = min(times_ms), statistics.median(times_ms)
    print(
        json.dumps(
            {
                "program": "pytorch",
                "shape": options.shape,
                "mode": options.mode,
                "dtype": options.dtype,
                "step_ms_min": round(fastest_ms, 4),
                "step_ms_median": round(median_ms, 4),
                "tokens_per_s": round(1e3 * tokens / median_ms, 1),
                "gflops": round(1e-6 * flops * tokens / median_ms, 2),
                "rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6, 1),
                "threads": torch.get_num_threads(),
                "steps": options.steps,
                "parameters": parameters,
                "loss_first": loss_first,
                "loss_last": loss,
                "compile_and_first_step_s": round(first_s, 2),
                "settings": {
                    "torch": torch.__version__,
                    "capability": torch.backends.cpu.get_cpu_capability(),
                    "compile_mode": options.compile_mode if options.mode == "compile" else None,
                    "optimizer": "compiled AdamW" if options.compile_optimizer else "fused AdamW",
                    "linear": options.linear,
                    "clip": options.clip,
                    "flush_denormal": options.flush_denormal,
                    "environment": {name: os.environ[name] for name in SHOWN if name in os.environ},
                },
            }
        ),
        flush=True,
    )


if __name__ == "__main__":
    main()
