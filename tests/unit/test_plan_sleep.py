"""Plans of containers that sleep or wake."""

from datetime import timedelta

import pytest
from test_plan import NOW, container, replica

from moorage.containers.plan import make_plan
from moorage.containers.states import ContainerState, DesiredState, ReplicaState, TrialStep


def test_what_stops_for_new_settings_while_it_wakes_wakes_with_those() -> None:
    plan = make_plan(container(waking=True, trial=TrialStep.STOP), [], NOW)
    assert (plan.state, plan.awake, plan.exchange) == (ContainerState.RUNNING, False, True)
    stopped = container(waking=True, trial=TrialStep.STOP, desired_state=DesiredState.STOPPED)
    assert make_plan(stopped, [], NOW).awake, "nobody waits for what was stopped"


@pytest.mark.parametrize(
    ("in_flight", "unheard_s", "drains"), [(0, 59, False), (0, 61, True), (1, 61, False)]
)
def test_a_gateway_that_fell_silent_keeps_awake_only_what_has_requests(
    in_flight: int, unheard_s: int, drains: bool
) -> None:
    """Its last word may be that it sends requests there, for ever."""
    serves = replica(ReplicaState.ROUTED, taking_requests=True, at_gateways=True, in_flight=in_flight)
    plan = make_plan(container(asleep_since=NOW - timedelta(seconds=unheard_s)), [serves], NOW)
    assert [move.to for move in plan.transitions] == ([ReplicaState.DRAINING] if drains else [])
    assert plan.state is ContainerState.RUNNING
