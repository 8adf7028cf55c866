"""What a plan says about a container that sleeps or wakes. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from moorage.containers.states import ContainerState, ReplicaState
from moorage.containers.views import ContainerView, Plan, ReplicaView

_COMES_UP = (ContainerState.PENDING, ContainerState.PULLING, ContainerState.STARTING)


def is_in_use(replica: ReplicaView) -> bool:
    """Of a container that falls asleep: a gateway still sends it requests, or has not said that all have ended. A request
    that arrived at the last moment is served to its end, and then it is not idle (`autoscaling/sleep` lets it stay awake)."""
    serves = replica.state in (ReplicaState.READY, ReplicaState.ROUTED)
    return serves and not replica.unfunded and (replica.taking_requests or replica.in_flight > 0)


def while_waking(plan: Plan, container: ContainerView, seen: Sequence[ReplicaView]) -> Plan:
    """It stays RUNNING until it serves again, or until it is known that it does not."""
    if not container.waking:
        return plan
    if plan.go_back is not None:
        # New settings failed; those from before are what it wakes with.
        return replace(plan, state=ContainerState.RUNNING)
    serves = any(replica.state is ReplicaState.ROUTED for replica in seen)
    if serves or plan.failed or plan.state not in (*_COMES_UP, ContainerState.RUNNING):
        return replace(plan, awake=True)
    return replace(plan, state=ContainerState.RUNNING)
