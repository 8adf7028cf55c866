"""What a model that serves takes of memory: weights, the context of its requests, and the server itself. Pure.

    weights   parameters × bytes of each (`precision.py`); of GGUF the file's size
    context   layers × 2 (key and value) × key-value heads × size of a head × bytes × tokens × requests at once
              with latent attention: layers × (rank + position part) × bytes × tokens × requests at once
              layers with a sliding window keep no more tokens than the window, where the server makes use of that
    server    what the template states (driver, kernels, graphs) + activations:
              tokens of a batch × (4 × hidden + 2 × intermediate) × bytes + requests at once × vocabulary × 4 bytes

A worked example, Qwen2.5-7B with 16,384 tokens and 16 requests at once: 7.62 billion × 2 bytes = 15.2 GB of weights;
28 × 2 × 4 × 128 × 2 bytes = 57,344 bytes a token, 0.94 GB a request, 15.0 GB for 16.

Sizes that people read are in GB of 10⁹ bytes, as hubs and data sheets give them.
"""

from dataclasses import dataclass

from moorage.models.shape import Shape

_LOGIT_BYTES = 4


@dataclass(frozen=True)
class RequestLoad:
    """What is asked of one replica."""

    context_tokens: int
    requests: int
    kv_bytes: int = 2


@dataclass(frozen=True)
class ServerMemory:
    """A template's statement."""

    fixed_bytes: int
    batch_tokens: int
    """That it computes at once, at most."""
    whole_prompts: bool = False
    """But never less than a whole prompt."""
    uses_window: bool = True
    reserves_context: bool = True
    """False: it keeps nothing for requests beyond what it computes, as one that makes embeddings."""


@dataclass(frozen=True)
class Memory:
    weights_bytes: int
    context_bytes: int
    server_bytes: int

    @property
    def total_bytes(self) -> int:
        return self.weights_bytes + self.context_bytes + self.server_bytes


def context_bytes_per_request(shape: Shape, tokens: int, kv_bytes: int, *, uses_window: bool = True) -> int:
    """Of one request that uses all of its context."""
    if shape.latent is not None:
        per_layer = (shape.latent.rank + shape.latent.position_size) * kv_bytes
    else:
        per_layer = 2 * shape.key_value_heads * shape.head_size * kv_bytes
    attending = shape.layers - shape.linear_layers
    windowed = shape.windowed_layers if uses_window and shape.window is not None else 0
    in_window = min(tokens, shape.window or tokens)
    kept = (attending - windowed) * tokens + windowed * in_window
    # A decoder that listens keeps what it heard as well.
    return per_layer * (kept + attending * shape.encoder_positions)


def activation_bytes(shape: Shape, batch_tokens: int, requests: int, number_bytes: int = 2) -> int:
    per_token = (4 * shape.hidden + 2 * shape.intermediate) * number_bytes
    return batch_tokens * per_token + requests * shape.vocabulary * _LOGIT_BYTES


def memory_of(
    weights_bytes: int, shape: Shape | None, load: RequestLoad, server: ServerMemory, *, gpus: int = 1
) -> Memory:
    """Of each of so many GPUs that share one replica. A model without a shape has no context that is known."""
    if shape is None:
        return Memory(-(-weights_bytes // gpus), 0, server.fixed_bytes)
    context = 0
    if server.reserves_context:
        of_request = context_bytes_per_request(
            shape, load.context_tokens, load.kv_bytes, uses_window=server.uses_window
        )
        # Heads are dealt out to the GPUs; a latent vector, and heads that are too few, every GPU has.
        sharing = 1 if shape.latent is not None else min(gpus, shape.key_value_heads)
        context = -(-of_request * load.requests // sharing)
    batch = max(server.batch_tokens, load.context_tokens if server.whole_prompts else 0)
    # One that only reads chooses no next word.
    activations = activation_bytes(shape, batch, load.requests if server.reserves_context else 0)
    return Memory(-(-weights_bytes // gpus), context, server.fixed_bytes + activations)


def longest_context_that_fits(
    room_bytes: int,
    weights_bytes: int,
    shape: Shape,
    load: RequestLoad,
    server: ServerMemory,
    *,
    gpus: int = 1,
) -> int | None:
    """In whole thousands of tokens (1,024), for as many requests; None where not even one such fits."""
    low, high = 0, load.context_tokens // _STEP
    while low < high:
        middle = (low + high + 1) // 2
        trial = RequestLoad(middle * _STEP, load.requests, load.kv_bytes)
        if memory_of(weights_bytes, shape, trial, server, gpus=gpus).total_bytes <= room_bytes:
            low = middle
        else:
            high = middle - 1
    return low * _STEP or None


_STEP = 1024


def in_words(memory: Memory, load: RequestLoad, *, has_context: bool = True) -> str:
    """`weights 15.2 GB + context 8,192 tokens × 16 requests 7.5 GB + server 1.3 GB = 24.0 GB`."""
    parts = [f"weights {gigabytes(memory.weights_bytes)}"]
    if has_context and memory.context_bytes:
        asked = f"{load.context_tokens:,} tokens × {load.requests} {'request' if load.requests == 1 else 'requests'}"
        parts.append(f"context {asked} {gigabytes(memory.context_bytes)}")
    parts.append(f"server {gigabytes(memory.server_bytes)}")
    return f"{' + '.join(parts)} = {gigabytes(memory.total_bytes)}"


def gigabytes(count: int) -> str:
    value = count / 1e9
    if value < 0.1:
        return f"{count / 1e6:.0f} MB"
    return f"{value:.1f} GB" if value < 1000 else f"{value:,.0f} GB"
