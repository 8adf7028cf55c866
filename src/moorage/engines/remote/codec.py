"""The wire format of values: the dataclasses of `engines/base.py` as JSON, and back. Pure.

Types are read from the dataclasses and from the signatures of `Engine` themselves, so a field that is added there is on the
wire at once: whoever does not know it ignores it, and whoever misses it takes its default. What arrives was written by a
stranger. Every value has a type, a range, a length; what does not fit is refused with the place where it stands.

There are two sets of rules. Requests are ours: bounded, and exact to the last character, since they hold environments.
Answers are a machine's: their text is cleaned of whatever cannot be seen, because people will read it.
"""

import json
import math
import re
import types
from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from functools import cache
from typing import Any, NewType, NoReturn, Union, get_args, get_origin, get_type_hints

from moorage.kit.json_bounds import excess_of

_ID = re.compile(r"[a-z]{2,8}_[a-z2-7]{20}")
_SHOWN_CHARACTERS = 40
_MOST_FRACTION = 1e15
_WHOLE_BY_NAME: Mapping[str, tuple[int, int]] = {
    "port": (1, 65535),
    "host_port": (1, 65535),
    "slot": (0, 2**31 - 1),
    "generation": (0, 2**31 - 1),
    "cpu_millis": (0, 2**31 - 1),
    "vcpu_millis": (0, 2**31 - 1),
    "exit_code": (-(2**31), 2**31 - 1),
}
"""Where it is less than any whole number from 0 on: what a port is, and what the database has columns for."""


@dataclass(frozen=True)
class Rules:
    longest_text: int
    most_items: int
    most_whole: int
    cleans_text: bool


REQUESTS = Rules(longest_text=2**20, most_items=10_000, most_whole=2**62, cleans_text=False)
ANSWERS = Rules(longest_text=4096, most_items=2_500, most_whole=2**50, cleans_text=True)
"""The sum of as many numbers as an answer may hold fits into a column of the database: what many machines said is written together."""

_MOST_VALUES = 200_000
_MOST_BARE_BYTES = 8 * 2**20


class WireError(ValueError):
    """The message is a clause about what was sent: `gpus[3].model must be text`."""


def to_bytes(value: Any) -> bytes:
    return json.dumps(encode(value), separators=(",", ":"), allow_nan=False).encode()


def parse(text: bytes) -> Any:
    """JSON, measured before it is parsed."""
    if excess := excess_of(text, _MOST_VALUES, _MOST_BARE_BYTES):
        raise WireError(f"what was sent {excess}")
    try:
        return json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as exc:
        raise WireError("what was sent must be JSON") from exc


def encode(value: Any) -> Any:
    if value is None or isinstance(value, bool | str | int | float):
        return value.value if isinstance(value, Enum) else value
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {key: encode(item) for key, item in value.items()}
    if is_dataclass(value):
        return {one.name: encode(getattr(value, one.name)) for one in fields(value)}
    assert isinstance(value, Collection), f"{type(value)} has no place on the wire"
    return [encode(item) for item in value]


def decode(kind: Any, value: Any, rules: Rules, at: str = "it") -> Any:
    """`kind` is a type as it is written in a signature. Raises `WireError`."""
    if kind is Any:
        return value
    if isinstance(kind, NewType):
        return _identifier(value, at)
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _optional(kind, value, rules, at)
    if origin is not None:
        return _collection(origin, get_args(kind), value, rules, at)
    if kind in (None, types.NoneType):
        return None if value is None else _refuse(at, "must be null")
    if is_dataclass(kind):
        return _object(kind, value, rules, at)
    if issubclass(kind, Enum):
        return _one_of(kind, value, at)
    return _plain(kind, value, rules, at)


def cleaned(text: str) -> str:
    """Without what cannot be seen, turns lines around or ends up in a terminal; and without halves of characters."""
    if text.isprintable():
        return text
    return "".join(
        sign if sign.isprintable() or sign in "\n\t" else "\N{REPLACEMENT CHARACTER}" for sign in text
    )


