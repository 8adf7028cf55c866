"""The HTTP request in a health check that runs a program, such as `curl -f http://localhost:8000/health || exit 1`. Pure."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from moorage_cli.errors import UsageError

_PROGRAMS = frozenset({"curl", "wget"})
_HERE = frozenset({"localhost", "127.0.0.1", "0.0.0.0", "::1"})  # noqa: S104 - what checks ask, not where we listen
_OR_FAIL = re.compile(r"\s*\|\|\s*(exit\s+1|false)\s*;?\s*$")
_TO_NOWHERE = re.compile(r"\s[0-9&]?>{1,2}\s*(?:/dev/null|&[0-9])")
_ADDRESS = re.compile(r"https?://|localhost\b|127\.0\.0\.1\b")
_MORE = frozenset({"||", "&&", "|", ";", "&", "-X", "--request", "-d", "--data", "--post-data"})
"""More than one request, or another than a GET."""
_DURATION = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?(?:ns|us|µs|ms|s|m|h))+")
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ns|us|µs|ms|s|m|h)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}

SHORTEST_S, LONGEST_S = 10, 3600
"""That the API takes."""
USUAL_INTERVAL_S, USUAL_RETRIES = 30.0, 3
"""Docker's own."""
NO_HTTP = "It is not a curl or wget request to itself. Moorage checks that the port accepts a connection; `--health-path` names a path to check instead."


@dataclass(frozen=True)
class HttpCheck:
    path: str
    port: int


def of_command(command: str | Sequence[str]) -> HttpCheck | None:
    """A text is for a shell, a list is a program with its arguments. None where it does anything else than one request."""
    if isinstance(command, str):
        try:
            words = shlex.split(_TO_NOWHERE.sub("", _OR_FAIL.sub("", command)))
        except ValueError:
            return None
    else:
        words = list(command)
    if not words or words[0].rpartition("/")[2] not in _PROGRAMS or not _MORE.isdisjoint(words):
        return None
    addresses = [word for word in words[1:] if _ADDRESS.match(word)]
    return _check(addresses[0]) if len(addresses) == 1 else None


def ready_within_s(start_period: str, interval: str | None, retries: int, where: str) -> int:
    """How long Docker waits until it calls such a container unhealthy, within what Moorage allows."""
    pause_s = USUAL_INTERVAL_S if interval is None else seconds_of(interval, where)
    whole_s = seconds_of(start_period, where) + pause_s * retries
    return round(min(LONGEST_S, max(SHORTEST_S, whole_s)))


def seconds_of(text: str, where: str) -> float:
    """`1m30s`"""
    if not _DURATION.fullmatch(text):
        raise UsageError(f"{where}: {text!r} is not a time such as 30s or 2m.")
    return sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))


def _check(address: str) -> HttpCheck | None:
    try:
        parts = urlsplit(address if "://" in address else f"http://{address}")
        port = parts.port or 80
    except ValueError:
        return None
    if parts.scheme != "http" or parts.hostname not in _HERE:
        return None
    return HttpCheck(f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}", port)
