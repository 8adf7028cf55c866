"""Which setting would fix a failure, and where nothing is offered because it would be a guess."""

from datetime import timedelta

import pytest
from test_plan import NOW, container, engine_says, replica

from moorage.catalog.defaults import default_catalogue
from moorage.containers.fixes import next_larger, with_setting
from moorage.containers.planning.plan import make_plan
from moorage.containers.states import Reason, ReplicaState
from moorage.containers.verdict import Fix, Probe, ProbeFailure, verdict_while_unready
from moorage.engines.base import ListeningSocket, ReplicaPhase
from moorage.kit.ids import ReplicaId

CATALOGUE = {one.name: one for one in default_catalogue()}
OTHER_PORT = ListeningSocket("0.0.0.0", 9000)
LOOPBACK = ListeningSocket("127.0.0.1", 9000)
REFUSED, SLOW = Probe(ProbeFailure.REFUSED), Probe(ProbeFailure.TIMEOUT)


def status(code: int) -> Probe:
    return Probe(ProbeFailure.STATUS, code)


@pytest.mark.parametrize(
    ("probe", "sockets", "timeout_s", "expected"),
    [
        (REFUSED, (OTHER_PORT,), 60, Fix("port", 8000, 9000)),
        (REFUSED, (OTHER_PORT, ListeningSocket("::", 9000)), 60, Fix("port", 8000, 9000)),
        (REFUSED, (OTHER_PORT, LOOPBACK, ListeningSocket("127.0.0.1", 5000)), 60, Fix("port", 8000, 9000)),
        (REFUSED, (OTHER_PORT, ListeningSocket("0.0.0.0", 9001)), 60, None),
        (REFUSED, (LOOPBACK,), 60, None),
        (REFUSED, (ListeningSocket("127.0.0.1", 8000),), 60, None),
        (REFUSED, (), 60, Fix("health_check.timeout_s", 60, 120)),
        (REFUSED, (), 2000, Fix("health_check.timeout_s", 2000, 3600)),
        (REFUSED, (), 3600, None),
        (SLOW, (ListeningSocket("0.0.0.0", 8000),), 60, Fix("health_check.timeout_s", 60, 120)),
        (status(503), (ListeningSocket("0.0.0.0", 8000),), 60, Fix("health_check.timeout_s", 60, 120)),
        (status(404), (ListeningSocket("0.0.0.0", 8000),), 60, None),
        (status(500), (ListeningSocket("0.0.0.0", 8000),), 60, None),
    ],
)
def test_not_ready_in_time(
    probe: Probe, sockets: tuple[ListeningSocket, ...], timeout_s: int, expected: Fix | None
) -> None:
    verdict = verdict_while_unready(probe, sockets, 8000, "/health", timeout_s)
    assert with_setting(verdict, probe.status, sockets, 8000, timeout_s).fix == expected


@pytest.mark.parametrize(
    ("current", "larger"),
    [("cpu-nano", "cpu-small"), ("cpu-small", "cpu-medium"), ("cpu-large", None), ("l4-24gb", None)],
)
def test_the_next_larger_type_has_the_same_gpus(current: str, larger: str | None) -> None:
    found = next_larger(CATALOGUE[current], CATALOGUE.values())
    assert (found.name if found else None) == larger


def test_out_of_memory() -> None:
    ended = engine_says(ReplicaId("rep_0"), ReplicaPhase.EXITED, exit_code=137, oom=True)
    view = container(instance_type="cpu-nano", larger_instance_type="cpu-small")
    plan = make_plan(view, [replica(ReplicaState.STARTING, observed=ended)], NOW)
    assert plan.failed
    assert plan.verdict is not None
    assert plan.verdict.fix == Fix("resources.instance_type", "cpu-nano", "cpu-small")


def test_a_deployment_that_fails_carries_the_fix() -> None:
    starting = replica(
        ReplicaState.STARTING, started_at=NOW - timedelta(seconds=61), probe=REFUSED, sockets=(OTHER_PORT,)
    )
    plan = make_plan(container(), [starting], NOW)
    assert (plan.failed, plan.verdict and plan.verdict.fix) == (True, Fix("port", 8000, 9000))


def test_a_crash_offers_nothing() -> None:
    ended = engine_says(ReplicaId("rep_0"), ReplicaPhase.EXITED, exit_code=1)
    view = container(instance_type="cpu-nano", larger_instance_type="cpu-small")
    plan = make_plan(view, [replica(ReplicaState.STARTING, observed=ended)], NOW)
    assert plan.verdict is not None
    assert (plan.verdict.reason, plan.verdict.fix) == (Reason.EXITED, None)


def test_json_goes_there_and_back() -> None:
    fix = Fix("port", 8000, 9000)
    assert Fix.from_json(fix.to_json()) == fix
    assert fix.to_json() == {"field": "port", "from": 8000, "to": 9000}
    assert Fix.from_json(None) is None
