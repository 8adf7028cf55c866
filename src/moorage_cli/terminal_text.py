"""Text from elsewhere, made harmless for a terminal. Pure.

A log line or a model's answer may hold escape sequences that move the cursor, change the title, or ask the
terminal to type something back. Colours (SGR sequences) are all that passes.
"""

import re

_SGR = re.compile(r"\x1b\[[0-9;:]{0,64}m")
_RESET = "\x1b[0m"
# C0, DEL, C1, and the characters that change the direction of what is written around them.
_UNSAFE = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_UNSAFE_BUT_NEWLINE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def safe_line(text: str) -> str:
    """One line in which nothing but colours has an effect, and those end with the line."""
    text = text.rstrip("\r\n")
    parts, position, coloured = [], 0, False
    for match in _SGR.finditer(text):
        parts += [plain(text[position : match.start()]), match.group()]
        position, coloured = match.end(), True
    parts.append(plain(text[position:]))
    return "".join(parts) + (_RESET if coloured else "")


def uncoloured(text: str) -> str:
    """One line for where nobody wants colours: a file, or whoever set NO_COLOR."""
    return plain(_SGR.sub("", text.rstrip("\r\n")))


def plain(text: str) -> str:
    """Without any effect at all: control characters become visible signs."""
    return _UNSAFE.sub(_picture, text)


def plain_paragraphs(text: str) -> str:
    """Like `plain`, but line ends stay."""
    return _UNSAFE_BUT_NEWLINE.sub(_picture, text)


def _picture(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else "\ufffd"
