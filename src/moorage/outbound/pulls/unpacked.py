"""How large a layer is once unpacked, counted while its bytes pass. Pure.

A hundred megabytes of gzip can be a hundred gigabytes on the disk, and nothing that a manifest says tells. So what the
engine will unpack is unpacked here too, a little at a time and into nothing. The kinds are those that engines know, told
apart as they do, by the first bytes and not by what the manifest calls it.
"""

import bz2
import lzma
import zlib
from collections.abc import Iterator
from typing import Protocol

import zstandard

_OUTPUT_BYTES = 1 << 20
_ZSTD_INPUT_BYTES = 1 << 10
"""Its decoder has no limit for what it returns; 4 bytes become 128 KiB at the most."""
_XZ_MEMORY_BYTES = 1 << 28
_MAGIC_BYTES = 6


class NotUnpackableError(ValueError):
    pass


class _Decoder(Protocol):
    def decode(self, data: bytes) -> Iterator[int]:
        """The sizes of what comes out, piece by piece."""
        ...


class UnpackedSize:
    def __init__(self) -> None:
        self._first = b""
        self._decoder: _Decoder | None = None

    def feed(self, data: bytes) -> Iterator[int]:
        """The sizes of the pieces that come out for these bytes. Raises `NotUnpackableError`."""
        if self._decoder is None:
            self._first += data
            if len(self._first) < _MAGIC_BYTES:
                return
            data, self._decoder = self._first, _decoder_for(self._first)
        try:
            yield from self._decoder.decode(data)
        except (zlib.error, lzma.LZMAError, zstandard.ZstdError, OSError, EOFError) as exc:
            raise NotUnpackableError("has a layer that is not compressed as it should be") from exc


def _decoder_for(first: bytes) -> _Decoder:
    if first.startswith(_Gzip.MAGIC):
        return _Gzip()
    if first.startswith(b"BZh"):
        return _Blockwise(bz2.BZ2Decompressor, b"BZh")
    if first.startswith(b"\xfd7zXZ\x00"):
        return _Blockwise(_xz, b"\xfd7zXZ\x00")
    if first.startswith(b"\x28\xb5\x2f\xfd") or (first[1:4] == b"\x2a\x4d\x18" and first[0] >> 4 == 5):
        return _Zstd()
    return _Plain()


class _Plain:
    def decode(self, data: bytes) -> Iterator[int]:
        yield len(data)


class _Gzip:
    """Members one after the other; what follows the last and is none is ignored, as unpackers do."""

    MAGIC = b"\x1f\x8b\x08"

    def __init__(self) -> None:
        self._member = zlib.decompressobj(wbits=31)
        self._between = b""
        self._ended = False

    def decode(self, data: bytes) -> Iterator[int]:
        while data and not self._ended:
            if self._member.eof:
                self._between += data
                if len(self._between) < len(self.MAGIC):
                    return
                data, self._between = self._between, b""
                self._ended = not data.startswith(self.MAGIC)
                self._member = zlib.decompressobj(wbits=31) if not self._ended else self._member
                continue
            yield len(self._member.decompress(data, _OUTPUT_BYTES))
            data = self._member.unused_data if self._member.eof else self._member.unconsumed_tail


class _BlockDecoder(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


class _Decoders(Protocol):
    def __call__(self) -> _BlockDecoder: ...


class _Blockwise:
    """bzip2 and xz: decoders that keep their input themselves."""

    def __init__(self, new: _Decoders, magic: bytes) -> None:
        self._new = new
        self._magic = magic
        self._decoder = new()
        self._between = b""
        self._ended = False

    def decode(self, data: bytes) -> Iterator[int]:
        while not self._ended:
            if self._decoder.eof:
                self._between += data
                if len(self._between) < len(self._magic):
                    return
                data, self._between = self._between, b""
                self._ended = not data.startswith(self._magic)
                self._decoder = self._new() if not self._ended else self._decoder
                continue
            yield len(self._decoder.decompress(data, _OUTPUT_BYTES))
            if self._decoder.eof:
                data = self._decoder.unused_data
            elif self._decoder.needs_input:
                return
            else:
                data = b""


class _Zstd:
    def __init__(self) -> None:
        self._decoder = zstandard.ZstdDecompressor().decompressobj(read_across_frames=True)

    def decode(self, data: bytes) -> Iterator[int]:
        for start in range(0, len(data), _ZSTD_INPUT_BYTES):
            yield len(self._decoder.decompress(data[start : start + _ZSTD_INPUT_BYTES]))


def _xz() -> lzma.LZMADecompressor:
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY_BYTES)
