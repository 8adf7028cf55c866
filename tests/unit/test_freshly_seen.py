"""A pass may take over what the engine said a moment ago, and never what it has spoken about since."""

from moorage.containers.reconciler.fresh import FRESH_FOR_S, FreshlySeen
from moorage.engines.base import ObservedReplica, ReplicaPhase
from moorage.kit import ids
from moorage.kit.clock import VirtualClock

CONTAINER, REPLICA = ids.new_container_id(), ids.new_replica_id()


def seen(phase: ReplicaPhase = ReplicaPhase.RUNNING) -> ObservedReplica:
    return ObservedReplica(
        replica_id=REPLICA,
        container_id=CONTAINER,
        slot=0,
        generation=1,
        engine_id="engine",
        phase=phase,
        host="127.0.0.1",
        host_port=20000,
        started_at=None,
        ended_at=None,
        exit_code=None,
        out_of_memory=False,
    )


def test_taken_once() -> None:
    fresh = FreshlySeen(VirtualClock())
    fresh.put(CONTAINER, seen(), fresh.words)
    assert fresh.take(CONTAINER, REPLICA) is not None
    assert fresh.take(CONTAINER, REPLICA) is None


async def test_not_after_its_time() -> None:
    clock = VirtualClock()
    fresh = FreshlySeen(clock)
    fresh.put(CONTAINER, seen(), fresh.words)
    await clock.advance(FRESH_FOR_S)
    assert fresh.take(CONTAINER, REPLICA) is None


def test_not_once_the_engine_has_spoken() -> None:
    fresh = FreshlySeen(VirtualClock())
    fresh.put(CONTAINER, seen(), fresh.words)
    fresh.engine_spoke(CONTAINER)
    assert fresh.take(CONTAINER, REPLICA) is None


def test_not_if_the_engine_spoke_while_we_looked() -> None:
    fresh = FreshlySeen(VirtualClock())
    before = fresh.words
    fresh.engine_spoke(CONTAINER)
    fresh.put(CONTAINER, seen(), before)
    assert fresh.take(CONTAINER, REPLICA) is None


def test_only_what_runs() -> None:
    fresh = FreshlySeen(VirtualClock())
    fresh.put(CONTAINER, seen(ReplicaPhase.EXITED), fresh.words)
    assert fresh.take(CONTAINER, REPLICA) is None
