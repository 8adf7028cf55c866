"""Why a replica is not ready, in one reason and one sentence a person can act on. Pure.

It looks at what can be seen from outside the process: its exit code, whether it was killed for memory, what
listens in its network namespace, how the last probe was answered, and its last lines. What it wrote is never
quoted, because it may hold a secret.
"""

import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from moorage.containers.states import Reason
from moorage.engines.base import ListeningSocket
from moorage.engines.profile import PIDS_LIMIT

MOST_SOCKETS_NAMED = 5
_LOOPBACK = ("127.", "::1", "::ffff:127.")
_NO_PROGRAM = re.compile(r"^exec /\S*: (exec format error|no such file or directory)$")
"""Said by the engine in the place of a process that it could not become."""
_NO_SPACE = re.compile(r"no space left on device|disk quota exceeded", re.IGNORECASE)
_NO_PROCESS = re.compile(
    r"can(?:'|no)t (?:start new thread|fork)|(?:fork|clone|pthread_create|thread)\b.{0,80}"
    r"(?:resource temporarily unavailable|errno 11\b|eagain)|blockingioerror: \[errno 11\]",
    re.IGNORECASE,
)
_NO_GPU_MEMORY = re.compile(
    r"cuda out of memory|cuda error: out of memory|cudaerrormemoryallocation|cuda_error_out_of_memory"
    r"|no available memory for the cache blocks|free memory on device.{0,120}less than desired gpu memory"
    r"|cudamalloc failed: out of memory|outofmemoryerror: .{0,40}(?:cuda|gpu|hip)",
    re.IGNORECASE,
)
"""As PyTorch, the driver, vLLM and llama.cpp say it."""
_NOT_PERMITTED = re.compile(r"operation not permitted|errno 1\]|\beperm\b", re.IGNORECASE)
_PRIVILEGED_CALL = re.compile(
    r"\b(f?l?chown(?:at)?|changing ownership|set(?:e|re|res)?[ug]id|setgroups|initgroups|chroot|mount|capset"
    r"|su-exec|gosu|sudo|setpriv)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Fix:
    """One setting that, changed like this, is likely to fix it; `fixes.py` says when there is one."""

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
    waited_s: float = 5.0


def size_in_words(size_bytes: int) -> str:
    return f"{size_bytes / 2**30:.3g} GiB" if size_bytes >= 2**27 else f"{size_bytes / 2**20:.3g} MiB"


def verdict_on_exit(
    exit_code: int | None,
    out_of_memory: bool,
    memory_bytes: int,
    disk_bytes: int,
    last_lines: Sequence[str] = (),
    download_kept_bytes: int | None = None,
) -> Verdict:
    """`download_kept_bytes`: of one that ended while it downloaded into a cache, how much the next start finds there."""
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
    told = _verdict_on_last_lines(last_lines, exit_code, disk_bytes)
    if told is not None:
        return told
    if exit_code == 128 + signal.SIGKILL:
        # containerd loses the kernel's word about memory now and then when the main process itself is killed.
        return Verdict(
            Reason.EXITED,
            "The process was killed (signal 9), usually because memory ran out. See its last log lines, or "
            "choose a larger instance type.",
        )
    if download_kept_bytes is not None:
        # A line that breaks is no fault of the settings, and nothing of the wait was in vain.
        return Verdict(
            Reason.EXITED,
            f"It ended while downloading weights ({size_in_words(download_kept_bytes)} are kept). Start it again: it goes "
            f"on from there. If it ends again, see its last log lines; the exit code was {exit_code}.",
        )
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
    process_limit_reached: bool = False,
) -> Verdict:
    """Why it does not pass its health check. Where the socket itself is wrong, that comes first."""
    if process_limit_reached:
        return _pids_limit()
    if probe is not None and probe.failure is ProbeFailure.STATUS:
        return Verdict(
            Reason.HEALTH_CHECK_STATUS,
            f"GET {health_path} answered {probe.status}; expected 200. Fix the health path or the server.",
        )
    elsewhere = _verdict_on_sockets(sockets, port)
    if elsewhere is not None:
        return elsewhere
    if probe is not None and probe.failure is ProbeFailure.TIMEOUT:
        return Verdict(
            Reason.HEALTH_CHECK_TIMEOUT,
            f"GET {health_path} was not answered within {probe.waited_s:.0f} s. Is the server overloaded or stuck?",
        )
    return Verdict(
        Reason.PORT_NOT_LISTENING,
        f"Nothing listens on port {port} yet; it has {timeout_s} s from its start. See its logs for what it is doing.",
    )


def with_doubt_about_cache(verdict: Verdict) -> Verdict:
    """Of one that does not come up with a cache with which it came up before. What ran out of memory did not for its cache's sake."""
    if verdict.reason is Reason.OUT_OF_MEMORY:
        return verdict
    doubt = (
        "The same settings started from its cache before, so the cache may be damaged. If so, stop the "
        "container, delete the cache (Settings, or moor caches delete) and start it again."
    )
    return replace(verdict, message=f"{verdict.message} {doubt}")


def verdict_when_failing(failing: Sequence[Probe], of: int, health_path: str | None) -> Verdict:
    """Of a container that serves all the same."""
    count = "its replica" if of == 1 else f"{len(failing)} of {of} replicas"
    return Verdict(
        _liveness_reason(failing[0]),
        f"It serves, but the health check of {count} fails: {_seen_at(failing[0], health_path)}.",
    )


