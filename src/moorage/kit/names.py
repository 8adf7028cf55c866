"""The one rule for what people may call their things: readable, and harmless wherever it is shown. Pure."""

import re

NAME_RULE = (
    "must be 1 to 63 letters, digits, spaces, dots, hyphens or underscores, beginning with a letter or digit"
)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,62}")


def checked_name(name: str) -> str:
    """Raises `ValueError` with the rule."""
    if not _NAME.fullmatch(name):
        raise ValueError(NAME_RULE)
    return name
