"""Which port a server listens on, from what another tool was told to publish. Pure."""

import re
from collections.abc import Sequence

from moorage_cli.errors import CliError, ExitCode, UsageError

_PUBLISHED = re.compile(
    r"(?:(?P<address>\[[0-9a-fA-F:.]*\]|[0-9]+\.[0-9.]+):)?(?:(?P<host>[0-9-]*):)?(?P<inside>[0-9]{1,5})(?:/(?P<protocol>[a-z]+))?"
)


def published(text: str, where: str) -> tuple[int, str]:
    """The port inside, and what is to be said: `8080:80` → 80, and that 8080 is nowhere."""
    match = _PUBLISHED.fullmatch(text.strip())
    if match is None or not 1 <= int(match["inside"]) <= 65535:
        raise UsageError(
            f"{where} {text}: write the port that the server listens on in the container, e.g. {where} 8000."
        )
    if (match["protocol"] or "tcp") != "tcp":
        raise UsageError(f"{where} {text}: an endpoint speaks HTTP, over TCP only.")
    inside = int(match["inside"])
    said = no_host_port(match["host"] or "") if match["address"] or match["host"] else ""
    return inside, said


def no_host_port(port: str) -> str:
    opened = f"Port {port} of a machine is not opened" if port else "No port of a machine is opened"
    return f"{opened}: it is reached at its endpoint URL."


def single(ports: Sequence[int], where: str, option: str) -> int | None:
    """The one that the endpoint leads to."""
    different = tuple(dict.fromkeys(ports))
    if len(different) > 1:
        shown = ", ".join(map(str, different))
        raise CliError(
            f"{where}: an endpoint leads to one port, and these are {len(different)}: {shown}.",
            ExitCode.USAGE,
            code="several_ports",
            hint=f"Name one with {option}.",
        )
    return different[0] if different else None
