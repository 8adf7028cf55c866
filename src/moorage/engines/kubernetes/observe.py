"""From a Pod, and the node that it is on, to an `ObservedReplica`. Pure.

Kubernetes promises no *at most once*, even where nothing is to be restarted: a kubelet that was killed at the wrong moment, or a
node that came back, may start a container again. A second start counts as an end: the plan replaces it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from moorage.engines.base import Failure, ObservedReplica, ReplicaPhase
from moorage.engines.kubernetes.door_body import door_port, has_door
from moorage.engines.kubernetes.names import (
    DOOR,
    GATE,
    LABEL_CONTAINER,
    LABEL_GENERATION,
    LABEL_REPLICA,
    LABEL_SLOT,
    MAIN,
    PodKey,
)
from moorage.engines.kubernetes.nodes import NodeSeen
from moorage.engines.kubernetes.reasons import (
    NO_DOOR,
    PULLING_FAILS,
    before_it_ran,
    never_started,
    why_door_fails,
    why_not_started,
    why_rejected,
    why_waiting_fails,
)
from moorage.kit.ids import ContainerId, ReplicaId

_KILLED = 137
_RAN_AGAIN = Failure("node_lost", "Its machine restarted it by itself. A new replica takes its place.")


@dataclass(frozen=True)
class TicketState:
    """What the pull proxy knows of a replica's pull."""

    open: bool = False
    refused: Failure | None = None
    """Why the image cannot be had."""
    door_refused: bool = False
    """The door's image cannot be had, which is nobody's fault who deploys."""


@dataclass(frozen=True)
class _Life:
    phase: ReplicaPhase
    failure: Failure | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    exit_code: int | None = None
    out_of_memory: bool = False


def observed_replica(
    pod: Mapping[str, Any],
    node: NodeSeen | None,
    ticket: TicketState,
    now: datetime,
    pull_timeout: timedelta,
) -> ObservedReplica:
    labels, status = pod["metadata"]["labels"], pod.get("status", {})
    life = _life(pod, ticket, now, pull_timeout)
    address = status.get("podIP")
    silent = node is not None and not node.ready and life.phase is not ReplicaPhase.EXITED
    return ObservedReplica(
        replica_id=ReplicaId(labels[LABEL_REPLICA]),
        container_id=ContainerId(labels[LABEL_CONTAINER]),
        slot=int(labels[LABEL_SLOT]),
        generation=int(labels[LABEL_GENERATION]),
        engine_id=PodKey.of(pod).engine_id,
        phase=life.phase,
        host=address,
        host_port=_port(pod) if address else None,
        has_door=has_door(pod),
        started_at=life.started_at,
        ended_at=life.ended_at,
        exit_code=life.exit_code,
        out_of_memory=life.out_of_memory,
        failure=life.failure,
        node=pod.get("spec", {}).get("nodeName"),
        unreachable_since=node.unready_since if silent and node is not None else None,
    )


