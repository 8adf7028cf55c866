"""The beginning of a GGUF file: what is read of it, and how little work a hostile one makes."""

import struct

import pytest

from moorage.models.gguf_header import HEADER_BYTES, config_of_header
from tests.models.little_work import little_work


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def number(name: str, value: int) -> bytes:
    return text(name) + struct.pack("<II", 4, value)


def listed(name: str, kind: int, count: int, values: bytes) -> bytes:
    return text(name) + struct.pack("<IIQ", 9, kind, count) + values


def header(*entries: bytes) -> bytes:
    architecture = text("general.architecture") + struct.pack("<I", 8) + text("llama")
    return b"GGUF" + struct.pack("<IQQ", 3, 1, 1 + len(entries)) + architecture + b"".join(entries)


def test_of_a_number_for_each_layer_the_largest_counts() -> None:
    found = config_of_header(
        header(
            listed("llama.attention.head_count_kv", 5, 4, struct.pack("<4i", 2, 8, -1, 4)),
            listed("names", 8, 2, text("a") + text("")),
            listed("halves", 6, 2, struct.pack("<2f", 0.5, 0.25)),
            listed("nothing", 0, 0, b""),
            number("llama.block_count", 32),
        )
    )
    assert found == {"model_type": "llama", "num_key_value_heads": 8, "num_hidden_layers": 32}


def test_what_stands_behind_a_long_list_is_found_without_walking_there() -> None:
    beginning = header(listed("x", 0, 120_000, b"\1" * 120_000), number("llama.block_count", 32))
    with little_work(1000):
        assert config_of_header(beginning)["num_hidden_layers"] == 32


@pytest.mark.parametrize("count", [10**9, 2**64 - 1])
@pytest.mark.parametrize("kind", [0, 7, 8, 12])
def test_a_list_without_end(kind: int, count: int) -> None:
    beginning = header(number("llama.block_count", 32), listed("x", kind, count, b""))
    with little_work():
        found = config_of_header(beginning.ljust(HEADER_BYTES, b"\0"))
    assert found["num_hidden_layers"] == 32


@pytest.mark.parametrize("kind", [9, 13])
def test_lists_of_what_cannot_be(kind: int) -> None:
    with pytest.raises(ValueError, match="holds a"):
        config_of_header(header(listed("x", kind, 1, b"\0" * 64)))
