import bz2
import gzip
import hashlib
import lzma
import random
from collections.abc import Callable
from functools import partial

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from moorage.outbound.pulls.check import LayerCheck, LayerRefusedError, UnpackedBudget, UnpackedTooLargeError
from moorage.outbound.pulls.unpacked import NotUnpackableError, UnpackedSize
from moorage.outbound.registry.credentials import RegistryCredentials
from moorage.outbound.registry.sentences import ImageName, Sentences

_PLAIN = b"".join(random.Random(7).randbytes(1000) + bytes(3000) for _ in range(50))
_PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": partial(lzma.compress, preset=0),
    "zstd": zstandard.compress,
}


def unpacked_bytes(data: bytes, chunk_bytes: int = 1 << 20) -> int:
    size = UnpackedSize()
    return sum(
        piece
        for start in range(0, len(data), chunk_bytes)
        for piece in size.feed(data[start : start + chunk_bytes])
    )


def check_of(data: bytes, max_unpacked_bytes: int = 1 << 30) -> LayerCheck:
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    return LayerCheck(digest, len(data), UnpackedBudget(max_unpacked_bytes))


@pytest.mark.parametrize("kind", _PACKERS)
@given(chunk_bytes=st.integers(1, 5000), members=st.integers(1, 3))
def test_counts_what_is_unpacked(kind: str, chunk_bytes: int, members: int) -> None:
    """However it is cut, and also where several archives follow each other, which unpackers read as one."""
    packed = _PACKERS[kind](_PLAIN[:20_000]) * members
    assert unpacked_bytes(packed, chunk_bytes) == 20_000 * members


@pytest.mark.parametrize("kind", ["gzip", "bzip2", "xz", "zstd"])
def test_a_bomb_is_noticed_long_before_it_is_unpacked(kind: str) -> None:
    packed = _PACKERS[kind](bytes(30 << 20))
    assert len(packed) < 1 << 20
    check = check_of(packed, max_unpacked_bytes=10 << 20)
    with pytest.raises(UnpackedTooLargeError):
        check.feed(0, packed)


@pytest.mark.parametrize("kind", ["gzip", "bzip2", "xz"])
def test_what_follows_the_last_archive_is_ignored_as_unpackers_do(kind: str) -> None:
    for trailer in (b"\0" * 512, b"no archive"):
        assert unpacked_bytes(_PACKERS[kind](_PLAIN) + trailer) == len(_PLAIN)


@pytest.mark.parametrize("kind", ["gzip", "bzip2", "xz", "zstd"])
def test_broken_archive(kind: str) -> None:
    packed = _PACKERS[kind](_PLAIN)
    with pytest.raises(NotUnpackableError):
        unpacked_bytes(packed[: len(packed) // 2] + b"\xff" * 2_000_000)


def test_short_layer() -> None:
    assert unpacked_bytes(b"") == 0
    check = check_of(b"abc")
    check.feed(0, b"abc")
    check.finish()


def test_budget_is_for_all_layers_together() -> None:
    budget = UnpackedBudget(100)
    first, second = (LayerCheck("sha256:x", 60, budget) for _ in range(2))
    first.feed(0, bytes(60))
    with pytest.raises(UnpackedTooLargeError):
        second.feed(0, bytes(60))


@given(st.data())
def test_goes_on_where_it_stopped(data: st.DataObject) -> None:
    """Streams that break off and begin again, also before where they broke off."""
    check = check_of(_PLAIN)
    while check.position < len(_PLAIN):
        start = data.draw(st.integers(0, check.position))
        end = data.draw(st.integers(max(start, check.position), len(_PLAIN)))
        end = max(end, check.position + 20_000)
        check.feed(start, _PLAIN[start:end])
    check.finish()


def test_longer_or_other_than_it_should_be() -> None:
    check = check_of(b"x" * 100)
    with pytest.raises(LayerRefusedError, match="longer"):
        check.feed(0, b"x" * 101)
    check.feed(0, b"y" * 100)
    with pytest.raises(LayerRefusedError, match="digest"):
        check.finish()


@pytest.mark.parametrize(
    ("size_bytes", "limit_bytes", "says"),
    [
        (100 * 2**30 + 1, 100 * 2**30, "has layers of 100.1 GiB; an image may have 100 GiB here"),
        (3 * 2**40, 2**30, "has layers of 3 TiB; an image may have 1 GiB here"),
        (150, 100, "has layers of 150 bytes; an image may have 100 bytes here"),
    ],
)
def test_too_large(size_bytes: int, limit_bytes: int, says: str) -> None:
    sentences = Sentences(ImageName("ghcr.io", "acme/chat", "1"), RegistryCredentials("ann", "x"))
    error = sentences.too_large(size_bytes, limit_bytes)
    assert (error.code, says in error.message) == ("image_too_large", True)
