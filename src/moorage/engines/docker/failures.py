"""Why a replica did not start, from Docker's words to a reason and a sentence that helps. Pure. What the runtime below it says is
in `engines/start_failures.py`."""

from collections.abc import Mapping
from typing import Any

from moorage.engines.base import IMAGE_GONE, ReplicaSpec
from moorage.engines.start_failures import start_error
from moorage.kit.errors import EngineError

_SHORTEST_SECRET = 4
_PORT_TAKEN = ("port is already allocated", "address already in use")
_IMAGE_GONE = ("no such image",)
_STORAGE_OPTION = "storage-opt"


def start_failure(spec: ReplicaSpec, inspected: Mapping[str, Any] | None, message: str) -> EngineError:
    text = message.lower()
    if any(phrase in text for phrase in _PORT_TAKEN):
        return EngineError(
            f"Port {spec.host_port} of the machine, meant for replica {spec.replica_id}, is in use.",
            code="port_taken",
        )
    if any(phrase in text for phrase in _IMAGE_GONE):
        return EngineError(
            f"The image of replica {spec.replica_id} is no longer on the machine.", code=IMAGE_GONE
        )
    error = start_error(message, _command(spec, inspected))
    return error or EngineError(f"start replica {spec.replica_id}: {_without_environment(message, spec)}")


def is_about_storage_options(message: str) -> bool:
    """Whether the engine cannot bound a container's disk: most cannot, and then it refuses to create one."""
    return _STORAGE_OPTION in message.lower()


def _command(spec: ReplicaSpec, inspected: Mapping[str, Any] | None) -> str:
    """The program alone: its arguments may hold a secret."""
    if spec.command:
        return repr(spec.command[0])
    path = (inspected or {}).get("Path")
    return repr(path) if path else "of the image"


def _without_environment(message: str, spec: ReplicaSpec) -> str:
    for value in sorted(spec.environment.values(), key=len, reverse=True):
        if len(value) >= _SHORTEST_SECRET:
            message = message.replace(value, "…")
    return message
