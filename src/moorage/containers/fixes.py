"""Where the fix is a setting: which one, and what to write there. Pure.

Only what follows from what was seen. A health path that answers 404, a command that is not in the image or a server
that binds to loopback has a fix that only its author knows, so nothing is offered for those.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from moorage.catalog.capacity import InstanceType
from moorage.containers.states import Reason
from moorage.containers.verdict import Fix, Verdict, is_loopback
from moorage.engines.base import ListeningSocket

LONGEST_HEALTH_TIMEOUT_S = 3600
_MAY_ONLY_BE_SLOW = (Reason.PORT_NOT_LISTENING, Reason.HEALTH_CHECK_TIMEOUT)


def next_larger(current: InstanceType, catalogue: Iterable[InstanceType]) -> InstanceType | None:
    """The smallest type with more memory and the same GPUs, on the same kind of machine."""
    larger = [
        one
        for one in catalogue
        if one.memory_bytes > current.memory_bytes
        and (one.gpu_model, one.gpu_count) == (current.gpu_model, current.gpu_count)
        and one.infrastructure == current.infrastructure
    ]
    return min(larger, key=lambda one: (one.memory_bytes, one.price_per_hour_microusd), default=None)


def with_larger_type(verdict: Verdict, current: str, larger: str | None) -> Verdict:
    if verdict.reason is not Reason.OUT_OF_MEMORY or larger is None:
        return verdict
    return replace(verdict, fix=Fix("resources.instance_type", current, larger))


def with_setting(
    verdict: Verdict, status: int | None, sockets: Sequence[ListeningSocket], port: int, timeout_s: int
) -> Verdict:
    """For a replica that was not ready in time."""
    if verdict.reason is Reason.LISTENS_ON_OTHER_PORT:
        reachable = {socket.port for socket in sockets if not is_loopback(socket)}
        # With two there is a choice, and it is not ours.
        return replace(verdict, fix=Fix("port", port, reachable.pop())) if len(reachable) == 1 else verdict
    # 503 is how model servers say that they are loading.
    slow = verdict.reason in _MAY_ONLY_BE_SLOW or (
        verdict.reason is Reason.HEALTH_CHECK_STATUS and status == 503
    )
    if slow and timeout_s < LONGEST_HEALTH_TIMEOUT_S:
        longer_s = min(2 * timeout_s, LONGEST_HEALTH_TIMEOUT_S)
        return replace(verdict, fix=Fix("health_check.timeout_s", timeout_s, longer_s))
    return verdict
