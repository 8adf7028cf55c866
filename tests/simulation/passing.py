"""How virtual time passes: in full while something goes on, and skipped while nothing does.

While everybody only looks in vain and renews leases, hours may pass at once: leases, signs of life and the processes'
own timers are moved along, so that nobody can tell. Nothing is skipped that is due: an hour to renew, a container to
look at, a process that will end. Nor while somebody could tell: a call to the engine would take minutes longer, and the
lease that a dead process left would never run out.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime

from moorage.reconcile.lease import Lease
from tests.simulation.parts import DUE, SLEEP_DUE
from tests.simulation.tempo import REPORTS_CONTINUE_S
from tests.simulation.world import World

LOOK_EVERY_S = 6.0
_SHORTEST_SKIP_S = 20.0
_MARGIN_S = 3.0
_RESTLESS_S = 40.0
"""What goes on for longer than this is waiting for something: then time is skipped in small steps."""
_RESTLESS_STEP_S = 150.0
_AWAKE_S = 24.0
"""For so long between two such steps: or whoever looks once in a minute, as the sweep does, would look once in half an hour."""
_NOBODY_THERE_S = 30.0
"""After so long without a controller, the gateway has heard of everything that there was to hear."""

_QUIET = """
SELECT (SELECT count(*) FROM replicas r
    WHERE r.state NOT IN ('routed', 'removed') OR (r.state = 'removed' AND r.port_released_at IS NULL)),
