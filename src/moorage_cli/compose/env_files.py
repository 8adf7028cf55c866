"""Files of variables as compose (`.env`, `env_file`) and as `docker run --env-file` read them. Pure, but for reading."""

import re
from collections.abc import Mapping
from pathlib import Path

from moorage_cli.compose.variables import Unset, interpolated
from moorage_cli.errors import UsageError

_NAME = re.compile(r"[ \t]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_.-]*)[ \t]*(=|:[ \t]|(?=\n|$))[ \t]*")
_NOTHING = re.compile(r"[ \t]*(?:#[^\n]*)?(?:\n|$)")
_QUOTED = {"'": re.compile(r"'([^']*)'"), '"': re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)}
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


def read_text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as exc:
        raise UsageError(f"Cannot read {path}: {getattr(exc, 'strerror', None) or exc}.") from exc


def variables_of(text: str, where: str, outer: Mapping[str, str], unset: Unset) -> dict[str, str]:
    """`KEY=VALUE`, with quotes, comments and variables; a bare `KEY` takes what is set outside, if it is."""
    found: dict[str, str] = {}
    text, position = text.replace("\r\n", "\n"), 0
    while position < len(text):
        if nothing := _NOTHING.match(text, position):
            position = nothing.end()
            continue
        line = f"{where}, line {text.count(chr(10), 0, position) + 1}"
        named = _NAME.match(text, position)
        if named is None:
            raise UsageError(f"{line}: write KEY=VALUE.")
        name, position = named[1], named.end()
        if not named[2]:
            if name in outer:
                found[name] = outer[name]
            continue
        known = {**found, **outer}
        quote = _QUOTED.get(text[position : position + 1])
        if quote is None:
            end = text.find("\n", position)
            end = len(text) if end < 0 else end
            value = re.split(r"(?:^|\s)#", text[position:end])[0].strip()
            found[name], position = interpolated(value, known, line, unset), end
            continue
        match = quote.match(text, position)
        rest = _NOTHING.match(text, match.end()) if match else None
        if match is None or rest is None:
            raise UsageError(f"{line}: a quote is not closed, or text follows it.")
        is_plain = text[position] == "'"
        found[name] = match[1] if is_plain else _unescaped(match[1], known, line, unset)
        position = rest.end()
    return found


def raw_variables_of(text: str, where: str, outer: Mapping[str, str]) -> dict[str, str]:
    """What `docker run` takes: everything behind the `=` as it is, quotes included."""
    found = {}
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.lstrip()
        if not line or line.startswith("#"):
            continue
        name, equals, value = line.partition("=")
        if not name or re.search(r"\s", name):
            raise UsageError(f"{where}, line {number}: write KEY=VALUE, without blanks in KEY.")
        if equals:
            found[name] = value
        elif name in outer:
            found[name] = outer[name]
    return found


def _unescaped(text: str, known: Mapping[str, str], where: str, unset: Unset) -> str:
    def plain(match: re.Match[str]) -> str:
        if match[1] == "$":
            return "$$"
        return _ESCAPES.get(match[1], match[1])

    return interpolated(re.sub(r"\\(.)", plain, text, flags=re.DOTALL), known, where, unset)
