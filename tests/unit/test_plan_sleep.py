"""Plans of containers that sleep or wake."""

from test_plan import NOW, container

from moorage.containers.plan import make_plan
from moorage.containers.states import ContainerState, DesiredState, TrialStep


def test_what_stops_for_new_settings_while_it_wakes_wakes_with_those() -> None:
    plan = make_plan(container(waking=True, trial=TrialStep.STOP), [], NOW)
    assert (plan.state, plan.awake, plan.exchange) == (ContainerState.RUNNING, False, True)
    stopped = container(waking=True, trial=TrialStep.STOP, desired_state=DesiredState.STOPPED)
    assert make_plan(stopped, [], NOW).awake, "nobody waits for what was stopped"
