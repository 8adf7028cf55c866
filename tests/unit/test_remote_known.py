"""Times that a machine tells: its clock may be anywhere, and limits count by ours."""

from datetime import UTC, datetime, timedelta

import pytest

from moorage.engines.base import ObservedReplica, ReplicaPhase
from moorage.engines.remote.known import KnownReplicas
from moorage.engines.remote.machine import Machine, PlacedReplica
from moorage.kit.ids import ContainerId, ReplicaId

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
