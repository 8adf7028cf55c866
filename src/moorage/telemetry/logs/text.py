"""What a replica printed, made harmless: bytes in, text out. Pure.

- Bytes that are not UTF-8 become U+FFFD.
- Colours stay: an SGR sequence (ESC `[` digits `m`) can only change how text looks. Every other control
  character becomes visible: the C0 ones and DEL as their Unicode pictures (`␛`, `␍`), the C1 ones, the
  line separators and the bidirectional overrides as U+FFFD. So nothing moves a cursor, sets a title, opens a
  link, or makes a line look like another one. Tabs stay. NUL is taken out before (Postgres has no room for it).
- Values of secret settings become `••••••`, each line of a value by itself, if it has 8 characters or more:
  shorter ones are words such as `true` that would blacken half of the log.
- A line of more than 16 KiB is cut, with a mark that says how much is missing.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from moorage.telemetry.logs.cursor import RawLine

LINE_BYTES = 16 * 1024
MASK = "••••••"
MIN_SECRET_CHARACTERS = 8
_LONGEST_SECRET_BYTES = 32 * 1024
_UNSAFE = "\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069"
_UNSAFE_CHARACTER = re.compile(f"[{_UNSAFE}]")
_COLOUR_OR_UNSAFE = re.compile(rf"\x1b\[[0-9;:]{{0,64}}m|[{_UNSAFE}]")
_UNFINISHED_COLOUR = re.compile(r"\x1b(\[[0-9;:]*)?$")
_UNREADABLE = "\ufffd"
_PLAIN = bytes(range(0x20, 0x7F)) + b"\t\n"


@dataclass(frozen=True)
class Masker:
    """The secrets of one container, ready to be looked for."""

    pattern: re.Pattern[str] | None = None
    longest_bytes: int = 0
    """How much of a line beyond its limit has to be known, so that no secret is cut before it is found."""

    def hide(self, text: str) -> str:
        return text if self.pattern is None else self.pattern.sub(MASK, text)

    def end_of_secret_at(self, text: str, position: int) -> int:
        """`position`, or the end of the secret that it lies in the middle of."""
        if self.pattern is not None:
            for found in self.pattern.finditer(text):
                if found.start() < position < found.end():
                    return found.end()
        return position


def masker_of(secret_values: Iterable[str]) -> Masker:
    lines = (_visible(line) for value in secret_values for line in value.replace("\x00", "").splitlines())
    secrets = {line.strip() for line in lines if len(line.strip()) >= MIN_SECRET_CHARACTERS}
    if not secrets:
        return Masker()
    # The longest first: where one secret begins with another, the whole of it goes.
    longest_first = sorted(secrets, key=lambda secret: (-len(secret), secret))
    longest_bytes = max(len(secret.encode("utf-8", "replace")) for secret in secrets)
    return Masker(
        re.compile("|".join(re.escape(secret) for secret in longest_first)),
        min(longest_bytes, _LONGEST_SECRET_BYTES),
    )


def harmless_texts(lines: Sequence[RawLine], masker: Masker) -> list[str]:
    """Of whole batches at once, because nearly all lines are short and plain and then one look is enough for all."""
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
    text = _visible(head.decode("utf-8", "replace").removesuffix("\r"))
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


def _visible(text: str) -> str:
    if _UNSAFE_CHARACTER.search(text) is None:
        return text
    return _COLOUR_OR_UNSAFE.sub(lambda found: _picture(found.group()), text)


def _picture(found: str) -> str:
    code = ord(found[0])
    if len(found) > 1:
        return found
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else _UNREADABLE
