"""What is said on the wire between Moorage and a machine's node role: calls, answers, errors. Pure.

A call is `POST /v1/<name>` with its arguments as an object; name, arguments and answer are those of `Engine` itself. The answer
is an `Envelope`: what came of it, or the error, and beside it the machine's clocks and how far its hints have come.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, get_type_hints

from moorage.engines.base import Engine
from moorage.engines.remote.codec import ANSWERS, decode, parse
from moorage.engines.remote.proofs import GAVE_WAY
from moorage.kit.errors import EngineError, ImageError, StartError
from moorage.kit.ids import ContainerId

PATH = "/v1/"
CALLS = (
    *("prepare", "capacity", "list_replicas", "inspect", "start", "stop", "remove"),
    *("listening_sockets", "process_limit_reached", "diagnose_network", "last_lines"),
    *("usage", "disk_space", "written_bytes", "gpu_usage", "gpu_problems"),
    *("pulled_images", "remove_image"),
    *("caches", "trim_cache", "remove_cache"),
)
"""Those that have one answer; `ensure_image`, `logs` and `watch` are streams."""

_ERRORS: Mapping[str, type[EngineError]] = {"engine": EngineError, "image": ImageError, "start": StartError}
_CODES: Mapping[str, frozenset[str]] = {
    "engine": frozenset(
        {
            *("engine_error", "engine_timeout", "image_gone", "network_altered", "not_isolated"),
            *("port_taken", "replica_gone", GAVE_WAY),
        }
    ),
    "image": frozenset(
        {
            *("disk_full", "engine_error", "image_architecture_mismatch", "image_not_found"),
            *("image_too_large", "registry_auth_failed", "registry_unreachable"),
        }
    ),
    "start": frozenset(
        {
            *("gpu_busy", "gpu_driver_mismatch", "gpu_lost", "gpu_not_detected"),
            "start_command_not_found",
        }
    ),
}
"""Each is a reason that something above acts on. A machine cannot invent others."""


@dataclass(frozen=True)
class HintPosition:
    """How many hints there were since the machine began to count."""

    epoch: str
    """Of the counting: another one where hints may have been missed."""
    sequence: int


@dataclass(frozen=True)
class Hint:
    sequence: int
    container_id: ContainerId


@dataclass(frozen=True)
class WireFailure:
    kind: str
    code: str
    message: str


@dataclass(frozen=True)
class Envelope:
    time_s: float
    """The machine's clock, since 1970."""
    monotonic_s: float
    """Its other clock, which usage is measured by: it counts from the start of the machine."""
    hints: HintPosition
    answer: Any = None
    failure: WireFailure | None = None

    @property
    def booted_at_s(self) -> float:
        """By the machine's clock."""
        return self.time_s - self.monotonic_s


def argument_types(call: str) -> Mapping[str, Any]:
    return {name: kind for name, kind in _signature(call).items() if name != "return"}


def answer_type(call: str) -> Any:
    return _signature(call)["return"]


def failure_of(error: EngineError) -> WireFailure:
    kind = next(kind for kind, one in reversed(tuple(_ERRORS.items())) if isinstance(error, one))
    return WireFailure(kind, error.code, error.message)


def error_of(failure: WireFailure) -> EngineError:
    """The same error here; with a code that it cannot have, it is none but the machine's own trouble."""
    if failure.code not in _CODES.get(failure.kind, ()):
        return EngineError(failure.message)
    return _ERRORS[failure.kind](failure.message, code=failure.code)


def open_envelope(text: bytes, answer: Any) -> Envelope:
    """With the answer as a value of the type `answer`. Raises `WireError`, and the error that the envelope holds."""
    envelope: Envelope = decode(Envelope, parse(text), ANSWERS, "the envelope")
    if envelope.failure is not None:
        raise error_of(envelope.failure)
    found = decode(answer, envelope.answer, ANSWERS, "the answer")
    return Envelope(envelope.time_s, envelope.monotonic_s, envelope.hints, found)


@cache
def _signature(call: str) -> dict[str, Any]:
    return get_type_hints(getattr(Engine, call))
