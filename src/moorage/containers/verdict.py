"""Why a replica is not ready, in one reason and one sentence a person can act on. Pure.

It looks at what can be seen from outside the process: its exit code, whether it was killed for memory, what
listens in its network namespace, and how the last probe was answered.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from moorage.containers.states import Reason
from moorage.engines.base import ListeningSocket

_LOOPBACK = ("127.", "::1", "::ffff:127.")


@dataclass(frozen=True)
class Fix:
    """One setting that, changed like this, is likely to mend it; `fixes.py` says when there is one."""

    field: str
    """As the API names it, e.g. `health_check.timeout_s`."""
    before: int | str
    after: int | str

    def to_json(self) -> dict[str, int | str]:
        return {"field": self.field, "from": self.before, "to": self.after}

    @classmethod
    def from_json(cls, values: Mapping[str, Any] | None) -> "Fix | None":
        return None if values is None else cls(values["field"], values["from"], values["to"])


@dataclass(frozen=True)
class Verdict:
    reason: Reason
    message: str
    fix: Fix | None = None


class ProbeFailure(StrEnum):
    REFUSED = "refused"
    """Nothing accepts connections on the port."""
    TIMEOUT = "timeout"
    STATUS = "status"


@dataclass(frozen=True)
class Probe:
    """The answer to one health check; `failure` is None when it passed."""

    failure: ProbeFailure | None
    status: int | None = None


def verdict_on_exit(exit_code: int | None, out_of_memory: bool, memory_bytes: int) -> Verdict:
    if out_of_memory:
        limit = f"{memory_bytes / 2**30:.3g} GiB"
        return Verdict(
            Reason.OUT_OF_MEMORY,
            f"Out of memory: it used more than its {limit}. Choose a larger instance type.",
        )
    if exit_code == 0:
        return Verdict(
            Reason.EXITED, "The process ended with exit code 0. A container must keep serving; see its logs."
        )
    if exit_code is None:
        return Verdict(Reason.EXITED, "The process ended. See its last log lines.")
    if exit_code > 128:
        return Verdict(
            Reason.EXITED, f"The process was ended by signal {exit_code - 128}. See its last log lines."
        )
    return Verdict(Reason.EXITED, f"The process ended with exit code {exit_code}. See its last log lines.")


def verdict_while_unready(
    probe: Probe | None,
    sockets: tuple[ListeningSocket, ...],
    port: int,
    health_path: str | None,
    timeout_s: int,
) -> Verdict:
    """Why it does not pass its health check. Where the socket itself is wrong, that comes first."""
    if probe is not None and probe.failure is ProbeFailure.STATUS:
        return Verdict(
            Reason.HEALTH_CHECK_STATUS,
            f"GET {health_path} answered {probe.status}; expected 200. Mend the health path or the server.",
        )
    expected = f"0.0.0.0:{port}"
    on_port = [socket for socket in sockets if socket.port == port]
    if on_port and all(is_loopback(socket) for socket in on_port):
        return Verdict(
            Reason.LISTENS_ON_LOOPBACK_ONLY,
            f"Listens on {on_port[0].address}:{port}; expected {expected}. Bind to 0.0.0.0 inside the container.",
        )
    if sockets and not on_port:
        seen = ", ".join(sorted({f"{socket.address}:{socket.port}" for socket in sockets}))
        return Verdict(
            Reason.LISTENS_ON_OTHER_PORT, f"Listens on {seen}; expected {expected}. Set the port to match."
        )
    if probe is not None and probe.failure is ProbeFailure.TIMEOUT:
        return Verdict(
            Reason.HEALTH_CHECK_TIMEOUT,
            f"GET {health_path} was not answered within 5 s. Is the server overloaded or stuck?",
        )
    return Verdict(
        Reason.PORT_NOT_LISTENING,
        f"Nothing listens on port {port} yet; it has {timeout_s} s from its start. See its logs for what it is doing.",
    )


def is_loopback(socket: ListeningSocket) -> bool:
    return socket.address.startswith(_LOOPBACK)
