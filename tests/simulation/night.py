"""What some of the seeds end with: containers that sleep while nobody asks anything of them, and are woken.

What came before is over, and all of it deleted. What happens here is drawn from streams of its own.
"""

import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moorage.gateway.holding.holder import Holder
from moorage.gateway.holding.limits import HoldLimits
from moorage.gateway.holding.records import HeldRecords
from moorage.gateway.holding.waking import Waker
from moorage.gateway.samples import SampleReporter
from moorage.kit.database import Database
from tests.simulation.actors import Act, BadDay, Users
from tests.simulation.afternoon import DISTURBANCES, PassTime
from tests.simulation.checks import Checks
from tests.simulation.endpoint import Endpoint
from tests.simulation.evening import SETTINGS as WITH_MACHINES
from tests.simulation.faults import CALM, Rates, draw_rates
from tests.simulation.fleet import FleetActs
from tests.simulation.haproxy import SimulatedDataPlane
from tests.simulation.invariants import Invariants
from tests.simulation.invariants_sleep import SleepInvariants
from tests.simulation.passing import watched
from tests.simulation.sleepers import Sleepers
from tests.simulation.tempo import slower_with_a_fleet, slower_with_sleep
from tests.simulation.world import GATEWAY, GatewayParts, ProcessClock, World

_SETTINGS = {"hold_timeout_s": 100, "hold_requests_per_container": 6}
_SHARE = 0.3
"""Of the seeds."""
_PAUSES_S = (0.0, 0.3, 3.0, 20.0, 60.0, 100.0, 200.0, 900.0, 4000.0)
_DEPLOYMENTS = 2
_USERS = ("start", "restart", "scale", "delete", "suspend", "resume")
_OF_SLEEP = 0.85
"""Of what is no disturbance; the rest are what users do on days."""


@dataclass(frozen=True)
class Outline:
    events: int
    bad: float
    machines: bool
    """One more, which may be lost."""
    rates: Rates


def night_of(seed: int) -> Outline | None:
    chance = random.Random(f"night of {seed}")
    if chance.random() >= _SHARE:
        return None
    return Outline(
        events=chance.randrange(8, 14),
        bad=chance.choice((0.0, 0.1, 0.2)),
        machines=chance.random() < 0.3,
        rates=draw_rates(chance),
    )


def settings_of_night(seed: int) -> dict[str, Any]:
    if (outline := night_of(seed)) is None:
        return {}
    return _SETTINGS | (WITH_MACHINES if outline.machines else {})


def night_acts_of(seed: int) -> Counter[str]:
    """What will be done in it."""
    nowhere: Any = None
    if (outline := night_of(seed)) is None:
        return Counter()
    sleepers = Sleepers(nowhere, nowhere, nowhere)
    drawn = (
        _drawn(_chance(seed, number), outline, Users(nowhere), sleepers, BadDay(nowhere))
        for number in range(_DEPLOYMENTS, outline.events)
    )
    return Counter(name for name, _, _ in drawn)


@dataclass
class Night:
    world: World
    seed: int
    outline: Outline
    users: Users
    checks: Checks
    invariants: Invariants
    pass_time: PassTime

    def __post_init__(self) -> None:
        folder = Path(self.world.server.socket_path).parent
        self.endpoint = Endpoint(self.world, folder, self.seed)
        self.fleet = FleetActs(self.world, self.invariants) if self.outline.machines else None
        self.sleepers = Sleepers(self.world, self.users, self.endpoint, self.fleet)

    async def live(self, left_out: frozenset[int], *, single_faults: bool) -> None:
        world, sleepers = self.world, self.sleepers
        world.chance.seed(f"world of the night of {self.seed}")
        world.faults.chance.seed(f"faults of the night of {self.seed}")
        world.faults.crashes_left, world.faults.others_left = 3, 30
        world.story.tell("day", "a night begins")
        world.sign_in_again()
        await self._begin()
        self.checks.all.append(SleepInvariants(world, sleepers, self.invariants, self.checks.watched))
        await self.pass_time(60)
        world.faults.rates = self.outline.rates if single_faults else CALM
        for number in range(self.outline.events):
            world.acting = _chance(self.seed, number)
            name, act, pause_s = _drawn(world.acting, self.outline, self.users, sleepers, BadDay(world))
            if number < _DEPLOYMENTS:
                name, act, pause_s = "deploy a sleeper", sleepers.deploy, 20.0
            world.story.count(name)
            if number not in left_out:
                await watched(act(), self.checks.check)
                await self.pass_time(pause_s)
        await self._rest()

    async def _begin(self) -> None:
        world = self.world
        world.has_sleep = True
        slower_with_sleep()
        await self.endpoint.open()
        world.is_waited_at = self.endpoint.is_waited_at
        world.furnish_gateway = self._gateway
        if self.fleet is not None:
            world.has_fleet = True
            slower_with_a_fleet()
        for name in ("controller1", "controller2", "gateway"):
            world.kill(name)
        if self.fleet is not None:
            await self.fleet.join_first()
        await self.sleepers.gather()

    async def _rest(self) -> None:
        """Faults end, everybody is answered, and what is well serves."""
        world = self.world
        world.faults.rates = CALM
        await self.pass_time(300)
        await watched(self.sleepers.wait_for_all(), self.checks.check)
        if self.fleet is not None:
            await self.fleet.all_come_back()
        await self.sleepers.come_to_rest()
        await self.pass_time(300)
        await watched(self.sleepers.ask_all(), self.checks.check)
        world.acting = _chance(self.seed, self.outline.events)
        await watched(self.sleepers.change_minds(), self.checks.check)

    async def part(self) -> None:
        await self.sleepers.part()
        if self.fleet is not None:
            await self.fleet.part()
        self.checks.check()

    def _gateway(self, database: Database, plane: SimulatedDataPlane, clock: ProcessClock) -> GatewayParts:
        """As the role wires it."""
        settings = self.world.settings
        limits = HoldLimits(
            per_container=settings.hold_requests_per_container,
            at_once=settings.hold_requests,
            bytes_at_once=settings.hold_bytes,
            timeout_s=settings.hold_timeout_s,
        )
        holder = Holder(
            self.endpoint.holder_path,
            self.endpoint.released_path,
            Waker(database, settings, clock),
            HeldRecords(GATEWAY, database, clock),
            limits,
            clock,
        )
        self.endpoint.holder = holder
        samples = SampleReporter(GATEWAY, database, plane, clock)  # type: ignore[arg-type]
        return GatewayParts(holder.applied, (holder.run, samples.run))


def _chance(seed: int, number: int) -> random.Random:
    return random.Random(f"event {number} of the night of {seed}")


def _drawn(
    chance: random.Random, outline: Outline, users: Users, sleepers: Sleepers, day: BadDay
) -> tuple[str, Act, float]:
    pause_s, kind = chance.choice(_PAUSES_S), chance.random()
    if chance.random() < outline.bad:
        acts = [one for one in day.acts() if one[1] in DISTURBANCES]
    elif kind < _OF_SLEEP:
        acts = sleepers.acts()
    else:
        acts = [one for one in users.acts() if one[1] in _USERS]
    ((_, name, act),) = chance.choices(acts, weights=[weight for weight, _, _ in acts])
    return name, act, pause_s
