#!/usr/bin/env python3
"""Writes the golden files of src/model/testdata: what PyTorch computes for a few small models.

Truth is computed in float64 from weights that float32 holds exactly, and stored rounded to float32. Each
case is also run in float32: PyTorch's own distance from the truth is the yardstick for the tolerances.
src/model/testdata/README.md documents names and tolerances; keep the two together.

Run with the pinned PyTorch (bench/setup_venv.sh makes the environment):
    build/venv/bin/python tools/goldens/make_goldens.py
"""

import argparse
import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "peers"))
import gpt

PINNED_TORCH = "2.13.0"
STEPS = 10
EPSILON = torch.finfo(torch.float32).eps
# Two correct float32 programs differ from the truth by errors of the same distribution, not by the same
# errors: the largest of one may exceed the largest of the other by a small factor.
SPREAD = 8
PERTURBED_RUNS = 32

RECIPE = {"learning_rate": 3e-3, "weight_decay": 0.1, "beta1": 0.9, "beta2": 0.99}
# grad_clip lies among the case's gradient norms: some steps are clipped and some are not.
COLUMNS = ("n_layer", "n_head", "n_embd", "block_size", "vocab_size", "bias", "gelu", "grad_clip")
CASES = {  # name: batch, time, then the columns
    # Odd everything: head size 7, T below block_size, sizes that fill no vector.
    "bias_erf": (2, 13, 2, 3, 21, 16, 37, True, "erf", 4.0),
    "nobias_erf": (3, 8, 2, 2, 16, 8, 33, False, "erf", 4.5),
    # One wide head in one layer; clipping off.
    "bias_tanh": (2, 9, 1, 1, 24, 12, 50, True, "tanh", 0.0),
    # Head size 1: every channel its own head.
    "nobias_tanh": (2, 17, 2, 13, 13, 19, 29, False, "tanh", 2.6),
}


def make_inputs(config, batch, time, seed):
    """Weights far from the usual init, so that softmax and GELU leave their linear range, and ten batches."""
    generator = torch.Generator().manual_seed(seed)
    model = gpt.Gpt(config)
    weights = {}
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        if parameter.dim() >= 2:
            fan_in = parameter.shape[1]
            scale = 0.5 if name.endswith(("wte.weight", "wpe.weight")) else 1.2 / fan_in**0.5
            weights[name] = noise * scale
        else:
            weights[name] = noise * 0.2 + (0.0 if name.endswith("bias") else 1.0)
    x = torch.randint(config.vocab_size, (STEPS, batch, time), generator=generator)
    y = torch.randint(config.vocab_size, (STEPS, batch, time), generator=generator)
    ignored = torch.rand(y.shape, generator=generator) < 0.15
    ignored[0, 0, time - 1] = True
    y[ignored] = -1
    return weights, x, y


def load(config, weights, dtype):
    model = gpt.Gpt(config).to(dtype)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(weights[name])
    return model


class Trajectory:
    """Ten AdamW steps: what the first one saw, and where the last one ended."""

    def __init__(self, fields, config, weights, x, y, dtype, noise=None, generator=None):
        self.problem = (fields, config, weights, x, y)
        model = load(config, weights, dtype)
        optimizer = gpt.make_optimizer(
            model,
            fields["learning_rate"],
            fields["beta1"],
            fields["beta2"],
            fields["weight_decay"],
            fused=False,
        )
        self.activations, self.losses, self.norms, self.step_gradients = {}, [], [], []
        for step in range(STEPS):
            taps = self.activations if step == 0 else None
            loss = model(x[step], y[step], taps)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            gradients = {name: p.grad.clone() for name, p in model.named_parameters()}
            self.step_gradients.append(gradients)
            if noise is not None:
                for name, p in model.named_parameters():
                    disturbance = noise[step][name] * torch.randn(p.shape, dtype=dtype, generator=generator)
                    # An exact zero (a position beyond the batch) is zero in any arithmetic.
                    p.grad += torch.where(p.grad == 0, 0, disturbance)
            limit = fields["grad_clip"] if fields["grad_clip"] > 0 else float("inf")
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), limit)
            self.losses.append(loss.item())
            self.norms.append(norm.item())
            optimizer.step()
        self.parameters = {name: p.detach().clone() for name, p in model.named_parameters()}


def largest(tensor):
    return tensor.abs().max().item()