def _plain(kind: Any, value: Any, rules: Rules, at: str) -> Any:
    if kind is bool:
        return value if isinstance(value, bool) else _refuse(at, "must be true or false")
    if kind is str:
        return _text(value, rules, at)
    if kind is int:
        return _whole(value, rules, at)
    if kind is float:
        return _fraction(value, at)
    assert kind is datetime, f"{kind} has no place on the wire"
    return _time(value, at)


def _object(kind: Any, value: Any, rules: Rules, at: str) -> Any:
    if not isinstance(value, dict):
        _refuse(at, "must be an object")
    hints, given = _hints(kind), {}
    for one in fields(kind):
        if one.name in value:
            given[one.name] = decode(hints[one.name], value[one.name], rules, f"{at}.{one.name}")
        elif one.default is MISSING and one.default_factory is MISSING:
            _refuse(f"{at}.{one.name}", "is missing")
    return kind(**given)


def _collection(origin: Any, of: tuple[Any, ...], value: Any, rules: Rules, at: str) -> Any:
    if issubclass(origin, Mapping):
        if not isinstance(value, dict):
            _refuse(at, "must be an object")
        _require_few(value, rules, at)
        return {
            decode(of[0], key, rules, f"{at}'s names"): decode(of[1], item, rules, f"{at}[{_shown(key)}]")
            for key, item in value.items()
        }
    assert issubclass(origin, Collection), f"{origin} has no place on the wire"
    if not isinstance(value, list):
        _refuse(at, "must be a list")
    _require_few(value, rules, at)
    items = (decode(of[0], item, rules, f"{at}[{index}]") for index, item in enumerate(value))
    return list(items) if origin in (list, Sequence) else tuple(items)


def _optional(kind: Any, value: Any, rules: Rules, at: str) -> Any:
    (present,) = (one for one in get_args(kind) if one is not types.NoneType)
    return None if value is None else decode(present, value, rules, at)


def _one_of(kind: Any, value: Any, at: str) -> Any:
    try:
        return kind(value)
    except ValueError:
        _refuse(at, f"must be one of {', '.join(one.value for one in kind)}, and is {_shown(value)}")


def _identifier(value: Any, at: str) -> Any:
    return value if isinstance(value, str) and _ID.fullmatch(value) else _refuse(at, "must be an identifier")


def _text(value: Any, rules: Rules, at: str) -> str:
    if not isinstance(value, str):
        _refuse(at, "must be text")
    if len(value) > rules.longest_text:
        _refuse(at, f"must not have more than {rules.longest_text} characters")
    return cleaned(value) if rules.cleans_text else value


def _whole(value: Any, rules: Rules, at: str) -> int:
    least, most = _WHOLE_BY_NAME.get(at.rpartition(".")[2], (0, rules.most_whole))
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        _refuse(at, f"must be a whole number from {least} to {most}")
    return value


def _fraction(value: Any, at: str) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not -_MOST_FRACTION <= value <= _MOST_FRACTION or math.isnan(value):
        _refuse(at, "must be a number of ordinary size")
    return float(value)


def _time(value: Any, at: str) -> datetime:
    try:
        time = datetime.fromisoformat(value)
        return time.astimezone(UTC) if time.tzinfo is not None else _refuse(at, "must have a time zone")
    except (TypeError, ValueError, OverflowError) as exc:
        if isinstance(exc, WireError):
            raise
        _refuse(at, "must be a time")


def _require_few(value: Collection[Any], rules: Rules, at: str) -> None:
    if len(value) > rules.most_items:
        _refuse(at, f"must not have more than {rules.most_items} entries")


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _shown(value: Any) -> str:
    return ascii(value)[:_SHOWN_CHARACTERS]


def _no_number(name: str) -> NoReturn:
    raise WireError(f"{name} is no number")


def _refuse(at: str, what: str) -> NoReturn:
    raise WireError(f"{at} {what}")
