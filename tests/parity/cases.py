"""Random legal training steps, what PyTorch computes for them, and how far float32 may be from that.

Truth is float64. How much float32 rounding disturbs a case is measured, not guessed: the step is computed in
float32 several times with the channels in different orders, which changes no result but every rounding.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench" / "peers"))
import gpt

EPSILON = torch.finfo(torch.float32).eps
ORDERS = 6  # float32 evaluations
SPREAD = (
    6  # a further evaluation may exceed the largest error of ORDERS ones, on a tensor of few elements most
)
ADAM_EPSILON = 1e-8
HEAD_SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 13, 15, 16, 17, 24, 31, 32, 33, 64, 65)


@dataclass
class Case:
    fields: dict  # the configuration of `lockstep inspect step`
    weights: dict  # float32, by name
    x: torch.Tensor  # (B, T)
    y: torch.Tensor

    def describe(self):
        f = self.fields
        ignored = int((self.y == -1).sum())
        return (
            f"L{f['n_layer']} H{f['n_head']} C{f['n_embd']} block {f['block_size']} V{f['vocab_size']} "
            f"B{self.x.shape[0]} T{self.x.shape[1]} bias={f['bias']} gelu={f['gelu']} "
            f"clip={f['grad_clip']:.3g} ignored={ignored}"
        )


def pick(generator, values):
    return values[int(torch.randint(len(values), (1,), generator=generator))]


def between(generator, low, high):
    return int(torch.randint(low, high + 1, (1,), generator=generator))


def random_case(seed):
    g = torch.Generator().manual_seed(seed)
    n_head = between(g, 1, 5)
    head_size = pick(g, [d for d in HEAD_SIZES if d * n_head <= 160])
    n_embd = n_head * head_size
    block_size = pick(g, (1, 2, 7, 8, 16, 17, 31, 33, 48, 64, 65, 80))
    vocab_size = pick(g, (2, 3, 16, 17, 37, 64, 65, 100, 257))
    B, T = between(g, 1, 4), between(g, 1, block_size)
    fields = {
        "n_layer": between(g, 1, 3), "n_head": n_head, "n_embd": n_embd, "block_size": block_size,
        "vocab_size": vocab_size, "bias": pick(g, (True, False)), "dropout": 0.0,
        "gelu": pick(g, ("erf", "tanh")), "learning_rate": pick(g, (1e-4, 1e-3, 6e-4, 3e-2)),
        "weight_decay": pick(g, (0.0, 0.1, 0.3)), "beta1": pick(g, (0.9, 0.8)),
        "beta2": pick(g, (0.95, 0.99, 0.999)), "grad_clip": pick(g, (0.0, 1e-2, 0.3, 1.0, 1e3)),
    }  # fmt: skip
    if seed % 4 == 0:
        del fields["gelu"]  # optional: erf
    wide = pick(g, (True, False))  # far from the usual init, or just that
    weights = {}
    for name, p in gpt.Gpt(gpt.GptConfig.from_fields(fields)).named_parameters():
        noise = torch.randn(p.shape, generator=g)
        centre = 1.0 if p.dim() == 1 and not name.endswith("bias") else 0.0
        narrow = 0.02 if p.dim() == 2 else 0.05
        scale = (
            (0.5 if "wte" in name or "wpe" in name else 1.0 / p.shape[-1] ** 0.5) if p.dim() == 2 else 0.2
        )
        weights[name] = centre + noise * (scale if wide else narrow)
    x = torch.randint(vocab_size, (B, T), generator=g)
    y = torch.randint(vocab_size, (B, T), generator=g)
    if pick(g, (True, False)):
        y[torch.rand(y.shape, generator=g) < 0.3] = -1
    if B > 1 and pick(g, (True, False, False)):
        y[between(g, 0, B - 1)] = -1  # a whole row
    if (y == -1).all():
        y[0, T - 1] = 0
    fields.setdefault("gelu", "erf")
    return Case(fields, weights, x, y)


# -- one step --------------------------------------------------------------------------------------------
def channel_axes(name):
    """Which axes of a parameter run over the C channels of the residual stream."""
    if name.endswith(("wte.weight", "wpe.weight", "c_attn.weight", "c_fc.weight")):
        return (1,)
    if name.endswith(("c_proj.weight", "c_proj.bias")) or "ln_" in name:
        return (0,)
    return ()


def reorder(tensors, order):
    out = {}
    for name, tensor in tensors.items():
        for axis in channel_axes(name):
            tensor = tensor.index_select(axis, order)
        out[name] = tensor
    return out


def gradients(case, dtype, order=None):
    """(loss, gradients, largest logit), computed with the channels in the given order."""
    model = gpt.Gpt(gpt.GptConfig.from_fields(case.fields)).to(dtype)
    weights = case.weights if order is None else reorder(case.weights, order)
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(weights[name])
    taps = {}
    loss = model(case.x, case.y, taps)
    loss.backward()
    grads = {name: p.grad for name, p in model.named_parameters()}
    if order is not None:
        grads = reorder(grads, torch.argsort(order))
    return loss.item(), grads, taps["logits"].abs().max().item()


def first_update(case, grads):
    """Parameters after clipping and one AdamW step in the type of grads, and the clip factor."""
    f = case.fields
    model = gpt.Gpt(gpt.GptConfig.from_fields(f)).to(next(iter(grads.values())).dtype)
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(case.weights[name])
            p.grad = grads[name].clone()
    optimizer = gpt.make_optimizer(
        model, f["learning_rate"], f["beta1"], f["beta2"], f["weight_decay"], fused=False
    )
    factor = 1.0
    if f["grad_clip"] > 0:
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), f["grad_clip"]).item()
        factor = min(1.0, f["grad_clip"] / (norm + 1e-6))
    optimizer.step()
    return {name: p.detach() for name, p in model.named_parameters()}, factor


# -- truth and tolerance ---------------------------------------------------------------------------------
@dataclass
class Expectation:
    values: dict  # "loss", "grad.NAME", "param.NAME": float64
    tolerances: dict  # the same keys: a number, or a tensor for each element


def expectation(case, seed):
    loss, grads, logit = gradients(case, torch.float64)
    errors = dict.fromkeys(grads, 0.0)
    loss_error = 0.0
    g = torch.Generator().manual_seed(seed)
    for _ in range(ORDERS):
        order = torch.randperm(case.fields["n_embd"], generator=g)
        loss32, grads32, _ = gradients(case, torch.float32, order)
        loss_error = max(loss_error, abs(loss32 - loss))
        for name, exact in grads.items():
            errors[name] = max(errors[name], (grads32[name].double() - exact).abs().max().item())
    params, factor = first_update(case, grads)
    values, tolerances = {"loss": torch.tensor(loss)}, {}
    # A loss is the difference of a log-sum and a logit: it is exact to a rounding of those.
    tolerances["loss"] = SPREAD * max(loss_error, EPSILON * (abs(loss) + logit))
    for name, exact in grads.items():
        tolerance = SPREAD * max(errors[name], EPSILON * exact.abs().max().item())
        values["grad." + name], tolerances["grad." + name] = exact, tolerance
        values["param." + name] = params[name]
        tolerances["param." + name] = parameter_tolerance(case, params[name], exact, tolerance, factor)
    return Expectation(values, tolerances)


def parameter_tolerance(case, param, grad, tolerance, factor):
    """How far the first update can move when the gradient moves by its tolerance, element by element.

    At t = 1 the update is rate * u(g), u(g) = g / (|g| + 1e-8): steep where g is not far above 1e-8, where
    rounding alone decides, and flat elsewhere. u is monotone, so the ends of the interval bound it.
    """
    rate = case.fields["learning_rate"]
    clipped = factor * grad
    radius = factor * tolerance + 8 * EPSILON * clipped.abs()  # the factor itself is rounded

    def u(g):
        return g / (g.abs() + ADAM_EPSILON)

    moved = torch.maximum(
        (u(clipped + radius) - u(clipped)).abs(), (u(clipped - radius) - u(clipped)).abs()
    )
    # Decay, division and subtraction: a few roundings of numbers of the size of p and of the rate.
    return rate * moved + 4 * EPSILON * (param.abs() + rate)


def worst_ratio(expected, actual):
    """(error / tolerance, name) of the worst tensor; ValueError on a missing, extra or misshapen one."""
    missing = sorted(expected.values.keys() - actual.keys())
    extra = sorted(actual.keys() - expected.values.keys())
    if missing or extra:
        raise ValueError(f"tensors missing: {missing}, not expected: {extra}")
    worst = (0.0, "")
    for name, exact in expected.values.items():
        found = actual[name]
        if found.dtype != torch.float32 or found.shape != exact.shape:
            raise ValueError(
                f"{name} is {found.dtype} {tuple(found.shape)}, expected float32 {tuple(exact.shape)}"
            )
        ratio = (found.double() - exact).abs() / torch.as_tensor(expected.tolerances[name])
        ratio = torch.where(torch.isfinite(found), ratio, torch.inf).max().item()
        worst = max(worst, (ratio, name))
    return worst
