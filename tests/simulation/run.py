"""One seed from its first day to its last, and many of them: `python -m tests.simulation.run 1-200`."""

import argparse
import asyncio
import multiprocessing
import os
import random
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from moorage.kit.logging import configure_logging
from moorage.reconcile.lease import Lease
from tests.simulation.actors import Act, BadDay, Users
from tests.simulation.afternoon import Afternoon, afternoon_of
from tests.simulation.burial import buried_afterwards
from tests.simulation.chance import seeded_secrets
from tests.simulation.checks import Checks, settings_of
from tests.simulation.compiled_once import compiled_once
from tests.simulation.evening import SETTINGS as EVENING
from tests.simulation.evening import Evening, evening_of
from tests.simulation.faults import CALM, Rates, draw_rates
from tests.simulation.invariants import AT_THE_END, BrokenError, Invariants
from tests.simulation.invariants_deliveries import DeliveryInvariants
from tests.simulation.invariants_payments import PaymentInvariants
from tests.simulation.listeners import Listeners
from tests.simulation.night import Night, night_of, settings_of_night
from tests.simulation.parts import draw_parts
from tests.simulation.passing import pass_time, watched
from tests.simulation.payers import Payers
from tests.simulation.payments import Bank, BankTransport, Events, payments_at
from tests.simulation.races import Races
from tests.simulation.results import Result, commit, keep, kept_in, never_happened, summary
from tests.simulation.server import Server, postgres
from tests.simulation.story import Story
from tests.simulation.tempo import slower
from tests.simulation.types_learnt import types_learnt_once
from tests.simulation.world import World, furnish, new_world

_PAUSES_S = (0.0, 0.01, 0.3, 1.0, 3.0, 20.0, 60.0, 600.0, 3000.0, 3590.0, 7000.0)
_NIGHTS_S = (4 * 3600.0, 8 * 3600.0, 12 * 3600.0)
"""In each seed one: hours in which only hours are renewed, until the money ends."""
_LOOKS, _BETWEEN_LOOKS_S = 3, 60.0
"""At what has settled: a minute is more than a replica takes to drain, to end and to be replaced."""
_SETTLES_S = 900.0
"""For all but days: nothing in them waits for an hour."""
_DEPLOYMENTS = 2
"""What the first events are."""
_OF_OTHERS = 0.4
"""How many of the events are about payments or deliveries, where a seed has them."""
Acts = Callable[[], list[tuple[int, str, Act]]]
PARTS_OF_A_DAY: dict[str, Callable[[int], Any]] = {
    "afternoon": afternoon_of,
    "evening": evening_of,
    "night": night_of,
}
"""What only some of the seeds have."""
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


@dataclass(frozen=True)
class Plan:
    """A seed, or what is left of it: shrinking leaves out events, then the faults of single calls."""

    seed: int
    left_out: frozenset[int] = frozenset()
    single_faults: bool = True
    watched: frozenset[str] | None = None
    """The only invariants that count; all unless a certain bug is looked for."""
    only: str | None = None
    """`afternoon`, `evening` or `night`: without the rest of the day, if the seed has one."""

    def has(self, part: str) -> bool:
        return self.only in (None, part)


def run_seed(server: Server, plan: Plan, look: Callable[[World], None] = lambda world: None) -> Outcome:
    """`look` is shown the world before anything happens in it."""
    with buried_afterwards():
        return _run_seed(server, plan, look)


def _run_seed(server: Server, plan: Plan, look: Callable[[World], None]) -> Outcome:
    began_s = time.perf_counter()
    monitor = server.plain()
    server.empty(monitor)
    server.backends.begin_a_seed()
    monitor.close()
    leases: list[Lease] = []
    broken, sentence = None, ""
    with seeded_secrets(plan.seed), slower(leases), types_learnt_once(), compiled_once():
        parts = draw_parts(plan.seed)
        settings = settings_of(parts) | (EVENING if evening_of(plan.seed) is not None else {})
        settings |= settings_of_night(plan.seed)
        world = new_world(server, plan.seed, settings)
        world.parts = parts
        bank = Bank(world.loop)
        look(world)
        try:
            with payments_at(BankTransport(bank, world.faults, world.chance)):
                world.loop.run_until_complete(_life(world, plan, leases, bank))
        except BrokenError as exc:
            broken, sentence = exc.name, exc.sentence
            world.story.tell("BROKEN", str(exc))
        except Exception as exc:  # noqa: BLE001 - whatever it is, it is this seed's
            broken, sentence = type(exc).__name__, traceback.format_exc()[-1500:]
        virtual_s = world.now_s()
        counts = world.story.counts
        counts["statements"] += world.wire.statements
        counts["lock waits"] += world.wire.lock_waits
        counts["deadlocks"] += world.wire.deadlocks
        counts["transaction stood still"] += world.wire.stood_still
        counts["charged by itself"] += sum(bank.charges)
        counts["charge refused"] += len(bank.charges) - sum(bank.charges)
        for process in world.processes.values():
            process.kill()
        for transport in list(world.wire.transports):
            transport.die()
        world.monitor.close()
        world.loop.close()
        # What outlives the seed must not keep its loop, and with it the tasks of the dead, from being collected now.
        world.story.now_s = lambda: virtual_s
    return Outcome(plan.seed, broken, sentence, world.story, virtual_s, time.perf_counter() - began_s)


