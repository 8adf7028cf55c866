"""An event as a sentence for a chat, which people read instead of a program. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from moorage.webhooks.events import EVENTS

_LONGEST = 1000
_FROM_TO = ("container.state", "container.scale", "container.autoscale")
_TEST = "webhook.test"
# What would be a mention of everybody, or a link of somebody's making, in the chats that these messages go to.
_MARKUP = str.maketrans({"<": "‹", ">": "›", "@": "@\u200b", "`": "'", "*": "∗"})


@dataclass(frozen=True)
class Names:
    """What the ids of an event are called by people."""

    project: str | None = None
    container: str | None = None
    actor: str | None = None
    """Whoever did it; None for Moorage itself."""


def chat_text(event: str, data: Mapping[str, Any], names: Names, link: str | None) -> str:
    """E.g. `production / whisper: Starting → Failed. Listens on 127.0.0.1:8000; expected 0.0.0.0:8080.`"""
    if event == _TEST:
        return "This is a test by Moorage. What happens in your organization appears here."
    parts = [_what(event, data)]
    if data.get("message"):
        parts.append(_ended(str(data["message"])))
    if names.actor is not None:
        parts.append(f"By {names.actor}.")
    where = " / ".join(name for name in (names.project, names.container) if name)
    text = " ".join(parts)
    said = (f"{where}: {text}" if where else text).translate(_MARKUP)
    shortened = said if len(said) <= _LONGEST else f"{said[: _LONGEST - 1]}…"
    return f"{shortened} {link}" if link is not None else shortened


def _what(event: str, data: Mapping[str, Any]) -> str:
    details = data.get("details")
    if event in _FROM_TO and isinstance(details, Mapping):
        before, after = details.get("from"), details.get("to")
        if before is not None and after is not None:
            change = f"{_shown(before)} → {_shown(after)}"
            return f"{change}." if event == "container.state" else f"Scaled {change}."
    return EVENTS.get(event, _ended(event))


def _shown(value: object) -> str:
    """`RUNNING` is what programs read."""
    return value.capitalize() if isinstance(value, str) else str(value)


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith((".", "!", "?")) else f"{sentence}."
