"""Server-sent events, read from lines. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Event:
    data: str
    kind: str = "message"
    id: str | None = None


def lines_of(chunks: Iterable[bytes]) -> Iterator[str]:
    """Lines end with LF or CR LF and with nothing else: `str.splitlines` would also cut at U+2028 inside a text."""
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line.removesuffix(b"\r").decode(errors="replace")
    if rest:
        yield rest.decode(errors="replace")


def events_of(lines: Iterable[str]) -> Iterator[Event]:
    """An event ends with a blank line; one that the end of the stream cuts off is not an event."""
    data: list[str] = []
    kind, event_id = "message", None
    for line in lines:
        if not line:
            if data:
                yield Event("\n".join(data), kind, event_id)
            data, kind = [], "message"
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            data.append(value)
        elif name == "event":
            kind = value or "message"
        elif name == "id":
            event_id = value