@dataclass(frozen=True)
class Outline:
    """What a seed will be like, as far as it is known before it begins."""

    organizations: int
    rates: Rates
    bad: float
    """How many of the events are of a bad day."""
    events: int
    night_after: int
    night_s: float


def outline_of(seed: int) -> Outline:
    chance = random.Random(f"outline of {seed}")
    events = chance.randrange(8, 24)
    return Outline(
        organizations=chance.choice((1, 2)),
        rates=draw_rates(chance),
        bad=chance.choice((0.0, 0.2, 0.35)),
        events=events,
        night_after=chance.randrange(2, events),
        night_s=chance.choice(_NIGHTS_S),
    )


def acts_of(seed: int) -> Counter[str]:
    """What will be done in it."""
    nowhere: Any = None
    users, outline, parts = Users(nowhere), outline_of(seed), draw_parts(seed)
    others: list[Acts] = []
    if "payments" in parts:
        others.append(Payers(nowhere, users, nowhere, nowhere).acts)
    if "deliveries" in parts:
        others.append(Listeners(nowhere, users, nowhere, nowhere).acts)
    drawn = (
        _drawn(random.Random(f"event {number} of {seed}"), users, others, BadDay(nowhere), outline.bad)
        for number in range(_DEPLOYMENTS, outline.events)
    )
    return Counter(name for name, _, _ in drawn)


async def _life(world: World, plan: Plan, leases: list[Lease], bank: Bank) -> None:
    outline, chance = outline_of(plan.seed), random.Random(f"life of {plan.seed}")
    await furnish(world, outline.organizations)
    world.restart_after = lambda name: chance.uniform(0.5, 20)
    world.drawn_rates = outline.rates if plan.single_faults else CALM
    for name in PROCESSES:
        world.start(name)
    users, day, events = Users(world), BadDay(world), Events(world)
    bank.tell = lambda event: events.send(event, world.chance)
    deliveries, invariants = DeliveryInvariants(world, world.receivers), Invariants(world, plan.watched)
    checks, others = Checks([invariants], plan.watched), []
    if "payments" in world.parts:
        checks.all.append(PaymentInvariants(world, bank))
        others.append(Payers(world, users, bank, events).acts)
    if "deliveries" in world.parts:
        checks.all.append(deliveries)
        others.append(Listeners(world, users, world.receivers, deliveries).acts)
    await pass_time(world, 5, leases, checks.check)
    if plan.has("day"):
        await _day(
            world,
            plan,
            outline,
            checks,
            leases,
            users,
            lambda chance: _drawn(chance, users, others, day, outline.bad),
        )
    ends = plan.watched is None or not plan.watched.isdisjoint(AT_THE_END)
    if ends and plan.has("day"):
        await _converge(world, users, checks, leases)

    async def let_pass(seconds: float) -> None:
        await pass_time(world, seconds, leases, checks.check)

    goes_on = ends or plan.only is not None
    if goes_on and plan.has("afternoon") and (drawn := afternoon_of(plan.seed)) is not None:
        afternoon = Afternoon(*(world, plan.seed, drawn, users, checks, invariants, deliveries), let_pass)
        await afternoon.live(plan.left_out, single_faults=plan.single_faults)
        await _converge(world, users, checks, leases, _SETTLES_S)
        await afternoon.part()
    if goes_on and plan.has("evening") and (planned := evening_of(plan.seed)) is not None:
        evening = Evening(world, plan.seed, planned, users, checks, invariants, let_pass)
        await evening.live(plan.left_out, single_faults=plan.single_faults)
        await _converge(world, users, checks, leases, _SETTLES_S)
        await evening.part()
    if goes_on and plan.has("night") and (outlined := night_of(plan.seed)) is not None:
        night = Night(world, plan.seed, outlined, users, checks, invariants, let_pass)
        await night.live(plan.left_out, single_faults=plan.single_faults)
        await _converge(world, users, checks, leases, _SETTLES_S)
        await night.part()
    if ends:
        await _years_pass(world)
        invariants.check_kept()


