"""What a replica printed, made harmless: bytes in, text out. Pure.

- Bytes that are not UTF-8 become U+FFFD.
- Control characters become visible, those of colours aside (see `visible.py`).
- Values of secret settings become `••••••` (see `masking.py`).
- A line of more than 16 KiB is cut, with a mark that says how much is missing.
"""

import re
from collections.abc import Sequence

from moorage.telemetry.logs.cursor import RawLine
from moorage.telemetry.logs.masking import Masker
from moorage.telemetry.logs.visible import visible

LINE_BYTES = 16 * 1024
_UNFINISHED_COLOUR = re.compile(r"\x1b(\[[0-9;:]*)?$")
_PLAIN = bytes(range(0x20, 0x7F)) + b"\t\n"


def harmless_texts(lines: Sequence[RawLine], masker: Masker) -> list[str]:
    """Of whole batches at once, because nearly all lines are short and plain and then one look is enough for all.

    What Moorage says itself holds no secret, and none may hide it."""
    texts = _printed_texts(lines, masker)
    if None in [line.stream for line in lines]:
        return [
            line.head.decode() if line.stream is None else text
            for line, text in zip(lines, texts, strict=True)
        ]
    return texts


def _printed_texts(lines: Sequence[RawLine], masker: Masker) -> list[str]:
    heads = [line.head for line in lines]
    joined = b"\n".join(heads)
    is_plain = not joined.translate(None, _PLAIN) and joined.count(b"\n") == len(heads) - 1
    if is_plain and max(line.total_bytes for line in lines) <= LINE_BYTES // 4:
        # No secret contains a line end, so none is found across two lines.
        return masker.hide(joined.decode("ascii")).split("\n")
    return [harmless_text(line.head, line.total_bytes, masker) for line in lines]


def harmless_text(head: bytes, total_bytes: int, masker: Masker) -> str:
    """`head` is the line, or the beginning of a line of `total_bytes`: at least `LINE_BYTES` and the longest
    secret. Contains no NUL."""
    text = visible(head.decode("utf-8", "replace").removesuffix("\r"))
    beyond_head_bytes = total_bytes - len(head)
    if beyond_head_bytes == 0 and len(text) <= LINE_BYTES // 4:
        return masker.hide(text)
    encoded = text.encode()
    kept = encoded[:LINE_BYTES].decode("utf-8", "ignore")
    end = masker.end_of_secret_at(text, len(kept))
    cut_bytes = len(encoded) - len(text[:end].encode()) + beyond_head_bytes
    if cut_bytes == 0:
        return masker.hide(text)
    shown = _UNFINISHED_COLOUR.sub("", masker.hide(text[:end]))
    return f"{shown} … [{cut_bytes} bytes cut]"
