"""The GPT-2 / nanoGPT family in PyTorch: the reference that lockstep is compared with.

One model serves the goldens (float32 and float64, every activation tapped), the parity checks and the
speed peers, so that what is measured is also what is verified. Parameters carry nanoGPT's state-dict names;
the output head is the token table itself and therefore has no entry of its own.

Shapes: B batch, T time, C channels, H heads, D head size, V vocabulary, L layers.
"""

import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

LAYER_NORM_EPSILON = 1e-5
INIT_STD = 0.02


@dataclass(frozen=True)
class GptConfig:
    n_layer: int
    n_head: int
    n_embd: int
    block_size: int
    vocab_size: int
    bias: bool = False
    dropout: float = 0.0
    gelu: str = "erf"

    def __post_init__(self):
        if self.n_embd % self.n_head:
            raise ValueError(f"n_embd {self.n_embd} is not a multiple of n_head {self.n_head}")
        if self.gelu not in ("erf", "tanh"):
            raise ValueError(f"gelu is '{self.gelu}', expected erf or tanh")

    @classmethod
    def from_fields(cls, fields):
        """From a dictionary that may hold more, such as the configuration of `lockstep inspect step`."""
        return cls(**{name: fields[name] for name in cls.__dataclass_fields__ if name in fields})


class Norm(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(config.n_embd))
        self.bias = nn.Parameter(torch.zeros(config.n_embd)) if config.bias else None

    def forward(self, x):
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, LAYER_NORM_EPSILON)


class Linear(nn.Linear):
    """As nn.Linear; `multiply` can be exchanged for the whole model (onednn_linear.py)."""

    multiply = staticmethod(F.linear)

    def forward(self, x):
        return Linear.multiply(x, self.weight, self.bias)


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.n_head = config.n_head
        self.dropout = config.dropout
        self.c_attn = Linear(config.n_embd, 3 * config.n_embd, bias=config.bias)
        self.c_proj = Linear(config.n_embd, config.n_embd, bias=config.bias)

    def forward(self, x, tap):
        B, T, C = x.shape
        qkv = tap("qkv", self.c_attn(x))
        # (B, T, 3C) -> three of (B, H, T, D), without a copy
        q, k, v = qkv.view(B, T, 3, self.n_head, C // self.n_head).permute(2, 0, 3, 1, 4).unbind(0)
        p = self.dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=True)
        mixed = tap("attn", mixed.transpose(1, 2).reshape(B, T, C))
        return tap("attn_proj", self.c_proj(mixed))


class Mlp(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.approximate = "tanh" if config.gelu == "tanh" else "none"
        self.c_fc = Linear(config.n_embd, 4 * config.n_embd, bias=config.bias)
        self.c_proj = Linear(4 * config.n_embd, config.n_embd, bias=config.bias)

    def forward(self, x, tap):
        hidden = tap("fc", self.c_fc(x))
        hidden = tap("gelu", F.gelu(hidden, approximate=self.approximate))
        return tap("mlp_proj", self.c_proj(hidden))


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.dropout = config.dropout
        self.ln_1 = Norm(config)
        self.attn = Attention(config)
        self.ln_2 = Norm(config)
        self.mlp = Mlp(config)

    def drop(self, x):
        return F.dropout(x, self.dropout, self.training) if self.dropout else x

    def forward(self, x, tap):
        x = tap("resid_mid", x + self.drop(self.attn(tap("ln_1", self.ln_1(x)), tap)))
        return tap("resid", x + self.drop(self.mlp(tap("ln_2", self.ln_2(x)), tap)))


def no_tap(_name, tensor):
    return tensor


class Gpt(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(config.vocab_size, config.n_embd),
                "wpe": nn.Embedding(config.block_size, config.n_embd),
                "h": nn.ModuleList(Block(config) for _ in range(config.n_layer)),
                "ln_f": Norm(config),
            }
        )

    @torch.no_grad()
    def initialise(self, generator):
        """Weights N(0, 0.02), the two projections into the residual stream narrower, biases 0, norms 1."""
        residual_std = INIT_STD / math.sqrt(2 * self.config.n_layer)
        for name, parameter in self.named_parameters():
            if parameter.dim() >= 2:
                std = residual_std if name.endswith("c_proj.weight") else INIT_STD
                parameter.normal_(0.0, std, generator=generator)
            elif name.endswith("bias"):
                parameter.zero_()
            else:
                parameter.fill_(1.0)

    def logits(self, x, taps=None):
        """Logits (B, T, V) of token ids x (B, T). `taps`, a dictionary, receives every activation by name."""

        def tap_under(prefix):
            if taps is None:
                return no_tap

            def tap(name, tensor):
                taps[prefix + name] = tensor.detach()
                return tensor

            return tap

        top = tap_under("")
        wte, wpe = self.transformer["wte"].weight, self.transformer["wpe"].weight
        stream = F.embedding(x, wte) + wpe[: x.shape[1]]
        if self.config.dropout:
            stream = F.dropout(stream, self.config.dropout, self.training)
        stream = top("embed", stream)
        for index, block in enumerate(self.transformer["h"]):
            stream = block(stream, tap_under(f"h.{index}."))
        stream = top("ln_f", self.transformer["ln_f"](stream))
        return top("logits", Linear.multiply(stream, wte))

    def forward(self, x, y, taps=None):
        """Mean loss over the targets y (B, T) that are not -1."""
        logits = self.logits(x, taps)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), y.reshape(-1), ignore_index=-1)


def parameter_count(model, without_positions=False):
    count = sum(parameter.numel() for parameter in model.parameters())
    return count - model.transformer["wpe"].weight.numel() if without_positions else count


def make_optimizer(model, learning_rate, beta1, beta2, weight_decay, fused=True):
    """AdamW, eps 1e-8; tensors of two or more dimensions decay."""
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=learning_rate, betas=(beta1, beta2), eps=1e-8, fused=fused)


def flops_per_token(model, time):
    """nanoGPT's estimate, forward and backward: it counts the masked half of attention."""
    c = model.config
    return 6 * parameter_count(model, without_positions=True) + 12 * c.n_layer * c.n_embd * time
