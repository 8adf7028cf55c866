"""What more than half of the seeds have after their day: people who share an organization, and GPUs that break.

The day is over by then, and all of it deleted: its story is the same with and without an afternoon. What happens here is drawn
from streams of its own.
"""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.simulation.actors import Act, BadDay, Users
from tests.simulation.checks import Checks
from tests.simulation.faults import CALM, Rates, draw_rates
from tests.simulation.gpus import Gpus
from tests.simulation.invariants import Invariants
from tests.simulation.invariants_deliveries import DeliveryInvariants
from tests.simulation.invariants_gpus import GpuInvariants
from tests.simulation.invariants_rights import RightsInvariants
from tests.simulation.passing import watched
from tests.simulation.people import People
from tests.simulation.rights import Rights
from tests.simulation.team import Team
from tests.simulation.tempo import slower_with_gpus
from tests.simulation.world import World

_MOST_EVENTS = 14
_SHARE = 0.6
"""Of the seeds."""
_PAUSES_S = (0.0, 0.01, 0.3, 3.0, 20.0, 60.0, 200.0, 900.0)
_CREDIT_MICROUSD = 60_000_000
_BAD = (0.0, 0.1, 0.2)
DISTURBANCES = (
    "kill the controller",
    "kill the api",
    "kill the gateway",
    "stop the controller",
    "stop the gateway",
    "postgres fails over",
)
"""Of the acts of a bad day: clocks and engines had their day."""

PassTime = Callable[[float], Any]


@dataclass(frozen=True)
class Outline:
    events: int
    bad: float
    gpus: float
    """How many of the events are about GPUs."""
    rates: Rates


def afternoon_of(seed: int) -> Outline | None:
    chance = random.Random(f"afternoon of {seed}")
    if chance.random() >= _SHARE:
        return None
    return Outline(
        events=min(chance.randrange(8, 20), _MOST_EVENTS),
        bad=chance.choice(_BAD),
        gpus=chance.choice((0.2, 0.4, 0.7)),
        rates=draw_rates(chance),
    )


def afternoon_acts_of(seed: int) -> Counter[str]:
    """What will be done in it."""
    nowhere: Any = None
    if (outline := afternoon_of(seed)) is None:
        return Counter()
    people, gpus = People(nowhere, nowhere, nowhere, nowhere, nowhere), Gpus(nowhere, nowhere)
    drawn = (
        _drawn(_chance(seed, number), outline, people, gpus, BadDay(nowhere))
        for number in range(outline.events)
    )
    return Counter(name for name, _, _ in drawn)


@dataclass
class Afternoon:
    world: World
    seed: int
    outline: Outline
    users: Users
    checks: Checks
    machines: Invariants
    deliveries: DeliveryInvariants
    pass_time: PassTime

    def __post_init__(self) -> None:
        self.team, self.rights = Team(self.world), Rights(self.world)
        self.people = People(self.world, self.users, self.team, self.rights, self.deliveries)

    async def live(self, left_out: frozenset[int], *, single_faults: bool) -> None:
        world, team, rights, people = self.world, self.team, self.rights, self.people
        gpus = Gpus(world, self.users)
        world.chance.seed(f"world of the afternoon of {self.seed}")
        world.faults.chance.seed(f"faults of the afternoon of {self.seed}")
        world.faults.crashes_left, world.faults.others_left = 3, 30
        world.story.tell("day", "an afternoon begins")
        world.sign_in_again()
        gpus.put_in()
        slower_with_gpus()
        await team.gather()
        credit = {
            "organization_id": world.organizations[0].id,
            "amount_microusd": _CREDIT_MICROUSD,
            "reason": "test",
        }
        await world.ask(world.operator, "POST", "/operator/credits", credit)
        watched_names = self.checks.watched
        self.checks.all += [
            RightsInvariants(world, team, rights, watched_names),
            GpuInvariants(world, gpus, self.machines, watched_names),
        ]
        await self.pass_time(120)  # The machine is described anew.
        world.faults.rates = self.outline.rates if single_faults else CALM
        for number in range(self.outline.events):
            world.acting = _chance(self.seed, number)
            name, act, pause_s = _drawn(world.acting, self.outline, people, gpus, BadDay(world))
            world.story.count(name)
            if number not in left_out:
                await watched(act(), self.checks.check)
                await self.pass_time(pause_s)
        gpus.repair_all()

    async def part(self) -> None:
        """Whoever is left in the end removes the others and their keys, so that nothing of them is kept for good."""
        await self.people.part()
        self.checks.check()


def _chance(seed: int, number: int) -> random.Random:
    return random.Random(f"event {number} of the afternoon of {seed}")


def _drawn(
    chance: random.Random, outline: Outline, people: People, gpus: Gpus, day: BadDay
) -> tuple[str, Act, float]:
    pause_s, kind = chance.choice(_PAUSES_S), chance.random()
    if chance.random() < outline.bad:
        acts = [one for one in day.acts() if one[1] in DISTURBANCES]
    else:
        acts = gpus.acts() if kind < outline.gpus else people.acts()
    ((_, name, act),) = chance.choices(acts, weights=[weight for weight, _, _ in acts])
    return name, act, pause_s
