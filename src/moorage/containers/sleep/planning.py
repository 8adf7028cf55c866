"""What a plan says about a container that sleeps or wakes. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from moorage.containers.states import ContainerState, DesiredState, ReplicaState, TrialStep
from moorage.containers.views import ContainerView, Plan, ReplicaView

_COMES_UP = (ContainerState.PENDING, ContainerState.PULLING, ContainerState.STARTING)


def is_in_use(replica: ReplicaView) -> bool:
    """Of a container that falls asleep: a gateway still sends it requests, or has not said that all have ended. A request
    that arrived at the last moment keeps it awake, and is paid for (`autoscaling/sleep`). Whoever cannot pay for that has what
    remains of the time to fall asleep and of the drain limit; and a gateway that has long said nothing new is perhaps lost."""
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
    # It stops for new settings, and wakes with those: whoever waits for it waits for them.
    changes = container.trial is TrialStep.STOP and container.desired_state is DesiredState.RUNNING
    comes_up = changes or plan.state in (*_COMES_UP, ContainerState.RUNNING)
    if serves or plan.failed or not comes_up:
        return replace(plan, awake=True)
    return replace(plan, state=ContainerState.RUNNING)