async def _day(
    world: World,
    plan: Plan,
    outline: Outline,
    checks: Checks,
    leases: list[Lease],
    users: Users,
    draw: Callable[[random.Random], tuple[str, Act, float]],
) -> None:
    world.faults.rates = world.drawn_rates
    for number in range(outline.events):
        world.acting = random.Random(f"event {number} of {plan.seed}")
        name, act, pause_s = draw(world.acting)
        if number < _DEPLOYMENTS:
            name, act = "create", users.create
        world.story.count(name)
        if number not in plan.left_out:
            await watched(act(), checks.check)
            await pass_time(world, pause_s, leases, checks.check)
        if number == outline.night_after:
            world.story.tell("day", f"nobody does anything for {outline.night_s / 3600:.0f} hours")
            await pass_time(world, outline.night_s, leases, checks.check)


def _drawn(
    chance: random.Random, users: Users, others: list[Acts], day: BadDay, bad: float
) -> tuple[str, Act, float]:
    """Something to do, and how long to wait after it."""
    pause_s = chance.choice(_PAUSES_S)
    acts = day.acts() if chance.random() < bad else [*users.acts(), *Races(users).acts()]
    if others and chance.random() < _OF_OTHERS:
        acts = chance.choice(others)()
    ((_, name, act),) = chance.choices(acts, weights=[weight for weight, _, _ in acts])
    return name, act, pause_s


async def _converge(
    world: World, users: Users, checks: Checks, leases: list[Lease], settles_s: float | None = None
) -> None:
    world.story.tell("day", "faults end")
    world.faults.rates = CALM
    await pass_time(world, 400, leases, checks.check)
    for name in PROCESSES:
        if not world.processes[name].alive:
            world.start(name)
    # What was paid just now is asked about within an hour.
    settles_s = settles_s or (5400 if "payments" in world.parts else 2400)
    await pass_time(world, settles_s + world.clock_set_back_s, leases, checks.check)
    await _settle(world, checks, leases)
    for organization in world.organizations:
        await users.resume_one(organization)
        await users.find(organization)
    for container_id in sorted(users.containers):
        await users.delete_one(container_id)
    await pass_time(world, 1200, leases, checks.check)
    checks.all[0].check_empty()


async def _settle(world: World, checks: Checks, leases: list[Lease]) -> None:
    """Some things go on by themselves: a process ends, the money for the next hour does. At a single look one of them
    may be under way; what is wrong at each of a few looks stays wrong."""
    for _ in range(_LOOKS - 1):
        checks.check()
        try:
            checks.check_settled()
            return
        except BrokenError as exc:
            world.story.tell("day", f"not settled: {exc}")
        await pass_time(world, _BETWEEN_LOOKS_S, leases, checks.check)
    checks.check_settled()


async def _years_pass(world: World) -> None:
    """Until all that is kept for a time has run out, for nobody but whoever throws it away."""
    for name in PROCESSES:
        world.processes[name].kill()
    days = world.settings.history_retention_days + world.settings.replica_retention_days
    world.database_off_by_s += days * 86_400.0
    world.start("housekeeper")
    await asyncio.sleep(60)
    world.processes["housekeeper"].kill()


