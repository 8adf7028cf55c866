"""Control characters made visible. Pure.

Colours stay: an SGR sequence (ESC `[` digits `m`) can only change how text looks. Every other control character becomes
visible: the C0 ones and DEL as their Unicode pictures (`␛`, `␍`), the C1 ones, the line separators and the bidirectional
overrides as U+FFFD. So nothing moves a cursor, sets a title, opens a link, or makes a line look like another one. Tabs
stay. NUL is taken out before (Postgres has no room for it).
"""

import re

_UNSAFE_CHARACTER = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_COLOUR = re.compile(r"(\x1b\[[0-9;:]{0,64}m)")
_UNREADABLE = "\ufffd"


def visible(text: str) -> str:
    """With every control character but those of colours made visible."""
    if _UNSAFE_CHARACTER.search(text) is None:
        return text
    between_and_colours = _COLOUR.split(text)
    between_and_colours[::2] = [part.translate(_PICTURES) for part in between_and_colours[::2]]
    return "".join(between_and_colours)


def _picture(code: int) -> str:
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else _UNREADABLE


_PICTURES = {
    code: _picture(code) for code in range(0x206A) if _UNSAFE_CHARACTER.fullmatch(chr(code)) is not None
}
