"""Why a container serves with fewer replicas than it is to have. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from moorage.containers.states import LIVE, Reason
from moorage.containers.verdict import Verdict
from moorage.containers.views import ContainerView, ReplicaView


def why_fewer(container: ContainerView, seen: Sequence[ReplicaView]) -> Verdict | None:
    """None while the others are on their way, or wait only for what leaves their slots."""
    wanted = set(container.slots)
    missing = wanted - {replica.slot for replica in seen}
    if not missing or not container.image_known:
        return None
    verdict = _waits_for(container, missing)
    if verdict is None:
        return None
    live = wanted & {replica.slot for replica in seen if replica.state in LIVE}
    return replace(verdict, message=f"{len(live)} of {len(wanted)} replicas run. {verdict.message}")


def _waits_for(container: ContainerView, missing: set[int]) -> Verdict | None:
    if container.approval is not None:
        return container.approval
    if missing & container.unpayable_slots:
        return container.unpayable_because
    if container.allowance_spent is not None and missing & container.allowance_spent.slots:
        return container.allowance_spent.verdict
    return Verdict(Reason.NO_CAPACITY, container.no_room_message) if container.room_for <= 0 else None