def shrink(server: Server, outcome: Outcome, only: str | None) -> tuple[Plan, Outcome]:
    """The same invariant broken by fewer events: left out in halves, then one by one."""
    plan, best = Plan(outcome.seed, only=only), outcome
    calm = replace(plan, single_faults=False)
    if (tried := run_seed(server, calm)).broken == outcome.broken:
        plan, best = calm, tried
    size = 12
    while size >= 1:
        for first in range(0, 24, size):
            some = frozenset(range(first, first + size))
            if some <= plan.left_out:
                continue
            less = replace(plan, left_out=plan.left_out | some)
            if (tried := run_seed(server, less)).broken == outcome.broken:
                plan, best = less, tried
        size //= 2
    return plan, best


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seeds", help="7, or 1-200")
    parser.add_argument("-v", "--verbose", action="store_true", help="tell every story")
    parser.add_argument("--shrink", action="store_true", help="shorten the stories of the seeds that fail")
    parser.add_argument(
        "--only",
        choices=sorted(PARTS_OF_A_DAY),
        help="without the rest of the days: faster, where members, keys and GPUs matter (afternoon), machines (evening), or sleep (night)",
    )
    parser.add_argument("--jobs", type=int, default=1, help="seeds at once, each with a Postgres of its own")
    parser.add_argument(
        "--keep", type=Path, help="add a line for each seed to this file, skip the seeds that it has"
    )
    parser.add_argument("--sum", type=Path, help="run nothing, sum up this file")
    parser.add_argument(
        "--commit",
        type=_named_commit,
        default=commit(),  # Asked before anybody changes a file.
        help="the commit that the lines of results name; git is asked unless it is said, "
        "so say it where the code is a copy without its git folder (now: %(default)s)",
    )
    how = parser.parse_args(arguments)
    if how.sum:
        print(summary(kept_in(how.sum)))
        return 0
    first, _, last = how.seeds.partition("-")
    results = kept_in(how.keep) if how.keep else []
    done = {one.seed for one in results if one.commit == how.commit}
    seeds = [seed for seed in range(int(first), int(last or first) + 1) if seed not in done]
    tells = how.verbose or not last
    for result, story in _results(seeds, how.jobs, how.shrink, how.commit, how.only):
        results.append(result)
        print(result.line(), flush=True)
        if how.keep:
            keep(how.keep, result)
        if tells or (result.broken and how.shrink):
            print("\n".join(story), flush=True)
    print(summary(results))
    return 1 if never_happened(results) or any(one.broken for one in results) else 0


def _named_commit(text: str) -> str:
    if not text or text.split() != [text]:
        raise argparse.ArgumentTypeError("name the commit in one word, as `git rev-parse --short HEAD` does")
    return text


def _results(
    seeds: list[int], jobs: int, shrinks: bool, of_commit: str, only: str | None
) -> Iterator[tuple[Result, list[str]]]:
    """As they come. Each job takes every so manieth seed, with a Postgres of its own."""
    if jobs == 1:
        yield from _some(seeds, shrinks, of_commit, only)
        return
    spawn = multiprocessing.get_context("spawn")
    queue: Any = spawn.Queue()
    workers = [
        spawn.Process(
            target=_work, args=(queue, number, seeds[number::jobs], shrinks, of_commit, only), daemon=True
        )
        for number in range(jobs)
    ]
    for worker in workers:
        worker.start()
    at_work = jobs
    try:
        while at_work:
            told = queue.get()
            if told is None:
                at_work -= 1
            else:
                yield told
    finally:
        for worker in workers:
            worker.terminate()  # It stops its Postgres.
            worker.join()


def _work(queue: Any, number: int, seeds: list[int], shrinks: bool, of_commit: str, only: str | None) -> None:
    """On a processor of its own, together with its Postgres: only one of the two ever runs."""
    _end_in_order()
    processors = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {processors[number % len(processors)]})
    for told in _some(seeds, shrinks, of_commit, only):
        queue.put(told)
    queue.put(None)


def _some(
    seeds: list[int], shrinks: bool, of_commit: str, only: str | None
) -> Iterator[tuple[Result, list[str]]]:
    configure_logging("critical", as_json=True)
    with postgres() as server:
        for seed in seeds:
            if only is not None and PARTS_OF_A_DAY[only](seed) is None:
                continue
            outcome = run_seed(server, Plan(seed, only=only))
            result, story = _result(outcome, of_commit), [*outcome.story.lines, outcome.sentence]
            if outcome.broken and shrinks:
                plan, outcome = shrink(server, outcome, only)
                story = [f"shrunk to {plan}", *outcome.story.lines, outcome.sentence]
            yield result, story


def _result(outcome: Outcome, of_commit: str) -> Result:
    counts = {name: round(count, 2) for name, count in outcome.story.counts.items()}
    return Result(
        of_commit,
        outcome.seed,
        outcome.story.fingerprint(),
        round(outcome.virtual_s, 3),
        round(outcome.real_s, 2),
        outcome.broken,
        outcome.sentence,
        counts,
    )


def _end_in_order() -> None:
    """Also when somebody ends it, the server is stopped and its folder removed."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))


if __name__ == "__main__":
    _end_in_order()
    sys.exit(main())