def disturbed_envelopes(truth, single, seed):
    """How far parameters, losses and norms move when every gradient is disturbed as float32 disturbs it.

    After ten steps the error is not even over a tensor: where a gradient is nothing but rounding (the key
    biases: softmax does not see them), AdamW divides noise by noise. Hence an envelope per element.
    """
    noise = [
        {k: largest(exact[k] - approximate[k].double()) for k in exact}
        for exact, approximate in zip(truth.step_gradients, single.step_gradients)
    ]
    generator = torch.Generator().manual_seed(seed)
    envelope = {k: torch.zeros_like(p) for k, p in truth.parameters.items()}
    losses, norms = torch.tensor(truth.losses), torch.tensor(truth.norms)
    loss_envelope = (losses - torch.tensor(single.losses)).abs()
    norm_envelope = (norms - torch.tensor(single.norms)).abs()
    for _ in range(PERTURBED_RUNS):
        run = Trajectory(*truth.problem, torch.float64, noise, generator)
        for k, p in run.parameters.items():
            envelope[k] = torch.maximum(envelope[k], (p - truth.parameters[k]).abs())
        loss_envelope = torch.maximum(loss_envelope, (losses - torch.tensor(run.losses)).abs())
        norm_envelope = torch.maximum(norm_envelope, (norms - torch.tensor(run.norms)).abs())
    return envelope, loss_envelope, norm_envelope


def make_case(name, batch, time, shape, seed):
    fields = dict(shape, dropout=0.0, **RECIPE)
    config = gpt.GptConfig.from_fields(fields)
    weights, x, y = make_inputs(config, batch, time, seed)
    truth = Trajectory(fields, config, weights, x, y, torch.float64)
    single = Trajectory(fields, config, weights, x, y, torch.float32)

    tensors = {"x": x.to(torch.int32), "y": y.to(torch.int32)}
    report = {}

    def add(key, exact, approximate):
        error, size = largest(exact - approximate.double()), largest(exact)
        tensors[key] = exact.float().contiguous()
        report[key] = {
            "max_abs": size,
            "torch_fp32_error": error,
            "tolerance": SPREAD * max(error, EPSILON * size),
        }

    for key, exact in truth.activations.items():
        add("act." + key, exact, single.activations[key])
    for key, exact in truth.step_gradients[0].items():
        add("grad." + key, exact, single.step_gradients[0][key])

    envelope, loss_envelope, norm_envelope = disturbed_envelopes(truth, single, seed + 1)
    losses, norms = torch.tensor(truth.losses), torch.tensor(truth.norms)
    for k, exact in truth.parameters.items():
        tensors["init." + k] = weights[k]
        tensors["param." + k] = exact.float().contiguous()
        # Each step also rounds the parameter itself, by half an epsilon of its size.
        tolerance = 2 * envelope[k] + STEPS * EPSILON * (exact.abs() + RECIPE["learning_rate"])
        tensors["param_tolerance." + k] = tolerance.float().contiguous()
        error = (exact - single.parameters[k].double()).abs()
        report["param." + k] = {
            "max_abs": largest(exact),
            "torch_fp32_error": error.max().item(),
            "torch_fp32_error_per_tolerance": (error / tolerance).max().item(),
        }
    tensors["losses"] = losses.float()
    tensors["losses_tolerance"] = (SPREAD * torch.maximum(loss_envelope, EPSILON * losses)).float()
    tensors["grad_norms"] = norms.float()
    tensors["grad_norms_tolerance"] = (SPREAD * torch.maximum(norm_envelope, EPSILON * norms)).float()

    limit = fields["grad_clip"]
    clipped = sum(n > limit for n in truth.norms) if limit > 0 else 0
    return tensors, {
        "config": fields,
        "batch": batch,
        "time": time,
        "steps": STEPS,
        "steps_clipped": clipped,
        "torch": torch.__version__,
        "tensors": report,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "src/model/testdata")
    options = parser.parse_args()
    if torch.__version__.split("+")[0] != PINNED_TORCH:
        sys.exit(
            f"cannot make goldens with PyTorch {torch.__version__}: they are pinned to {PINNED_TORCH}\n"
            "  hint: bench/setup_venv.sh installs it in build/venv"
        )
    torch.set_num_threads(1)
    options.out.mkdir(parents=True, exist_ok=True)
    for index, (name, (batch, time, *values)) in enumerate(CASES.items()):
        shape = dict(zip(COLUMNS, values))
        tensors, description = make_case(name, batch, time, shape, seed=1000 + 10 * index)
        save_file(tensors, options.out / f"{name}.safetensors", metadata={"format": "pt"})
        (options.out / f"{name}.json").write_text(json.dumps(description, indent=1) + "\n")
        size = (options.out / f"{name}.safetensors").stat().st_size
        worst = max(
            (entry["torch_fp32_error_per_tolerance"], key)
            for key, entry in description["tensors"].items()
            if key.startswith("param.")
        )
        print(
            f"{name}: {size} bytes, loss {tensors['losses'][0]:.4f} -> {tensors['losses'][-1]:.4f}, "
            f"clipped {description['steps_clipped']} of {STEPS}, PyTorch's float32 parameters at "
            f"{worst[0]:.2f} of the tolerance ({worst[1]})"
        )


if __name__ == "__main__":
    main()
