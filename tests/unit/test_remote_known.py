"""Times that a machine tells: its clock may be anywhere, and limits count by ours."""

from datetime import UTC, datetime, timedelta

import pytest

from moorage.engines.base import ObservedReplica, ReplicaPhase
from moorage.engines.remote.known import KnownReplicas
from moorage.engines.remote.machine import Machine, PlacedReplica
from moorage.kit.clock import system_clock
from moorage.kit.ids import ContainerId, ReplicaId
from tests.unit.remote_machines import engine_at, machine_that, says

REPLICA, CONTAINER = ReplicaId("rep_" + "a" * 20), ContainerId("ctr_" + "a" * 20)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
A_MOMENT = timedelta(seconds=2)


def said(started_at: datetime, ended_at: datetime | None = None) -> ObservedReplica:
    return ObservedReplica(
        replica_id=REPLICA,
        container_id=CONTAINER,
        slot=0,
        generation=1,
        engine_id="abc",
        phase=ReplicaPhase.RUNNING if ended_at is None else ReplicaPhase.EXITED,
        host=None,
        host_port=20000,
        started_at=started_at,
        ended_at=ended_at,
        exit_code=None if ended_at is None else 1,
        out_of_memory=False,
    )


@pytest.mark.parametrize("ahead", [timedelta(hours=-1), timedelta(seconds=-25), timedelta(hours=1)])
def test_a_replica_starts_after_it_was_asked_for_and_ends_after_it_was_seen_to_run(ahead: timedelta) -> None:
    known = KnownReplicas(Machine("rack-7", "operator", "10.99.0.2", 7420, "secret"))
    known.note({REPLICA: PlacedReplica(CONTAINER, True, NOON)}, 0.0)
    started = known.checked(said(NOON + A_MOMENT + ahead), NOON + 2 * A_MOMENT).started_at
    assert started is not None
    assert NOON <= started <= NOON + 2 * A_MOMENT
    later = NOON + timedelta(minutes=10)
    known.checked(said(NOON + ahead), later)
    ended = known.checked(said(NOON + ahead, later + A_MOMENT + ahead), later + 2 * A_MOMENT)
    assert ended.started_at == started or ahead < timedelta()
    assert ended.ended_at is not None
    assert later <= ended.ended_at <= later + 2 * A_MOMENT


def test_what_is_right_is_believed() -> None:
    known = KnownReplicas(Machine("rack-7", "operator", "10.99.0.2", 7420, "secret"))
    known.note({REPLICA: PlacedReplica(CONTAINER, True, NOON)}, 0.0)
    found = known.checked(said(NOON + A_MOMENT, NOON + 2 * A_MOMENT), NOON + timedelta(minutes=1))
    assert (found.started_at, found.ended_at) == (NOON + A_MOMENT, NOON + 2 * A_MOMENT)


@pytest.mark.parametrize(
    ("ran_until", "booted_at", "code"),
    [
        (NOON + A_MOMENT * 30, NOON + A_MOMENT * 40, "node_lost"),
        (NOON + A_MOMENT * 50, NOON + A_MOMENT * 40, "node_lost"),
        (NOON + A_MOMENT * 50, NOON - A_MOMENT, None),
        (None, NOON + A_MOMENT * 40, None),
    ],
    ids=[
        "ended when it was shut down",
        "found ended when it was up again",
        "ended by itself",
        "runs, whatever it says of its clock",
    ],
)
def test_what_ends_when_its_machine_restarts_did_not_fail(
    ran_until: datetime | None, booted_at: datetime, code: str | None
) -> None:
    known = KnownReplicas(Machine("rack-7", "operator", "10.99.0.2", 7420, "secret"))
    known.note({REPLICA: PlacedReplica(CONTAINER, True, NOON)}, 0.0)
    found = known.checked(
        said(NOON + A_MOMENT, ran_until), NOON + timedelta(minutes=10), booted_at.timestamp()
    )
    assert (found.failure.code if found.failure is not None else None) == code


async def test_a_machine_says_with_each_answer_since_when_it_is_up() -> None:
    hour_ago = system_clock.now() - timedelta(hours=1)
    ended = said(hour_ago, system_clock.now())
    async with machine_that(says(ended, monotonic_s=60.0)) as port:
        engine = engine_at(port, {REPLICA: PlacedReplica(CONTAINER, True, hour_ago)})
        found = await engine.inspect(REPLICA)
        await engine.close()
    assert found is not None
    assert found.failure is not None
    assert found.failure.code == "node_lost"