def main_status(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    statuses = pod.get("status", {}).get("containerStatuses") or ()
    return next((one for one in statuses if one["name"] == MAIN), {})


def has_begun(pod: Mapping[str, Any]) -> bool:
    """Its image is not needed any more: its process began, or never will."""
    return "running" in main_status(pod).get("state", {}) or has_ended(pod)


def has_ended(pod: Mapping[str, Any]) -> bool:
    """Its process ended, or never will begin."""
    return "terminated" in main_status(pod).get("state", {}) or _has_ended(pod)


def fingerprint(pod: Mapping[str, Any]) -> tuple[Any, ...]:
    """What of a Pod is worth a look when it changes."""
    status, main = pod.get("status", {}), main_status(pod)
    state = main.get("state", {})
    kind = next(iter(state), "")
    scheduled = _condition(pod, "PodScheduled")
    return (
        pod["metadata"]["uid"],
        status.get("phase"),
        status.get("reason"),
        status.get("podIP"),
        pod.get("spec", {}).get("nodeName"),
        scheduled and scheduled.get("reason"),
        kind,
        (state.get(kind) or {}).get("reason"),
        (_door_status(pod).get("waiting") or {}).get("reason"),
        main.get("restartCount", 0),
        "deletionTimestamp" in pod["metadata"],
    )


def changed_at(pod: Mapping[str, Any]) -> datetime | None:
    """When something was last said of it, as far as that is written down."""
    metadata, state = pod["metadata"], main_status(pod).get("state", {})
    times = [metadata.get("creationTimestamp"), metadata.get("deletionTimestamp")]
    times += [one.get("lastTransitionTime") for one in pod.get("status", {}).get("conditions") or ()]
    times += [
        (state.get("running") or {}).get("startedAt"),
        (state.get("terminated") or {}).get("finishedAt"),
    ]
    return max((moment for text in times if (moment := time_of(text)) is not None), default=None)


def time_of(text: str | None) -> datetime | None:
    # The year 1970 stands for "never".
    return None if text is None or text.startswith("1970-") else datetime.fromisoformat(text)


def _life(pod: Mapping[str, Any], ticket: TicketState, now: datetime, pull_timeout: timedelta) -> _Life:
    status, main = pod.get("status", {}), main_status(pod)
    state = main.get("state", {})
    terminated = state.get("terminated") or (main.get("lastState", {}).get("terminated"))
    rejected = why_rejected(status) if _has_ended(pod) else None
    if main.get("restartCount", 0) > 0:
        return _ended(pod, terminated, _RAN_AGAIN)
    if terminated is not None and not never_started(terminated):
        return _ended(pod, terminated, rejected)
    if terminated is not None:
        return _Life(ReplicaPhase.CREATED, why_not_started(str(terminated.get("message", ""))))
    if before_it_ran(rejected):
        return _Life(ReplicaPhase.CREATED, rejected)
    if _has_ended(pod):
        return _ended(pod, None, rejected)
    if "running" in state:
        return _Life(ReplicaPhase.RUNNING, started_at=time_of(state["running"].get("startedAt")))
    return _before_its_start(pod, state.get("waiting") or {}, ticket, now, pull_timeout)


def _before_its_start(
    pod: Mapping[str, Any],
    waiting: Mapping[str, Any],
    ticket: TicketState,
    now: datetime,
    pull_timeout: timedelta,
) -> _Life:
    if any(gate["name"] == GATE for gate in pod.get("spec", {}).get("schedulingGates") or ()):
        # Made, and its Secrets not yet, perhaps because whoever made it is gone: it is started again, and adopted.
        return _Life(ReplicaPhase.CREATED)
    scheduled = _condition(pod, "PodScheduled")
    if scheduled is None or scheduled["status"] != "True":
        return _Life(ReplicaPhase.WAITING)
    if ticket.refused is not None:
        return _Life(ReplicaPhase.PULLING, ticket.refused)
    scheduled_at = time_of(scheduled.get("lastTransitionTime"))
    beside = _door_status(pod).get("waiting") or {}
    if ticket.door_refused or why_door_fails(beside, scheduled_at, now):
        return _Life(ReplicaPhase.PULLING, NO_DOOR)
    if not ticket.open and beside.get("reason") in PULLING_FAILS:
        return _Life(ReplicaPhase.CREATED)
    failure = why_waiting_fails(waiting, scheduled_at, now, pull_timeout)
    if failure is None and not ticket.open and waiting.get("reason") in PULLING_FAILS:
        # Its ticket ended with the process that gave it out: it is started again, and gets another.
        return _Life(ReplicaPhase.CREATED)
    return _Life(ReplicaPhase.PULLING, failure)


def _ended(pod: Mapping[str, Any], terminated: Mapping[str, Any] | None, failure: Failure | None) -> _Life:
    told = terminated or {}
    out_of_memory = told.get("reason") == "OOMKilled"
    return _Life(
        ReplicaPhase.EXITED,
        failure,
        started_at=time_of(told.get("startedAt")),
        ended_at=time_of(told.get("finishedAt")) or changed_at(pod),
        # Some runtimes tell of a process that was killed for its memory without the code.
        exit_code=_KILLED if out_of_memory else told.get("exitCode"),
        out_of_memory=out_of_memory,
    )


def _has_ended(pod: Mapping[str, Any]) -> bool:
    """The kubelet may say so before its process has."""
    phase = pod.get("status", {}).get("phase")
    return phase in ("Succeeded", "Failed") and "running" not in main_status(pod).get("state", {})


def _condition(pod: Mapping[str, Any], kind: str) -> Mapping[str, Any] | None:
    conditions = pod.get("status", {}).get("conditions") or ()
    return next((one for one in conditions if one["type"] == kind), None)


def _port(pod: Mapping[str, Any]) -> int:
    main = next(one for one in pod["spec"]["containers"] if one["name"] == MAIN)
    port = int(main["ports"][0]["containerPort"])
    return door_port(port) if has_door(pod) else port


def _door_status(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    statuses = pod.get("status", {}).get("initContainerStatuses") or ()
    found: Mapping[str, Any] = next((one.get("state", {}) for one in statuses if one["name"] == DOOR), {})
    return found