def verdict_when_stuck(probe: Probe | None, health_path: str | None, after_s: int) -> Verdict:
    """Of a replica that was ready once and is given up."""
    seen = _seen_at(probe, health_path) if probe is not None else "its health check fails"
    return Verdict(
        _liveness_reason(probe) if probe is not None else Reason.HEALTH_CHECK_TIMEOUT,
        f"It answered no request for {after_s} s and {seen}, so it was replaced. See its last log lines.",
    )


def _verdict_on_sockets(sockets: Sequence[ListeningSocket], port: int) -> Verdict | None:
    """What listens, where requests to the port cannot reach it. The remedy has to leave nothing wrong: neither address nor port."""
    expected = f"0.0.0.0:{port}"
    on_port = [socket for socket in sockets if socket.port == port]
    if on_port and all(is_loopback(socket) for socket in on_port):
        return Verdict(
            Reason.LISTENS_ON_LOOPBACK_ONLY,
            f"Listens on {on_port[0].address}:{port}; expected {expected}. Bind to 0.0.0.0 inside the container.",
        )
    if on_port or not sockets:
        return None
    seen = first_few(sorted({f"{socket.address}:{socket.port}" for socket in sockets}))
    reachable = {socket.port for socket in sockets if not is_loopback(socket)}
    if not reachable:
        return Verdict(
            Reason.LISTENS_ON_LOOPBACK_ONLY,
            f"Listens on {seen}; expected {expected}. Bind to 0.0.0.0 inside the container, and "
            f"{_same_port({socket.port for socket in sockets}, port)}.",
        )
    return Verdict(
        Reason.LISTENS_ON_OTHER_PORT,
        f"Listens on {seen}; expected {expected}. Either {_same_port(reachable, port)}.",
    )


def _same_port(listening: set[int], port: int) -> str:
    """With several there is a choice, and it is not ours."""
    theirs = str(next(iter(listening))) if len(listening) == 1 else "the one it should be reached at"
    return f"listen on port {port} or set the port to {theirs}"


def _liveness_reason(probe: Probe) -> Reason:
    if probe.failure is ProbeFailure.STATUS:
        return Reason.HEALTH_CHECK_STATUS
    return Reason.PORT_NOT_LISTENING if probe.failure is ProbeFailure.REFUSED else Reason.HEALTH_CHECK_TIMEOUT


def _seen_at(probe: Probe, health_path: str | None) -> str:
    if probe.failure is ProbeFailure.STATUS:
        return f"GET {health_path} answered {probe.status}"
    if probe.failure is ProbeFailure.REFUSED:
        return f"GET {health_path} found nothing that listens"
    return f"GET {health_path} was not answered within {probe.waited_s:.0f} s"


def first_few(sockets: Sequence[str]) -> str:
    """A container may listen on thousands, and a sentence is to be read."""
    named, others = ", ".join(sockets[:MOST_SOCKETS_NAMED]), len(sockets) - MOST_SOCKETS_NAMED
    return f"{named} and {others} more" if others > 0 else named


def is_loopback(socket: ListeningSocket) -> bool:
    return socket.address.startswith(_LOOPBACK)


def _verdict_on_last_lines(last_lines: Sequence[str], exit_code: int, disk_bytes: int) -> Verdict | None:
    """What a process that failed said last, where that names a limit of ours."""
    if (found := _NO_PROGRAM.search(last_lines[-1]) if last_lines else None) is not None:
        return Verdict(
            Reason.START_COMMAND_NOT_FOUND,
            "The start command cannot run on this machine: it is built for another processor, or it is a "
            "script without a #! line."
            if "format" in found[1]
            else "The program that runs the start command was not found in the image. Check the script's first line.",
        )
    if any(_NO_GPU_MEMORY.search(line) for line in last_lines):
        return Verdict(
            Reason.GPU_OUT_OF_MEMORY,
            f"The process ended with exit code {exit_code}: its GPU's memory was too small. Use a smaller model, context "
            "or batch, or an instance type with more GPU memory.",
        )
    if any(_NO_SPACE.search(line) for line in last_lines):
        return Verdict(
            Reason.DISK_FULL,
            f"The process ended with exit code {exit_code}: no space was left on its disk of {size_in_words(disk_bytes)} "
            "or in /dev/shm. Write less inside the container, or choose a larger instance type.",
        )
    if any(_NO_PROCESS.search(line) for line in last_lines):
        return _pids_limit()
    refused = [line for line in last_lines if _NOT_PERMITTED.search(line)]
    call = next((found[1].lower() for line in refused if (found := _PRIVILEGED_CALL.search(line))), None)
    if call is not None:
        return Verdict(
            Reason.MISSING_CAPABILITY,
            f"The process ended with exit code {exit_code} because it tried something that it may not do "
            f"({call}). Containers run without special rights. Build the image so that it changes neither "
            "owners nor users at its start.",
        )
    return None


def _pids_limit() -> Verdict:
    return Verdict(
        Reason.PIDS_LIMIT,
        f"It has reached the limit of {PIDS_LIMIT} processes and threads. Start fewer workers or threads.",
    )
