"""Secrets from files and from the environment, so that they need not stand on a command line or in a settings file."""

import re
import sys
from collections.abc import Mapping
from pathlib import Path

from moorage_cli.errors import UsageError

_REFERENCE = re.compile(r"\$\$\{|\$\{([^}]*)\}?")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def read_secret(path: Path) -> str:
    """A file's content without the line end that editors add; `-` is stdin."""
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text()
    except (OSError, UnicodeDecodeError) as exc:
        raise UsageError(f"Cannot read {path}: {getattr(exc, 'strerror', None) or exc}.") from exc
    secret = text.rstrip("\r\n")
    if not secret.strip():
        raise UsageError(f"{path} is empty.")
    return secret


def expanded(value: str, environment: Mapping[str, str], where: str) -> str:
    """`${VAR}` becomes the variable's value; `$${` stands for a plain `${`."""

    def replacement(match: re.Match[str]) -> str:
        if match.group() == "$${":
            return "${"
        name = match.group(1)
        if not _NAME.fullmatch(name) or not match.group().endswith("}"):
            raise UsageError(f"{where}: {match.group()!r} is not ${{NAME}}. Write $${{ for a plain ${{.")
        if name not in environment:
            raise UsageError(f"{where} needs the environment variable {name}, which is not set.")
        return environment[name]

    return _REFERENCE.sub(replacement, value)


def read_environment_file(path: Path) -> dict[str, str]:
    """Lines of KEY=VALUE; blank lines and those that begin with # say nothing; one pair of quotes around a value goes."""
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as exc:
        raise UsageError(f"Cannot read {path}: {getattr(exc, 'strerror', None) or exc}.") from exc
    found = {}
    for number, line in enumerate(lines, start=1):
        text = line.strip().removeprefix("export ")
        if not text or text.startswith("#"):
            continue
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"{path}, line {number}: write KEY=VALUE.")
        value = value.strip()
        if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
            value = value[1:-1]
        found[name.strip()] = value
    return found


def environment_option(text: str, environment: Mapping[str, str]) -> tuple[str, str]:
    """`-e KEY=VALUE`, or `-e KEY` for the value that this shell has."""
    name, equals, value = text.partition("=")
    if equals:
        return name, value
    if name not in environment:
        raise UsageError(f"-e {name}: the environment variable {name} is not set. Write -e {name}=VALUE.")
    return name, environment[name]
