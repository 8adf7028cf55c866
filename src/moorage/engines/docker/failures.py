"""Why a replica did not start, from the engine's words to a reason and a sentence that helps. Pure."""

from collections.abc import Mapping
from typing import Any

from moorage.engines.base import IMAGE_GONE, ReplicaSpec
from moorage.kit.errors import EngineError, StartError

_SHORTEST_SECRET = 4
_COMMAND_MISSING = ("executable file not found", "no such file or directory", "not a directory")
_COMMAND_REFUSED = ("permission denied", "is a directory")
_COMMAND_WRONG_FORMAT = ("exec format error",)
_NO_COMMAND = ("no command specified",)
_PORT_TAKEN = ("port is already allocated", "address already in use")
_IMAGE_GONE = ("no such image",)
_GPU_REQUIREMENT = ("unsatisfied condition",)
_STORAGE_OPTION = "storage-opt"
_GPU = (
    "could not select device driver",
    "nvidia-container-cli",
    "nvidia-container-runtime",
    "unresolvable cdi devices",
    "cdi device injection failed",
)


def start_failure(spec: ReplicaSpec, inspected: Mapping[str, Any] | None, message: str) -> EngineError:
    text = message.lower()
    command = _command(spec, inspected)
    if any(phrase in text for phrase in _PORT_TAKEN):
        return EngineError(
            f"Port {spec.host_port} of the machine, meant for replica {spec.replica_id}, is in use.",
            code="port_taken",
        )
    if any(phrase in text for phrase in _NO_COMMAND):
        return _start_error("The image names no command to run. Set a start command.")
    if any(phrase in text for phrase in _IMAGE_GONE):
        return EngineError(
            f"The image of replica {spec.replica_id} is no longer on the machine.", code=IMAGE_GONE
        )
    if any(phrase in text for phrase in _COMMAND_WRONG_FORMAT):
        return _start_error(
            f"The start command {command} is no program for this machine: it is built for another "
            "processor, or it is a script without a #! line."
        )
    if any(phrase in text for phrase in _GPU_REQUIREMENT):
        return StartError(
            "The machine's NVIDIA driver is too old for this image. Use an image built for an older CUDA, "
            "or restart on another machine.",
            code="gpu_driver_mismatch",
        )
    # Only with "exec:" do the phrases below speak of the command, and not of a mount or a socket.
    about_command = "exec:" in text
    if about_command and any(phrase in text for phrase in _COMMAND_MISSING):
        return _start_error(
            f"The start command {command} was not found in the image. "
            "Check its spelling, or give its full path inside the image."
        )
    if about_command and any(phrase in text for phrase in _COMMAND_REFUSED):
        return _start_error(
            f"The start command {command} may not be executed. Make the file executable (chmod +x) in the image."
        )
    return EngineError(f"start replica {spec.replica_id}: {_without_environment(message, spec)}")


def is_about_storage_options(message: str) -> bool:
    """Whether the engine cannot bound a container's disk: most cannot, and then it refuses to create one."""
    return _STORAGE_OPTION in message.lower()


def is_about_gpus(message: str) -> bool:
    """Whether the engine had no GPU to hand over. A driver that is too old is another matter."""
    text = message.lower()
    return any(phrase in text for phrase in _GPU) and not any(phrase in text for phrase in _GPU_REQUIREMENT)


def _start_error(message: str) -> StartError:
    return StartError(message, code="start_command_not_found")


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
