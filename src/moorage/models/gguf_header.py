"""The beginning of a GGUF file, which says what `config.json` says of other models. Pure.

Layout: magic, version, number of tensors, number of entries; then the entries, each a name, a type and a value. Those about the model
come before the tokenizer's lists, which are megabytes: reading stops there, or when what was given ends.
"""

import struct
from collections.abc import Mapping

from moorage.models.shape import Config

HEADER_BYTES = 128 * 1024
"""More than the entries about the model take in any file that was looked at: a chat template is the longest of them."""
_MAGIC = b"GGUF"
_MOST_ENTRIES = 4096
_LENGTH_BYTES = 8
_NUMBERS: Mapping[int, str] = {
    0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"
}  # fmt: skip
_FRACTIONS = ("<f", "<d")
_TEXT, _LIST = 8, 9
_MOST_NUMBERS = 4096
"""Of a list that are looked at: models have fewer layers."""
_NAMES = {
    "block_count": "num_hidden_layers",
    "embedding_length": "hidden_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "feed_forward_length": "intermediate_size",
    "context_length": "max_position_embeddings",
    "attention.sliding_window": "sliding_window",
    "attention.kv_lora_rank": "kv_lora_rank",
    "rope.dimension_count": "qk_rope_head_dim",
    "vocab_size": "vocab_size",
}
"""From GGUF's names to those of `config.json`."""


class _EndError(Exception):
    """What was given ends here."""


def config_of_header(beginning: bytes) -> Config:
    """As `config.json` would say it. Raises `ValueError` where this is no GGUF file."""
    if beginning[:4] != _MAGIC or len(beginning) < 24:
        raise ValueError("is not a GGUF file")
    entries = _entries(beginning)
    architecture = entries.get("general.architecture")
    if not isinstance(architecture, str):
        raise ValueError("does not say its architecture")
    found: dict[str, object] = {"model_type": architecture[:64]}
    for name, meaning in _NAMES.items():
        value = entries.get(f"{architecture}.{name}")
        if isinstance(value, int) and not isinstance(value, bool):
            found[meaning] = value
    if "kv_lora_rank" not in found:
        found.pop("qk_rope_head_dim", None)
    return found


def _entries(data: bytes) -> dict[str, object]:
    _, _, count = struct.unpack_from("<IQQ", data, 4)
    at = 24
    found: dict[str, object] = {}
    try:
        for _ in range(min(count, _MOST_ENTRIES)):
            name, at = _text(data, at)
            if name.startswith("tokenizer."):
                break
            kind, at = _number(data, at, "<I")
            value, at = _value(data, at, int(kind))
            found[name] = value
    except _EndError:
        pass  # What came before it is whole.
    return found


def _value(data: bytes, at: int, kind: int) -> tuple[object, int]:
    if kind == _TEXT:
        return _text(data, at)
    if kind == _LIST:
        return _largest_of_list(data, at)
    if kind not in _NUMBERS:
        raise ValueError("holds a value of a type that does not exist")
    return _number(data, at, _NUMBERS[kind])


def _largest_of_list(data: bytes, at: int) -> tuple[object, int]:
    """Some models have a number for each layer; the largest stands for all of them."""
    kind, at = _number(data, at, "<I")
    count, at = _number(data, at, "<Q")
    if int(kind) == _LIST:
        raise ValueError("holds a list of lists")
    if int(kind) == _TEXT:
        for _ in range(int(count)):
            at = _end_of_text(data, at)
        return None, at
    if int(kind) not in _NUMBERS:
        raise ValueError("holds a value of a type that does not exist")
    # A list is as long as its writer likes, so what is behind it is found by its width and not by walking there.
    layout = _NUMBERS[int(kind)]
    end = at + int(count) * struct.calcsize(layout)
    if end > len(data):
        raise _EndError
    first = struct.unpack_from(f"<{min(int(count), _MOST_NUMBERS)}{layout[1]}", data, at)
    return None if layout in _FRACTIONS else max(first, default=None), end


def _text(data: bytes, at: int) -> tuple[str, int]:
    end = _end_of_text(data, at)
    return data[at + _LENGTH_BYTES : end].decode(errors="replace"), end


def _end_of_text(data: bytes, at: int) -> int:
    length, at = _number(data, at, "<Q")
    if at + int(length) > len(data):
        raise _EndError
    return at + int(length)


def _number(data: bytes, at: int, layout: str) -> tuple[int | float, int]:
    width = struct.calcsize(layout)
    if at + width > len(data):
        raise _EndError
    return struct.unpack_from(layout, data, at)[0], at + width
