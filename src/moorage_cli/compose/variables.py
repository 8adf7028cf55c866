"""`$NAME` and `${NAME:-default}` in a compose file, as compose reads them. Pure."""

import re
from collections.abc import Callable, Mapping

from moorage_cli.errors import UsageError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OPERATORS = (":-", ":?", ":+", "-", "?", "+")
_DEEPEST = 20

Unset = Callable[[str], None]
"""Told the name of a variable that is not set and has no default."""


def interpolated(text: str, variables: Mapping[str, str], where: str, unset: Unset, depth: int = 0) -> str:
    if depth > _DEEPEST:
        raise UsageError(f"{where}: its variables are nested too deeply.")
    parts, position = [], 0
    while (dollar := text.find("$", position)) >= 0:
        parts.append(text[position:dollar])
        position = dollar + 1
        if text.startswith("$", position):
            parts.append("$")
            position += 1
        elif text.startswith("{", position):
            end = _end(text, position + 1, where)
            parts.append(_value(text[position + 1 : end], variables, where, unset, depth))
            position = end + 1
        elif match := _NAME.match(text, position):
            parts.append(_plain(match.group(), variables, unset))
            position = match.end()
        else:
            raise UsageError(f"{where}: {text!r} has a $ without a name. Write $$ for a plain $.")
    return "".join([*parts, text[position:]])


def _end(text: str, position: int, where: str) -> int:
    """Where the brace closes that is open here; within it others may open."""
    open_ = 1
    while position < len(text):
        if text.startswith("$$", position):
            position += 2
            continue
        if text.startswith("${", position):
            open_, position = open_ + 1, position + 2
            continue
        if text[position] == "}":
            open_ -= 1
            if not open_:
                return position
        position += 1
    raise UsageError(f"{where}: {text!r} has a ${{ that is not closed. Write $$ for a plain $.")


def _value(inside: str, variables: Mapping[str, str], where: str, unset: Unset, depth: int) -> str:
    match = _NAME.match(inside)
    name, rest = (match.group(), inside[match.end() :]) if match else ("", inside)
    operator = next((one for one in _OPERATORS if rest.startswith(one)), "")
    if not name or (rest and not operator):
        raise UsageError(f"{where}: ${{{inside}}} is not ${{NAME}} or ${{NAME:-default}}.")
    if not operator:
        return _plain(name, variables, unset)
    value, operand = variables.get(name), rest.removeprefix(operator)
    # With a colon, a variable that is empty counts as one that is not set.
    is_there = bool(value) if operator.startswith(":") else value is not None
    if operator.endswith("+"):
        return interpolated(operand, variables, where, unset, depth + 1) if is_there else ""
    if is_there:
        return value or ""
    replacement = interpolated(operand, variables, where, unset, depth + 1)
    if operator.endswith("?"):
        raise UsageError(f"{where} needs the variable {name}: {replacement or 'it is not set'}.")
    return replacement


def _plain(name: str, variables: Mapping[str, str], unset: Unset) -> str:
    if name not in variables:
        unset(name)
    return variables.get(name, "")
