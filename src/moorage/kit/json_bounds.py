"""How much a JSON text holds, found out before it is parsed. Pure.

A parser makes an object of every few bytes, and a checker of fields an error of each: two megabytes of `[],[],` take
seconds. So the text is measured first, with searches that run at the speed of memory.
"""

MOST_VALUES = 2000
"""Of one document: more than the 200 variables of an environment, or the 1000 projects of a member."""
MOST_LEVELS = 32
MOST_BARE_BYTES = 64 * 2**10
"""Outside of strings: numbers, brackets and blanks."""

_NO_BRACKETS = bytes(sign for sign in range(256) if sign not in b"[]{}")


def excess_of(
    text: bytes, most_values: int = MOST_VALUES, most_bare_bytes: int = MOST_BARE_BYTES
) -> str | None:
    """What is too much about it, as the end of a sentence about the body; None where it may be parsed. A text that is
    no JSON may pass: the parser says so."""
    if b"\0" in text:
        return "must be JSON in UTF-8"  # the other encodings have such a byte beside every bracket
    unescaped = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    # A value has at most a name and a string.
    if unescaped.count(b'"') > 4 * (most_values + 1):
        return _too_many(most_values)
    bare = b"".join(unescaped.split(b'"')[::2])
    if len(bare) > most_bare_bytes:
        return f"must not have more than {most_bare_bytes} bytes outside of strings"
    if sum(bare.count(sign) for sign in (b",", b"[", b"{")) > most_values:
        return _too_many(most_values)
    if sum(bare.count(sign) for sign in (b"]", b"}")) > most_values:
        return None  # more ends than beginnings
    return f"must not be nested deeper than {MOST_LEVELS}" if _levels(bare) > MOST_LEVELS else None


def _too_many(most_values: int) -> str:
    return f"must not have more than {most_values} values"


def _levels(bare: bytes) -> int:
    level = deepest = 0
    for sign in bare.translate(None, _NO_BRACKETS):
        if sign in b"[{":
            level += 1
            deepest = max(deepest, level)
        elif sign in b"]}":
            level -= 1
    return deepest
