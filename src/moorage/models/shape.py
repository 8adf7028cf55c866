"""The sizes of a model as its own `config.json` states them, under one name each. Pure.

Families spell the same thing in different ways (`num_hidden_layers`, `n_layer`), leave out what is usual (the number of key and
value heads) or nest it (`text_config` of a model that also sees). Nothing is invented here: what cannot be read is an error with a
sentence, and the caller falls back to what the hub itself counts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Config = Mapping[str, Any]
_LARGEST = 1 << 40
"""Beyond it a number of a configuration is no size, but a way to keep us busy."""
_LAYERS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "decoder_layers")
_HIDDEN = ("hidden_size", "n_embd", "d_model", "dim", "hidden_dim")
_HEADS = ("num_attention_heads", "n_head", "num_heads", "n_heads", "decoder_attention_heads")
_CONTEXT = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "max_target_positions")
MOST_LAYERS = 1024
"""Parameters are counted layer by layer. The deepest models that are served have fewer than 200."""


_LEFT_OUT: Mapping[str, Config] = {
    "gemma3_text": {
        "hidden_size": 2304,
        "intermediate_size": 9216,
        "num_hidden_layers": 26,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "vocab_size": 262_208,
        "max_position_embeddings": 131_072,
        "sliding_window": 4096,
    },
    "llama": {
        "hidden_size": 4096,
        "intermediate_size": 11_008,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "vocab_size": 32_000,
        "max_position_embeddings": 2048,
    },
    "mistral": {
        "hidden_size": 4096,
        "intermediate_size": 14_336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 32_000,
        "max_position_embeddings": 131_072,
    },
}
"""What `transformers` takes where a nested configuration says nothing: models that see are published with the differences only."""


class UnknownShapeError(ValueError):
    """The configuration lacks what is needed, or holds something else in its place. The message is a clause about it."""


@dataclass(frozen=True)
class LatentAttention:
    """DeepSeek's: one compressed vector for all heads, and a small part with the position."""

    rank: int
    position_size: int


@dataclass(frozen=True)
class Shape:
    """What the memory of a request depends on."""

    model_type: str
    layers: int
    hidden: int
    heads: int
    key_value_heads: int
    head_size: int
    vocabulary: int
    intermediate: int
    longest_context: int | None
    window: int | None = None
    """How far back the layers with a sliding window look."""
    windowed_layers: int = 0
    latent: LatentAttention | None = None
    linear_layers: int = 0
    """Layers that keep a state of a fixed size instead of all tokens."""
    encoder_positions: int = 0
    """Of a model that listens: what its decoder also attends to, for each request."""


def text_config(config: Config) -> Config:
    """The part that writes, of a model that also sees or hears."""
    for name in ("text_config", "llm_config", "language_config"):
        nested = config.get(name)
        if isinstance(nested, Mapping):
            return nested
    thinker = config.get("thinker_config")
    return text_config(thinker) if isinstance(thinker, Mapping) else config


def read_shape(config: Config) -> Shape:
    text = text_config(config)
    model_type = (word(text, "model_type") or word(config, "model_type"))[:64]
    if text is not config:
        text = {**_LEFT_OUT.get(model_type, {}), **text}
    layers = layers_of(text, *_LAYERS)
    hidden, heads = size(text, *_HIDDEN), size(text, *_HEADS)
    head_size = size_or(text, hidden // heads, "head_dim", "kv_channels")
    window, windowed = _window(text, model_type, layers)
    linear = _linear_layers(text, layers)
    return Shape(
        model_type=model_type,
        layers=layers,
        hidden=hidden,
        heads=heads,
        key_value_heads=key_value_heads(text, model_type, heads),
        head_size=head_size,
        vocabulary=size_or(text, 0, "vocab_size"),
        intermediate=size_or(text, 4 * hidden, "intermediate_size", "n_inner", "ffn_dim", "decoder_ffn_dim"),
        longest_context=size_or(text, 0, *_CONTEXT) or None,
        window=window,
        windowed_layers=windowed,
        latent=_latent(text),
        linear_layers=linear,
        encoder_positions=size_or(text, 0, "max_source_positions"),
    )


def size(config: Config, *names: str) -> int:
    for name in names:
        value = config.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= _LARGEST:
            raise UnknownShapeError(f"has a {name} that is not a size")
        return value
    raise UnknownShapeError(f"does not say its {names[0]}")


def word(config: Config, *names: str) -> str:
    """Of text alone: what else stands in its place may be as long as the file, and takes as long to be written out."""
    return next((value for name in names if isinstance(value := config.get(name), str) and value), "")


def layers_of(config: Config, *names: str) -> int:
    """To be read with nothing else: whoever counts in a loop over them must not be kept busy by a number in somebody's file."""
    layers = size(config, *names)
    if layers > MOST_LAYERS:
        raise UnknownShapeError(f"has {layers} layers")
    return layers


def size_or(config: Config, usual: int, *names: str) -> int:
    """0 counts as not said."""
    return size(config, *names) if any(config.get(name) for name in names) else usual


def key_value_heads(config: Config, model_type: str, heads: int) -> int:
    if model_type in ("falcon", "RefinedWeb", "RefinedWebModel"):
        if config.get("new_decoder_architecture"):
            return size_or(config, heads, "num_kv_heads", "n_head_kv")
        return 1 if config.get("multi_query", True) else heads
    if model_type == "gpt_bigcode":
        return 1 if config.get("multi_query", True) else heads
    return size_or(config, heads, "num_key_value_heads", "num_kv_heads", "multi_query_group_num")


def _latent(config: Config) -> LatentAttention | None:
    if not config.get("kv_lora_rank"):
        return None
    return LatentAttention(size(config, "kv_lora_rank"), size(config, "qk_rope_head_dim"))


def _window(config: Config, model_type: str, layers: int) -> tuple[int | None, int]:
    """The window, and how many layers have it."""
    window = size_or(config, 0, "sliding_window")
    if not window or config.get("use_sliding_window") is False:
        return None, 0
    types = config.get("layer_types")
    if isinstance(types, list) and len(types) == layers:
        return window, sum(kind == "sliding_attention" for kind in types)
    pattern = size_or(config, 0, "sliding_window_pattern", "_sliding_window_pattern")
    if model_type == "gemma2":
        pattern = pattern or 2
    if model_type in ("gemma3", "gemma3_text"):
        pattern = pattern or 6
    if model_type == "gpt_oss":
        pattern = pattern or 2
    if model_type == "cohere2":
        pattern = pattern or 4
    # One of `pattern` layers looks at everything; without a pattern, all have the window.
    return window, layers - layers // pattern if pattern else layers


def _linear_layers(config: Config, layers: int) -> int:
    types = config.get("layer_types")
    if isinstance(types, list) and len(types) == layers:
        return sum(kind == "linear_attention" for kind in types)
    every = size_or(config, 0, "full_attention_interval")
    return layers - layers // every if every else 0
