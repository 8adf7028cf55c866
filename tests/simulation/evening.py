"""What some of the seeds have at their end: machines that join, and everything that becomes of them.

What came before is over, and all of it deleted. What happens here is drawn from streams of its own.
"""

import random
from collections import Counter
from dataclasses import dataclass
from typing import Any

from tests.simulation.actors import Act, BadDay, Users
from tests.simulation.afternoon import DISTURBANCES, PassTime
from tests.simulation.checks import Checks
from tests.simulation.faults import CALM, Rates, draw_rates
from tests.simulation.fleet import FleetActs
from tests.simulation.invariants import Invariants
from tests.simulation.invariants_fleet import FleetInvariants
from tests.simulation.passing import watched
from tests.simulation.tempo import slower_with_a_fleet
from tests.simulation.world import World

SETTINGS = {"public_url": "https://moorage.example.com"}
"""Machines join over HTTPS."""
_SHARE = 0.4
"""Of the seeds."""
_PAUSES_S = (0.0, 0.01, 0.3, 3.0, 20.0, 60.0, 200.0, 900.0)
_CREDIT_MICROUSD = 60_000_000
_DEPLOYMENTS = 2
_USERS = ("create", "stop", "start", "restart", "scale", "update beside", "delete")
"""Of what users do in a day."""


@dataclass(frozen=True)
class Outline:
    events: int
    bad: float
    machines: float
    """How many of the events are about machines."""
    rates: Rates


def evening_of(seed: int) -> Outline | None:
    chance = random.Random(f"evening of {seed}")
    if chance.random() >= _SHARE:
        return None
    return Outline(
        events=chance.randrange(8, 18),
        bad=chance.choice((0.0, 0.1, 0.2)),
        machines=chance.choice((0.5, 0.7)),
        rates=draw_rates(chance),
    )


def evening_acts_of(seed: int) -> Counter[str]:
    """What will be done in it."""
    nowhere: Any = None
    if (outline := evening_of(seed)) is None:
        return Counter()
    drawn = (
        _drawn(_chance(seed, number), outline, Users(nowhere), FleetActs(nowhere, nowhere), BadDay(nowhere))
        for number in range(_DEPLOYMENTS, outline.events)
    )
    return Counter(name for name, _, _ in drawn)


@dataclass
class Evening:
    world: World
    seed: int
    outline: Outline
    users: Users
    checks: Checks
    invariants: Invariants
    pass_time: PassTime

    def __post_init__(self) -> None:
        self.fleet = FleetActs(self.world, self.invariants)

    async def live(self, left_out: frozenset[int], *, single_faults: bool) -> None:
        world = self.world
        world.chance.seed(f"world of the evening of {self.seed}")
        world.faults.chance.seed(f"faults of the evening of {self.seed}")
        world.faults.crashes_left, world.faults.others_left = 3, 30
        world.story.tell("day", "an evening begins")
        world.sign_in_again()
        world.has_fleet = True
        slower_with_a_fleet()
        for name in ("controller1", "controller2"):
            world.kill(name)
        await self.fleet.gather()
        for organization in world.organizations:
            credit = {
                "organization_id": organization.id,
                "amount_microusd": _CREDIT_MICROUSD,
                "reason": "test",
            }
            await world.ask(world.operator, "POST", "/operator/credits", credit)
        self.checks.all.append(FleetInvariants(world, self.fleet, self.checks.watched))
        await self.pass_time(180)  # They answer, and are described.
        world.faults.rates = self.outline.rates if single_faults else CALM
        for number in range(self.outline.events):
            world.acting = _chance(self.seed, number)
            name, act, pause_s = _drawn(world.acting, self.outline, self.users, self.fleet, BadDay(world))
            if number < _DEPLOYMENTS:
                name, act = "create", self.users.create
            world.story.count(name)
            if number not in left_out:
                await watched(act(), self.checks.check)
                await self.pass_time(pause_s)
        world.faults.rates = CALM
        await self.pass_time(400)
        await self.fleet.all_come_back()

    async def part(self) -> None:
        await self.fleet.part()
        self.checks.check()


def _chance(seed: int, number: int) -> random.Random:
    return random.Random(f"event {number} of the evening of {seed}")


def _drawn(
    chance: random.Random, outline: Outline, users: Users, fleet: FleetActs, day: BadDay
) -> tuple[str, Act, float]:
    pause_s, kind = chance.choice(_PAUSES_S), chance.random()
    if chance.random() < outline.bad:
        acts = [one for one in day.acts() if one[1] in DISTURBANCES]
    elif kind < outline.machines:
        acts = fleet.acts()
    else:
        acts = [one for one in users.acts() if one[1] in _USERS]
    ((_, name, act),) = chance.choices(acts, weights=[weight for weight, _, _ in acts])
    return name, act, pause_s
