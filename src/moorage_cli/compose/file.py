"""One service of a compose file: found, its variables filled in, and read."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from moorage_cli.compose.env_files import read_text, variables_of
from moorage_cli.compose.service import ServiceReader
from moorage_cli.compose.variables import interpolated
from moorage_cli.compose.yaml_text import mapping_of
from moorage_cli.container_file import DeployOptions
from moorage_cli.errors import UsageError
from moorage_cli.other_tools.asked import Asked, Findings

_MOST_VALUES = 100_000
"""Aliases can make endless ones of a few lines."""


def asked_of(
    path: Path,
    service: str | None,
    leave_out: tuple[str, ...],
    options: DeployOptions,
    environment: Mapping[str, str],
) -> Asked:
    """What the service asks for. What it cannot have is refused, all at once; what is only said is in its notes."""
    findings = Findings()

    def unset(name: str) -> None:
        findings.note(f"${name}", "The variable is not set, so it is empty.")

    services = mapping_of(read_text(path), str(path)).get("services")
    if not isinstance(services, dict) or not services:
        raise UsageError(f"{path} is not a compose file: it has no services.")
    name = _chosen(services, service, path)
    own = path.parent / ".env"
    variables = dict(environment)
    if own.is_file():
        # What this shell has wins over the file.
        variables = {**variables_of(read_text(own), str(own), environment, unset), **environment}

    left = _MOST_VALUES

    def filled(value: Any, where: str) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise UsageError(f"{path}: {where} holds more than {_MOST_VALUES} values.")
        match value:
            case str():
                return interpolated(value, variables, where, unset)
            case dict():
                return {
                    str(key): filled(one, f"{where}.{key}")
                    for key, one in value.items()
                    if not str(key).startswith("x-")
                }
            case list():
                return [filled(one, where) for one in value]
        return value

    found = services[name]
    if not isinstance(found, dict):
        raise UsageError(f"{path}: the service {name} is empty.")
    for key in leave_out:
        if key not in found:
            raise UsageError(f"--leave-out {key}: the service {name} has no {key}.")
        findings.note(key, "Left out, as you asked.")
    kept = {key: value for key, value in found.items() if key not in leave_out}
    try:
        service_filled = filled(kept, name)
    except RecursionError:
        raise UsageError(f"{path}: the service {name} contains itself.") from None
    return ServiceReader(service_filled, name, path, variables, options, findings).asked()


def _chosen(services: dict[Any, Any], wish: str | None, path: Path) -> str:
    names = ", ".join(map(str, services))
    if wish is None:
        if len(services) > 1:
            raise UsageError(f"{path} has several services: {names}.", hint="Choose one with --service NAME.")
        return str(next(iter(services)))
    if wish not in services:
        raise UsageError(f"{path} has no service {wish!r}. Its services are {names}.")
    return wish
