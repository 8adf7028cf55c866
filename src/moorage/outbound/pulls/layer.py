"""A layer on its way from the registry to the engine: looked at before it is handed on, never held as a whole."""

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing

from moorage.kit.errors import ImageError
from moorage.outbound.pulls.check import LayerCheck, LayerRefusedError, UnpackedTooLargeError
from moorage.outbound.pulls.ticket import Pull
from moorage.outbound.pulls.unpacked import NotUnpackableError
from moorage.outbound.registry.sentences import PassingImageError
from moorage.outbound.transport import OpenAnswer, TransportError, TransportRefusedError

_CONTENT_RANGE = re.compile(r"bytes ([0-9]{1,18})-[0-9]{1,18}/(?:[0-9]{1,18}|\*)")


async def layer_bytes(pull: Pull, digest: str, first_byte: int) -> AsyncGenerator[bytes, None]:
    """From `first_byte` on. Raises an `ImageError` that the pull has noted by then."""
    check, sentences = pull.layers[digest], pull.session.sentences
    # Not from where the engine wants it but from where the check stands, if that is before: it sees every byte.
    start = min(first_byte, check.position)
    try:
        async with (
            pull.session.open(f"blobs/{digest}", start) as answer,
            aclosing(_checked(answer, check, _offset(pull, answer, check, start))) as chunks,
        ):
            async for offset, chunk in chunks:
                if wanted := chunk[max(0, first_byte - offset) :]:
                    yield wanted
        pull.troubles.pop(digest, None)
    except PassingImageError as exc:
        # A registry that has a bad minute is not the end of a pull of fifty gigabytes.
        raise pull.note(digest, exc) from exc
    except ImageError as exc:
        raise pull.refuse(exc) from exc
    except TransportRefusedError as exc:
        raise pull.refuse(sentences.broken_off(str(exc))) from exc
    except TransportError as exc:
        raise pull.note(digest, sentences.broken_off(str(exc))) from exc
    except LayerRefusedError as exc:
        raise pull.refuse(sentences.misbehaves(str(exc))) from exc
    except NotUnpackableError as exc:
        raise pull.refuse(sentences.unusable(str(exc))) from exc
    except UnpackedTooLargeError as exc:
        raise pull.refuse(sentences.too_large_unpacked(exc.max_bytes)) from exc


def _offset(pull: Pull, answer: OpenAnswer, check: LayerCheck, start: int) -> int:
    """Where the answer begins: a registry need not know about ranges."""
    if answer.status == 404:
        raise pull.session.sentences.part_missing()
    if refusal := pull.session.refusal(answer):
        raise refusal
    offset = 0
    if answer.status == 206:
        match = _CONTENT_RANGE.fullmatch(answer.headers.get("Content-Range", ""))
        offset = int(match[1]) if match else -1
        if offset != start:
            raise LayerRefusedError("another part of a layer than it was asked for")
    announced = answer.headers.get("Content-Length")
    if announced is not None and announced != str(check.size_bytes - offset):
        raise LayerRefusedError("a layer that does not have the size its manifest says")
    return offset


async def _checked(
    answer: OpenAnswer, check: LayerCheck, offset: int
) -> AsyncGenerator[tuple[int, bytes], None]:
    """The last bytes wait for the digest: an engine that did not get them has nothing to unpack."""
    held: tuple[int, bytes] | None = None
    async with aclosing(answer.chunks()) as chunks:
        async for chunk in chunks:
            await asyncio.to_thread(check.feed, offset, chunk)
            if held is not None:
                yield held
            held = offset, chunk
            offset += len(chunk)
    if offset != check.size_bytes:
        raise TransportError(f"{answer.origin} broke the connection off")
    check.finish()
    if held is not None:
        yield held
