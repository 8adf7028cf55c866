"""What an organization that started too much in vain may still start: what is paid, and nothing else."""

from dataclasses import replace

from test_plan import NOW, container, replica

from moorage.containers.planning.plan import make_plan
from moorage.containers.start_limit import allowance_spent
from moorage.containers.states import ContainerState, ReplicaState, TrialStep
from moorage.containers.verdict import Probe, ProbeFailure

SPENT = allowance_spent(1, 1, NOW)
assert SPENT is not None
OF_SLOT_0 = replace(SPENT, slots=frozenset({0}))
REFUSED = Probe(ProbeFailure.REFUSED)


def test_what_starts_unpaid_is_ended_and_the_deployment_given_up() -> None:
    plan = make_plan(
        container(allowance_spent=OF_SLOT_0), [replica(ReplicaState.STARTING, probe=REFUSED)], NOW
    )
    (move,) = plan.transitions
    assert (move.to, move.verdict) == (ReplicaState.DRAINING, OF_SLOT_0.verdict)
    assert (plan.state, plan.failed, plan.verdict) == (ContainerState.FAILED, True, OF_SLOT_0.verdict)


def test_what_starts_in_a_paid_slot_goes_on() -> None:
    view = container(desired_replicas=2, allowance_spent=OF_SLOT_0)
    plan = make_plan(view, [replica(ReplicaState.STARTING, 1, probe=REFUSED)], NOW)
    assert plan.transitions == ()
    assert plan.create_slots == ()


def test_what_answers_in_time_is_ready_and_paid() -> None:
    answers = replica(ReplicaState.STARTING, probe=Probe(None, 200))
    plan = make_plan(container(allowance_spent=OF_SLOT_0), [answers], NOW)
    assert [move.to for move in plan.transitions] == [ReplicaState.READY]


def test_nothing_is_started_until_the_next_day() -> None:
    plan = make_plan(container(allowance_spent=OF_SLOT_0), [], NOW)
    assert (plan.create_slots, plan.state, plan.verdict) == ((), ContainerState.STARTING, OF_SLOT_0.verdict)
    assert plan.look_again_in_s == 300


def test_a_draft_on_trial_does_not_wait_for_it() -> None:
    plan = make_plan(container(allowance_spent=OF_SLOT_0, trial=TrialStep.PROVE), [], NOW)
    assert plan.go_back == OF_SLOT_0.verdict


def test_one_that_serves_says_that_its_other_replica_may_not_start() -> None:
    view = container(desired_replicas=2, serving_generation=1, allowance_spent=OF_SLOT_0)
    plan = make_plan(view, [replica(ReplicaState.ROUTED, 1)], NOW)
    assert plan.state is ContainerState.RUNNING
    assert plan.verdict == replace(
        OF_SLOT_0.verdict, message=f"1 of 2 replicas run. {OF_SLOT_0.verdict.message}"
    )