extract(epoch FROM (SELECT min(reconcile_at) FROM containers) - sim.clock_timestamp()),
extract(epoch FROM (SELECT min(due_at) FROM hours) - sim.clock_timestamp()),
(SELECT string_agg(id, ' ') FROM replicas WHERE state = 'routed'),
extract(epoch FROM least({due}) - sim.clock_timestamp())
"""


async def pass_time(world: World, seconds: float, leases: list[Lease], look: Callable[[], None]) -> None:
    """`look` is called after every piece of it."""
    until_s = world.now_s() + seconds
    restless_s = alone_s = 0.0
    while world.now_s() < until_s:
        step_s = min(LOOK_EVERY_S, until_s - world.now_s())
        await asyncio.sleep(step_s)
        world.collect_logs()
        look()
        left_s = until_s - world.now_s()
        led = is_led(world)
        restless_s = restless_s + step_s if led else 0.0
        alone_s = 0.0 if _somebody_reconciles(world) else alone_s + step_s
        if left_s < _SHORTEST_SKIP_S or not _may_skip(world):
            continue
        if not led:
            if alone_s > _NOBODY_THERE_S:
                _skip(world, left_s, leases, looked_at=False)
            continue
        settled, container_s, hour_s = _next_due_s(world)
        quiet_s = min(container_s, hour_s) if settled else 0.0
        if quiet_s - _MARGIN_S >= _SHORTEST_SKIP_S:
            restless_s = 0.0
            _skip(world, min(quiet_s - _MARGIN_S, left_s), leases)
            look()
        elif restless_s > _RESTLESS_S and hour_s - _MARGIN_S >= _SHORTEST_SKIP_S:
            # Somebody tries again and again, or waits for a bound; but no hour is missed meanwhile.
            _skip(world, min(_RESTLESS_STEP_S, hour_s - _MARGIN_S, left_s), leases)
            restless_s = _RESTLESS_S - _AWAKE_S


@dataclass
class TimeAwake:
    """How much time passed between two looks in which somebody could do something: what was skipped does not count."""

    world: World
    _looked_at_s: float = 0.0

    def passed_s(self) -> float:
        passed_s = min(self.world.now_s() - self._looked_at_s, LOOK_EVERY_S)
        self._looked_at_s = self.world.now_s()
        return passed_s


async def watched(act: Awaitable[None], look: Callable[[], None]) -> None:
    """Until it is done. It may take minutes, so `look` is called meanwhile as often as at other times: what is only true
    for a while, as what ran when an hour was bought, would be looked for too late."""
    acting = asyncio.ensure_future(act)
    while not acting.done():
        await asyncio.wait({acting}, timeout=LOOK_EVERY_S)
        look()
    await acting


def _may_skip(world: World) -> bool:
    """Also while a process is dead, up to its next start; not while one is stopped, or waits for an answer."""
    living = [one for one in world.processes.values() if one.alive]
    moving = not any(one.stopped for one in living)
    waiting = any(engine.under_way for one in living for engine in world.engines.get(one.name, ()))
    if waiting or world.is_waited_at() or world.now_s() < world.noticed_at_s:
        return False
    starts_s = world.loop.next_of_nobody_s() - world.now_s() - _MARGIN_S
    return moving and starts_s > _SHORTEST_SKIP_S and world.wire.is_idle() and not world.faults.postgres_away


def _somebody_reconciles(world: World) -> bool:
    return any(one.alive for name, one in world.processes.items() if name.startswith("controller"))


def is_led(world: World) -> bool:
    """All that is reconciled, by living processes: what a dead one led is taken over once its lease has run out."""
    drivers = [one for its in world.drivers.values() for one in its]
    led = {one.reconciler.name for one in drivers if one._leads}
    return bool(drivers) and led == {one.reconciler.name for one in drivers}


def _next_due_s(world: World) -> tuple[bool, float, float]:
    """Whether no replica is on its way anywhere, none ended unnoticed, and a machine has none that it should not have; in how
    many seconds a container and an hour are due."""
    parts = [DUE[part] for part in sorted(world.parts) if part in DUE] + [SLEEP_DUE] * world.has_sleep
    due = ", ".join(f"({part})" for part in parts) or "NULL::timestamptz"
    ((unsettled, container_s, hour_s, routed, other_s),) = world.query(_QUIET.format(due=due))
    noticed = set((routed or "").split()) == {one.spec.replica_id for one in world.replicas()}
    ends_s = 1e9
    now: datetime = world.machine.clock.now()
    for one in world.running():
        if one.ends_at is not None:
            ends_s = min(ends_s, (one.ends_at - now).total_seconds())
    due_s = float(container_s) if container_s is not None else 1e9
    other_due_s = float(other_s) if other_s is not None else 1e9
    return (
        unsettled == "0" and noticed,
        min(due_s, ends_s, other_due_s),
        float(hour_s) if hour_s is not None else 1e9,
    )


def _skip(world: World, seconds: float, leases: list[Lease], *, looked_at: bool = True) -> None:
    """No further than what is to happen to a process: that stays where it is. `looked_at`: somebody is there who would
    have looked at whatever is due meanwhile, so that its limits go on counting."""
    seconds = min(seconds, world.loop.next_of_nobody_s() - world.now_s() - _MARGIN_S)
    living = ", ".join(f"'{name}'" for name, one in world.processes.items() if one.alive) or "NULL"
    world.query(
        f"""UPDATE leases SET expires_at = expires_at + interval '{seconds} seconds'
        WHERE expires_at > sim.clock_timestamp() AND holder IN ({living});
        UPDATE gateways SET seen_at = seen_at + interval '{seconds} seconds';
        UPDATE nodes SET seen_at = seen_at + interval '{seconds} seconds';
        UPDATE machines SET seen_at = seen_at + interval '{seconds} seconds';
        UPDATE reconciler_status SET last_run_at = last_run_at + interval '{seconds} seconds'"""
    )
    if looked_at:
        world.query(
            f"""UPDATE containers SET next_look_at = next_look_at + interval '{seconds} seconds'
            WHERE next_look_at < sim.clock_timestamp() + interval '{seconds} seconds'"""
        )
    if world.has_sleep and world.processes["gateway"].alive:
        # It said every second that nothing was asked.
        world.query(
            f"""UPDATE gateway_reports SET until = until + interval '{seconds} seconds'
            WHERE until > sim.clock_timestamp() - interval '{REPORTS_CONTINUE_S} seconds'"""
        )
    for lease in leases:
        lease.deadline_s += seconds
    world.loop.skip(seconds)
    for machine in world.machines():
        machine.look_again()
    world.story.counts["hours skipped"] += seconds / 3600  # type: ignore[assignment]
