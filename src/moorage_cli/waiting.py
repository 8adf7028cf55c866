"""Watch a container until it is where it should be, or until it is clear that it will not get there."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from moorage_cli.api.calls import Api
from moorage_cli.client import ApiClient, is_absent
from moorage_cli.errors import ApiError, CliError, UnreachableError
from moorage_cli.progress import ProgressDisplay

if TYPE_CHECKING:
    from moorage_cli.api.types import Container

FIRST_POLL_S = 0.1
SLOWEST_POLL_S = 1.0
_SLOWER_EACH_TIME = 1.2
# The API may be away for an upgrade; the deployment goes on without it.
UNREACHABLE_FOR_S = 60.0
_ENDS_BADLY = ("FAILED", "STOPPED", "STOPPING", "DELETING")
_SERVING = ("ready", "routed")

Arrived = Callable[["Container"], bool]


def wait_until_running(client: ApiClient, container: "Container", display: ProgressDisplay) -> "Container":
    """The container once it is RUNNING, or as it is when it will not be: FAILED, or stopped by somebody."""

    def arrived(now: "Container") -> bool:
        if now["state"] in _ENDS_BADLY:
            return True
        return (
            now["state"] == "RUNNING"
            and not now.get("woken_at")
            and _is_served_by(client, now, container["generation"])
        )

    return _watch(client, container, display, arrived)


def wait_until_awake(client: ApiClient, container: "Container", display: ProgressDisplay) -> "Container":
    """The container once it serves again, or as it is when it will not."""
    return _watch(client, container, display, lambda now: not now["asleep"] or now["state"] in _ENDS_BADLY)


def wait_until_applied(client: ApiClient, container: "Container", display: ProgressDisplay) -> "Container":
    """Until the draft serves, was given up and what was before it serves again, or somebody stopped it all."""

    def arrived(now: "Container") -> bool:
        if now["draft"] is not None and now["draft"]["applying"]:
            return now["state"] == "DELETING"
        # What slept proves itself awake, and is RUNNING all the while.
        return (now["state"] == "RUNNING" and not now.get("woken_at")) or now["state"] in _ENDS_BADLY

    return _watch(client, container, display, arrived)


def wait_until_canary_serves(
    client: ApiClient, container: "Container", display: ProgressDisplay
) -> "Container":
    """Until a replica of it is at the endpoint, or it was given up."""

    def arrived(now: "Container") -> bool:
        rollout = now["rollout"]
        return now["state"] in _ENDS_BADLY or rollout is None or rollout["serving_since"] is not None

    return _watch(client, container, display, arrived)


def wait_until_stopped(client: ApiClient, container: "Container", display: ProgressDisplay) -> "Container":
    """Ends too when somebody starts it again, which shows as another generation."""

    def arrived(now: "Container") -> bool:
        return (
            now["state"] in ("STOPPED", "FAILED", "DELETING") or now["generation"] != container["generation"]
        )

    return _watch(client, container, display, arrived)


def wait_until_gone(client: ApiClient, container: "Container", display: ProgressDisplay) -> None:
    try:
        _watch(client, container, display, lambda _: False)
    except ApiError as exc:
        if not is_absent(exc):
            raise


def _is_served_by(client: ApiClient, container: "Container", generation: int) -> bool:
    """RUNNING may still mean the generation before, after a restart: all slots must have moved on."""
    if generation <= 1:
        return True
    replicas = list(Api(client).list_replicas(container["id"]))
    slots = {one["slot"] for one in replicas if one["state"] in _SERVING and one["generation"] >= generation}
    return len(slots) >= min(1, container["replicas"]["desired"]) and not any(
        one["generation"] < generation and one["state"] in _SERVING for one in replicas
    )


def _watch(
    client: ApiClient, container: "Container", display: ProgressDisplay, arrived: Arrived
) -> "Container":
    pause_s, last_answer_s = FIRST_POLL_S, time.monotonic()
    display.show(container)
    while True:
        try:
            if arrived(container):
                return container
            time.sleep(pause_s)
            pause_s = min(SLOWEST_POLL_S, pause_s * _SLOWER_EACH_TIME)
            container = Api(client).get_container(container["id"])
            last_answer_s = time.monotonic()
            display.show(container)
        except CliError as exc:
            away = isinstance(exc, UnreachableError) or (
                isinstance(exc, ApiError) and (exc.status or 0) >= 500
            )
            if not away or time.monotonic() - last_answer_s > UNREACHABLE_FOR_S:
                raise
            display.trouble(f"{exc.message} Trying again.")
            time.sleep(SLOWEST_POLL_S)
