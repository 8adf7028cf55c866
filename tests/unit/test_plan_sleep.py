"""Plans of containers that sleep or wake."""

from datetime import timedelta

import pytest
from test_plan import NOW, container, replica

from moorage.containers.planning.plan import make_plan
from moorage.containers.states import ContainerState, DesiredState, ReplicaState, TrialStep


def test_what_stops_for_new_settings_while_it_wakes_wakes_with_those() -> None:
    plan = make_plan(container(waking=True, trial=TrialStep.STOP), [], NOW)
    assert (plan.state, plan.awake, plan.exchange) == (ContainerState.RUNNING, False, True)
    stopped = container(waking=True, trial=TrialStep.STOP, desired_state=DesiredState.STOPPED)
    assert make_plan(stopped, [], NOW).awake, "nobody waits for what was stopped"


@pytest.mark.parametrize(
    ("in_flight", "asleep_s", "drains"), [(0, 59, False), (0, 61, True), (1, 59, False), (1, 61, True)]
)
def test_what_is_still_asleep_after_its_time_keeps_nothing(
    in_flight: int, asleep_s: int, drains: bool
) -> None:
    """A silent gateway's last word may be that it sends requests there, for ever; and a request that may keep it awake has done so."""
    serves = replica(ReplicaState.ROUTED, taking_requests=True, at_gateways=True, in_flight=in_flight)
    plan = make_plan(container(asleep_since=NOW - timedelta(seconds=asleep_s)), [serves], NOW)
    assert [move.to for move in plan.transitions] == ([ReplicaState.DRAINING] if drains else [])
    assert plan.state is ContainerState.RUNNING


def test_what_stops_as_it_falls_asleep_stops_like_anything_else() -> None:
    """Its organization was suspended, say."""
    serves = replica(ReplicaState.ROUTED, at_gateways=True, in_flight=1)
    stops = container(asleep_since=NOW, desired_state=DesiredState.STOPPED)
    assert [move.to for move in make_plan(stops, [serves], NOW).transitions] == [ReplicaState.DRAINING]
