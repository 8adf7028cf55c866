"""From Docker's `inspect` answer to an `ObservedReplica`. Pure."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from moorage.engines.base import ObservedReplica, ReplicaPhase
from moorage.engines.docker.create import (
    LABEL_CONTAINER,
    LABEL_GENERATION,
    LABEL_REPLICA,
    LABEL_SLOT,
)
from moorage.kit.ids import ContainerId, ReplicaId

_PHASES = {
    "created": ReplicaPhase.CREATED,
    "running": ReplicaPhase.RUNNING,
    "paused": ReplicaPhase.RUNNING,
    "restarting": ReplicaPhase.RUNNING,
    "removing": ReplicaPhase.EXITED,
    "exited": ReplicaPhase.EXITED,
    "dead": ReplicaPhase.EXITED,
}


def observed_replica(inspected: Mapping[str, Any]) -> ObservedReplica:
    labels, state = inspected["Config"]["Labels"], inspected["State"]
    phase = _PHASES[state["Status"]]
    host, host_port = _published_on(inspected["HostConfig"])
    return ObservedReplica(
        replica_id=ReplicaId(labels[LABEL_REPLICA]),
        container_id=ContainerId(labels[LABEL_CONTAINER]),
        slot=int(labels[LABEL_SLOT]),
        generation=int(labels[LABEL_GENERATION]),
        engine_id=inspected["Id"],
        phase=phase,
        host=host,
        host_port=host_port,
        started_at=moment_of(state["StartedAt"]) if phase is not ReplicaPhase.CREATED else None,
        ended_at=moment_of(state["FinishedAt"]) if phase is ReplicaPhase.EXITED else None,
        exit_code=int(state["ExitCode"]) if phase is ReplicaPhase.EXITED else None,
        out_of_memory=bool(state["OOMKilled"]),
    )


def _published_on(host_config: Mapping[str, Any]) -> tuple[str, int]:
    # What was asked for, not what is bound just now: an exited replica has its port still written here.
    ((binding,),) = host_config["PortBindings"].values()
    return str(binding["HostIp"]), int(binding["HostPort"])


def moment_of(text: str) -> datetime | None:
    # Docker's year 1 stands for "never". Python reads at most microseconds.
    if text.startswith("0001-"):
        return None
    whole, _, fraction = text.removesuffix("Z").partition(".")
    return datetime.fromisoformat(f"{whole}.{fraction[:6]:0<6}+00:00")
