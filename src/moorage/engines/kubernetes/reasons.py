"""Why a Pod does not run, or runs no more, from the words of kubelet, scheduler and runtime to a reason and a sentence. Pure.

The reasons are those of every engine; no word of the cluster's is repeated, because it may quote what belongs to others.
"""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from moorage.engines.base import Failure
from moorage.engines.pull_failures import known_pull_failure
from moorage.engines.start_failures import is_about_gpus, start_error
from moorage.kit.errors import EngineError

SETTLES_AFTER = timedelta(seconds=60)
"""What a kubelet says while it tries again may pass; what it says for so long is why."""
PULLING_FAILS = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "RegistryUnavailable",
        "ErrImageNeverPull",
        "ImageInspectError",
    }
)
_NOT_CREATED = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})
_NEVER_STARTED = frozenset({"StartError", "ContainerCannotRun"})
_SHUT_DOWN = frozenset({"NodeShutdown", "Terminated", "Shutdown"})
_PROGRAM = re.compile(r'exec: "([^"]{1,200})"')
_OWN_STORAGE = ("exceeds the total limit", "usage exceeds", "exceeded its local ephemeral storage")
_SHORTAGES = (
    ("memory", "memory"),
    ("ephemeral-storage", "disk space"),
    ("storage", "disk space"),
    ("inodes", "disk space"),
    ("pid", "processes"),
)

NO_ROOM_AFTER_ALL = Failure(
    "engine_error", "The machine that the cluster chose had no room for it after all. Another is tried."
)
NO_DOOR = Failure(
    "engine_error",
    "The door that proves whose replica it is did not start beside it. The operator's log says why.",
)
PULL_TIMEOUT = "pull_timeout"


def never_started(terminated: Mapping[str, Any]) -> bool:
    return terminated.get("reason") in _NEVER_STARTED


def why_not_started(message: str) -> Failure:
    """Of a container that the runtime could not start."""
    if is_about_gpus(message):
        return Failure(
            "gpu_not_detected",
            "The machine had no GPU, although the cluster promised one. Restart on another machine, or tell "
            "the operator.",
        )
    program = _PROGRAM.search(message)
    error = start_error(message, repr(program.group(1)) if program else "of the image")
    if error is not None:
        return Failure(error.code, error.message)
    return Failure("engine_error", "The cluster could not start the container. The operator's log says why.")


def why_waiting_fails(
    waiting: Mapping[str, Any], scheduled_at: datetime | None, now: datetime, pull_timeout: timedelta
) -> Failure | None:
    """Of a container that waits to be started; None while it may yet be."""
    reason, message = str(waiting.get("reason", "")), str(waiting.get("message", ""))
    waited = now - scheduled_at if scheduled_at is not None else timedelta()
    if reason in PULLING_FAILS and (known := known_pull_failure("it names", message)) is not None:
        return Failure(known.code, known.message)
    if reason in _NOT_CREATED:
        failure = why_not_started(message)
        settled = failure.code != EngineError.code or waited > SETTLES_AFTER
        return failure if settled else None
    if waited > pull_timeout:
        return Failure(
            PULL_TIMEOUT, f"The image was not pulled within {int(pull_timeout.total_seconds())} s."
        )
    return None


def why_door_fails(waiting: Mapping[str, Any], scheduled_at: datetime | None, now: datetime) -> bool:
    """Whether the door waits in vain, so that the replica behind it never begins."""
    if waiting.get("reason") not in PULLING_FAILS | _NOT_CREATED | {"CrashLoopBackOff"}:
        return False
    return scheduled_at is not None and now - scheduled_at > SETTLES_AFTER


def why_rejected(status: Mapping[str, Any]) -> Failure | None:
    """Of a Pod that failed as a whole; None where it is its process that ended, or that we ended."""
    reason, message = str(status.get("reason", "")), str(status.get("message", "")).lower()
    if reason == "Evicted":
        if any(phrase in message for phrase in _OWN_STORAGE):
            return Failure("disk_full", "It wrote more to its disk than its instance type allows.")
        short_of = next((word for phrase, word in _SHORTAGES if phrase in message), "something")
        return Failure("node_lost", f"Its machine ran short of {short_of}. A new replica takes its place.")
    if reason in _SHUT_DOWN:
        return Failure(
            "node_lost", "Its machine was shut down. A new replica takes its place on another machine."
        )
    if reason == "Preempting" or _disrupted(status, "PreemptionByScheduler"):
        return Failure("node_lost", "The cluster needed its place for something else. A new replica starts.")
    if _disrupted(status, "DeletionByTaintManager") or _disrupted(status, "DeletionByPodGC"):
        return Failure("node_lost", "Its machine left the cluster. A new replica takes its place.")
    if reason.startswith("OutOf") or reason in (
        "UnexpectedAdmissionError",
        "NodeAffinity",
        "NodePorts",
        "TopologyAffinityError",
    ):
        return NO_ROOM_AFTER_ALL
    return None


def before_it_ran(failure: Failure | None) -> bool:
    """Whether the kubelet refused the Pod before it did anything with it."""
    return failure is NO_ROOM_AFTER_ALL


def _disrupted(status: Mapping[str, Any], reason: str) -> bool:
    return any(
        one["type"] == "DisruptionTarget" and one.get("reason") == reason and one["status"] == "True"
        for one in status.get("conditions", ())
    )
