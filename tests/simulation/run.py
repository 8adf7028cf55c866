"""One seed from its first day to its last, and many of them: `python -m tests.simulation.run 1-200`."""

import contextlib
import gc
import logging
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from moorage.kit.logging import configure_logging
from moorage.reconcile.lease import Lease
from tests.simulation.actors import BadDay, Users
from tests.simulation.chance import seeded_secrets
from tests.simulation.faults import CALM, draw_rates
from tests.simulation.invariants import BrokenError, Invariants
from tests.simulation.passing import pass_time
from tests.simulation.server import Server, postgres
from tests.simulation.story import Story
from tests.simulation.tempo import slower
from tests.simulation.world import World, furnish, new_world

PROCESSES = ("api", "gateway", "controller1", "controller2")


@dataclass
class Outcome:
    seed: int
    broken: str | None
    """The name of the invariant, or of the error."""
    sentence: str
    story: Story
    virtual_s: float
    real_s: float
    counts: Counter[str] = field(default_factory=Counter)


def run_seed(server: Server, seed: int) -> Outcome:
    with _no_collection():
        return _run_seed(server, seed)


def _run_seed(server: Server, seed: int) -> Outcome:
    began_s = time.perf_counter()
    monitor = server.plain()
    server.empty(monitor)
    monitor.close()
    leases: list[Lease] = []
    broken, sentence = None, ""
    with seeded_secrets(seed), slower(leases):
        world = new_world(server, seed, {})
        try:
            world.loop.run_until_complete(_life(world, seed, leases))
        except BrokenError as exc:
            broken, sentence = exc.name, exc.sentence
            world.story.tell("BROKEN", str(exc))
        except Exception as exc:  # noqa: BLE001 - whatever it is, it is this seed's
            broken, sentence = type(exc).__name__, traceback.format_exc()[-1500:]
        virtual_s = world.now_s()
        world.story.counts["statements"] += world.wire.statements
        world.story.counts["lock waits"] += world.wire.lock_waits
        world.story.counts["deadlocks"] += world.wire.deadlocks
        for name, count in _told_by(world).items():
            world.story.counts[name] += count
        for process in world.processes.values():
            process.kill()
        world.monitor.close()
        world.loop.close()
    counts = world.story.counts
    return Outcome(seed, broken, sentence, world.story, virtual_s, time.perf_counter() - began_s, counts)


def _told_by(world: World) -> Counter[str]:
    return Counter({"virtual hours": int(world.now_s() / 3600)})


async def _life(world: World, seed: int, leases: list[Lease]) -> None:
    chance = random.Random(f"life of {seed}")
    await furnish(world, chance.choice((1, 2)))
    world.restart_after = lambda name: chance.uniform(0.5, 20)
    world.drawn_rates = draw_rates(chance)
    world.with_logs = chance.random() < 0.15
    for name in PROCESSES:
        world.start(name)
    users, day, invariants = Users(world), BadDay(world), Invariants(world)
    await pass_time(world, 5, leases, invariants.check)
    world.faults.rates = world.drawn_rates
    for _ in range(chance.choice((1, 2, 3))):
        await users.create()
    bad = chance.choice((0.0, 0.2, 0.35))
    for _ in range(chance.randrange(6, 22)):
        acts = day.acts() if chance.random() < bad else users.acts()
        ((_, name, act),) = chance.choices(acts, weights=[weight for weight, _, _ in acts])
        world.story.count(name)
        await act()
        invariants.check()
        pause_s = chance.choice((0.0, 0.01, 0.3, 1.0, 3.0, 20.0, 60.0, 600.0, 3000.0, 3590.0, 7000.0))
        await pass_time(world, pause_s, leases, invariants.check)
    await _converge(world, users, invariants, leases)


async def _converge(world: World, users: Users, invariants: Invariants, leases: list[Lease]) -> None:
    world.story.tell("day", "faults end")
    world.faults.rates = CALM
    await pass_time(world, 400, leases, invariants.check)
    for name in PROCESSES:
        if not world.processes[name].alive:
            world.start(name)
    await pass_time(world, 2400 + world.clock_set_back_s, leases, invariants.check)
    invariants.check_settled()
    if world.crashes:
        raise BrokenError("no request crashes", world.crashes[0])
    for organization in world.organizations:
        await users.resume_one(organization)
    for container_id in sorted(users.containers):
        await users.delete_one(container_id)
    await pass_time(world, 1200, leases, invariants.check)
    invariants.check_empty()


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Tasks of dead processes are never finished; collecting them in the middle of a seed would run their ends."""
    hook, asyncio_log = sys.unraisablehook, logging.getLogger("asyncio")
    level = asyncio_log.level
    gc.disable()
    sys.unraisablehook = lambda _: None
    asyncio_log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        gc.collect()
        asyncio_log.setLevel(level)
        gc.enable()
        sys.unraisablehook = hook


def main(arguments: list[str]) -> int:
    first, _, last = arguments[0].partition("-")
    configure_logging("critical", as_json=True)
    total: Counter[str] = Counter()
    failed: list[Outcome] = []
    began_s = time.perf_counter()
    with postgres() as server:
        for seed in range(int(first), int(last or first) + 1):
            outcome = run_seed(server, seed)
            total += outcome.counts
            print(
                f"{seed:6d} {outcome.story.fingerprint()} {outcome.virtual_s / 3600:6.1f} h {outcome.real_s:5.1f} s "
                f"{outcome.counts['statements']:6.0f} {outcome.broken or 'ok'} {outcome.sentence[:200]}",
                flush=True,
            )
            if outcome.broken:
                failed.append(outcome)
            if outcome.broken or "-v" in arguments:
                if not last or "-v" in arguments:
                    print("\n".join(outcome.story.lines))
                    print(outcome.sentence)
    print(f"{time.perf_counter() - began_s:.0f} s; failed: {len(failed)}")
    for name, count in Counter(one.broken for one in failed).most_common():
        print(f"  {count:4d} {name}: {[one.seed for one in failed if one.broken == name][:12]}")
    print({name: round(count, 1) for name, count in sorted(total.items())})
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
