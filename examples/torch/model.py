"""A decoder-only transformer over bytes, and how its weights are made: by itself, from a text, in seconds on a GPU.

Small, but made of what large ones are made of: RMS norms, rotary positions, grouped attention with a key-value cache, gated
feed-forward layers. Nothing is downloaded. With the same size, seed and text it becomes the same model.
"""

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

VOCABULARY = 256
END = 0
"""Ends an answer: no text has this byte."""


@dataclass(frozen=True)
class Size:
    layers: int
    width: int
    heads: int
    context: int
    steps: int
    """Of training."""


SIZES = {
    "tiny": Size(layers=2, width=128, heads=4, context=256, steps=20),
    "small": Size(layers=12, width=768, heads=12, context=1024, steps=300),
    "medium": Size(layers=24, width=2048, heads=16, context=2048, steps=300),
    "large": Size(layers=8, width=12_288, heads=96, context=1024, steps=0),
}
"""The large one is for measurements: wide enough that the GPU, not the processor that feeds it, sets the pace. It has learnt nothing."""


class Cache:
    """Keys and values of what one conversation has seen."""

    def __init__(self, size, device, dtype):
        shape = (size.layers, 1, size.heads, size.context, size.width // size.heads)
        self.keys = torch.empty(shape, device=device, dtype=dtype)
        self.values = torch.empty(shape, device=device, dtype=dtype)
        self.length = 0


class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.heads = size.heads
        self.norm_attention = nn.RMSNorm(size.width)
        self.into = nn.Linear(size.width, 3 * size.width, bias=False)
        self.out = nn.Linear(size.width, size.width, bias=False)
        self.norm_forward = nn.RMSNorm(size.width)
        self.gate_and_up = nn.Linear(size.width, 8 * size.width, bias=False)
        self.down = nn.Linear(4 * size.width, size.width, bias=False)

    def forward(self, x, rotation, cache=None, layer=0):
        x = x + self.out(self._attention(self.norm_attention(x), rotation, cache, layer))
        gate, up = self.gate_and_up(self.norm_forward(x)).chunk(2, dim=-1)
        return x + self.down(functional.silu(gate) * up)

    def _attention(self, x, rotation, cache, layer):
        batch, length, width = x.shape
        query, key, value = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.into(x).chunk(3, dim=-1)
        )
        query, key = rotated(query, rotation), rotated(key, rotation)
        if cache is not None:
            end = cache.length + length
            cache.keys[layer, :, :, cache.length : end] = key
            cache.values[layer, :, :, cache.length : end] = value
            key, value = cache.keys[layer, :, :, :end], cache.values[layer, :, :, :end]
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=length > 1)
        return seen.transpose(1, 2).reshape(batch, length, width)


class Transformer(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size
        self.embedding = nn.Embedding(VOCABULARY, size.width)
        self.blocks = nn.ModuleList(Block(size) for _ in range(size.layers))
        self.norm = nn.RMSNorm(size.width)
        self.head = nn.Linear(size.width, VOCABULARY, bias=False)
        half = size.width // size.heads // 2
        angles = torch.outer(torch.arange(size.context), 10_000 ** (-torch.arange(half) / half))
        self.register_buffer("rotation", torch.stack((angles.cos(), angles.sin())), persistent=False)

    def forward(self, tokens, cache=None):
        """The likelihoods of what follows each token. With a cache, of what follows all that it has seen."""
        at = cache.length if cache is not None else 0
        rotation = self.rotation[:, at : at + tokens.shape[1]]
        x = self.embedding(tokens)
        for layer, block in enumerate(self.blocks):
            x = block(x, rotation, cache, layer)
        if cache is not None:
            cache.length += tokens.shape[1]
            x = x[:, -1:]
        return self.head(self.norm(x)).float()

    @property
    def parameters_count(self):
        return sum(parameter.numel() for parameter in self.parameters())


def rotated(x, rotation):
    cosine, sine = rotation.to(x.dtype)
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cosine - second * sine, first * sine + second * cosine), dim=-1)


def trained(size, text, device, seed=7, say=print):
    """A model that has learnt the text; the same each time."""
    torch.manual_seed(seed)
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    with torch.device(device):  # made where it is used: a large one would take minutes elsewhere
        model = Transformer(size)
    data = torch.frombuffer(bytearray(text), dtype=torch.uint8).long().to(device)
    length = min(256, size.context, len(data) - 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95), weight_decay=0.01)
    for step in range(size.steps):
        begins = torch.randint(0, len(data) - length, (16,)).tolist()
        seen = torch.stack([data[at : at + length] for at in begins])
        wanted = torch.stack([data[at + 1 : at + length + 1] for at in begins])
        with torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda"):
            loss = functional.cross_entropy(model(seen).flatten(0, 1), wanted.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 100 == 0 or step == size.steps - 1:
            say(f"torch: step {step}, loss {loss.item():.3f}")
    return model.to(dtype).eval().requires_grad_(False)
