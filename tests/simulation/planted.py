"""Bugs put in on purpose, one switch each: a simulation that does not find them would not find others.

To add one: a function that is given `patch(object, name, replacement)`, and the invariant that has to break. Signatures
are not spelled out, so that the bugs survive changes of the functions that they replace.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import text

from moorage.billing.renewals import reconciler as renewals
from moorage.containers.reconciler import engine_calls, operations
from moorage.containers.reconciler import repository as reconciler_repository
from moorage.containers.reconciler import sweep as sweeping
from moorage.gateway import repository as gateway_repository
from moorage.kit import ids
from moorage.ledger import hours_repository
from moorage.reconcile import driver, lease

Patch = Callable[[Any, str, Any], None]


@dataclass(frozen=True)
class Bug:
    name: str
    breaks: tuple[str, ...]
    """Any of these invariants; others may break as well, but then it was found by luck."""
    plant: Callable[[Patch], None]


@contextlib.contextmanager
def planted(bug: Bug) -> Iterator[None]:
    before: list[tuple[Any, str, Any]] = []

    def patch(of: Any, name: str, replacement: Any) -> None:
        before.append((of, name, getattr(of, name)))
        setattr(of, name, replacement)

    try:
        bug.plant(patch)
        yield
    finally:
        for of, name, original in reversed(before):
            setattr(of, name, original)


async def _nothing(*_: Any, **__: Any) -> None:
    return None


async def _nothing_slowly(*_: Any, **__: Any) -> None:
    """What is done at once is followed by the next pass at once, and so on: true to the bug, but a seed takes minutes."""
    await asyncio.sleep(10)


def _renewals_are_free(patch: Patch) -> None:
    patch(renewals, "renew", _nothing)


def _hours_without_entries(patch: Patch) -> None:
    """On both sides: entries that do not add up to zero are refused by Postgres itself."""
    before = hours_repository._RENEW
    broken = before.text.replace(", -price_microusd FROM bought", ", -price_microusd + 1 FROM bought")
    broken = broken.replace("'usage', price_microusd FROM bought", "'usage', price_microusd - 1 FROM bought")
    assert broken.count("_microusd - 1 FROM bought") == broken.count("_microusd + 1 FROM bought") == 1, (
        "it is in"
    )
    patch(hours_repository, "_RENEW", text(broken).bindparams(*before._bindparams.values()))


def _a_hold_is_forgotten(patch: Patch) -> None:
    broken = hours_repository._RELEASE.text.replace(
        "held_microusd = held_microusd - back.total", "held_microusd = held_microusd"
    )
    assert broken != hours_repository._RELEASE.text, "the bug is in"
    parameters = hours_repository._RELEASE._bindparams.values()
    patch(hours_repository, "_RELEASE", text(broken).bindparams(*parameters))


def _what_is_bought_stays_held(patch: Patch) -> None:
    before = hours_repository._CAPTURE
    broken = before.text.replace(
        "held_microusd = held_microusd - spent.total", "held_microusd = held_microusd"
    )
    assert broken != before.text, "the bug is in"
    patch(hours_repository, "_CAPTURE", text(broken).bindparams(*before._bindparams.values()))


def _nothing_is_given_back(patch: Patch) -> None:
    patch(hours_repository, "release", _nothing)


def _ready_is_never_bought(patch: Patch) -> None:
    patch(hours_repository, "capture", _nothing)


def _renewals_sleep(patch: Patch) -> None:
    patch(renewals.RenewalsReconciler, "reconcile", _nothing)


def _stop_is_forgotten(patch: Patch) -> None:
    patch(engine_calls.EngineCalls, "stop", _nothing_slowly)


def _remove_is_forgotten(patch: Patch) -> None:
    patch(engine_calls.EngineCalls, "remove", _nothing_slowly)


def _starts_have_other_names(patch: Patch) -> None:
    """A lost reply is answered with a second copy."""
    spec = engine_calls.EngineCalls._spec

    def renamed(calls: Any, *arguments: Any) -> Any:
        return replace(spec(calls, *arguments), replica_id=ids.new_replica_id())

    patch(engine_calls.EngineCalls, "_spec", renamed)


def _failed_operations_stay_busy(patch: Patch) -> None:
    """What failed once is never tried again."""
    begin = operations.Operations.begin
    begun: dict[int, set[str]] = {}

    def begin_once(self: Any, key: str, *arguments: Any, **more: Any) -> None:
        keys = begun.setdefault(id(self), set())
        if key not in keys:
            keys.add(key)
            begin(self, key, *arguments, **more)

    patch(operations.Operations, "begin", begin_once)


def _gateway_never_reports(patch: Patch) -> None:
    patch(gateway_repository, "report", _nothing)


def _gateway_hears_names_only(patch: Patch) -> None:
    """What it was not told of, it never looks at."""
    patch(gateway_repository, "changed_buckets", lambda *_: frozenset())


def _the_sweep_sleeps(patch: Patch) -> None:
    patch(sweeping.Sweep, "_compare", _nothing)


def _due_is_never_asked(patch: Patch) -> None:
    """Only notifications count."""
    patch(reconciler_repository, "due_containers", _no_due)


async def _no_due(*_: Any, **__: Any) -> tuple[list[str], None]:
    return [], None


def _leases_are_never_taken_over(patch: Patch) -> None:
    acquire = lease.LeaseKeeper.acquire

    async def once(keeper: Any) -> Any:
        found = await acquire(keeper)
        return found if found is None or found.token == 1 else None

    patch(lease.LeaseKeeper, "acquire", once)


def _a_lost_lease_ends_the_driver(patch: Patch) -> None:
    async def run(self: Any) -> None:
        keeper = lease.LeaseKeeper(self.database, self.reconciler.name, self.holder, self.clock)
        held = await keeper.acquire()
        if held is not None:
            await self._lead_until_lost(keeper, held)

    patch(driver.Driver, "run", run)


def _hours_overlap(patch: Patch) -> None:
    after = renewals.next_hour

    def too_early(expires_at: Any, now: Any, hour: Any) -> Any:
        begins_at, ends_at = after(expires_at, now, hour)
        return begins_at - hour / 2, ends_at - hour / 2

    patch(renewals, "next_hour", too_early)


def _holds_cost_nothing(patch: Patch) -> None:
    before = hours_repository._HOLD
    broken = before.text.replace("available_microusd = available_microusd - :total, ", "")
    assert broken != before.text, "the bug is in"
    patch(hours_repository, "_HOLD", text(broken).bindparams(*before._bindparams.values()))


def _leases_are_not_looked_at(patch: Patch) -> None:
    """Who was stopped for long goes on as if nothing had been."""
    patch(lease.Lease, "check", lambda _: None)
    patch(lease.Lease, "guard", _nothing)


def _ports_are_never_free(patch: Patch) -> None:
    patch(reconciler_repository, "release_ports", _nothing)


def _ports_are_free_at_once(patch: Patch) -> None:
    """Whatever the gateways still have there."""
    free = text("UPDATE replicas SET port_released_at = now() WHERE port_idle_since IS NOT NULL")

    async def release(session: Any) -> None:
        await session.execute(free)

    patch(reconciler_repository, "release_ports", release)


def _a_pass_knows_better(patch: Patch) -> None:
    """It writes what was wanted when it began."""
    write = reconciler_repository._write_container

    async def write_all(session: Any, loaded: Any, plan: Any, values: Any) -> Any:
        return await write(session, loaded, plan, values | {"desired_state": loaded.container.desired_state})

    patch(reconciler_repository, "_write_container", write_all)


BUGS = (
    Bug(
        "what is bought stays held",
        ("ledger adds up", "holds are accounted for"),
        _what_is_bought_stays_held,
    ),
    Bug("renewals are free", ("what serves is paid",), _renewals_are_free),
    Bug(
        "a renewal books a micro-dollar too little",
        ("what serves is paid", "ledger adds up"),
        _hours_without_entries,
    ),
    Bug(
        "a released hold stays in the account",
        ("holds are accounted for", "ledger adds up"),
        _a_hold_is_forgotten,
    ),
    Bug(
        "holds are never given back", ("no hold without a reason", "nothing is left"), _nothing_is_given_back
    ),
    Bug(
        "what becomes ready is never bought",
        ("what serves is paid", "no hold without a reason"),
        _ready_is_never_bought,
    ),
    Bug("renewals decide nothing", ("what serves is paid", "every hour is decided"), _renewals_sleep),
    Bug(
        "stops are not carried out",
        ("everything has a way out", "rows and machine agree", "nothing is left"),
        _stop_is_forgotten,
    ),
    Bug("removals are not carried out", ("nothing is left", "rows and machine agree"), _remove_is_forgotten),
    Bug("names are random", ("a row before a process",), _starts_have_other_names),
    Bug(
        "an operation is tried once",
        ("everything has a way out", "rows and machine agree", "nothing is left"),
        _failed_operations_stay_busy,
    ),
    Bug("the gateway never reports", ("everything has a way out", "nothing is left"), _gateway_never_reports),
    Bug(
        "the gateway forgets to compare",
        ("rows and machine agree", "everything has a way out", "nothing is left"),
        _gateway_hears_names_only,
    ),
    Bug(
        "nobody sweeps",
        ("rows and machine agree", "nothing is left", "what serves is paid"),
        _the_sweep_sleeps,
    ),
    Bug(
        "only notifications count",
        ("everything has a way out", "rows and machine agree", "nothing is left"),
        _due_is_never_asked,
    ),
    Bug(
        "leases are never taken over",
        (
            "everything has a way out",
            "rows and machine agree",
            "nothing is left",
            "what serves is paid",
            "every hour is decided",
        ),
        _leases_are_never_taken_over,
    ),
    Bug(
        "a lost lease ends the driver",
        (
            "everything has a way out",
            "rows and machine agree",
            "nothing is left",
            "what serves is paid",
            "every hour is decided",
        ),
        _a_lost_lease_ends_the_driver,
    ),
    Bug("the next hour begins too early", ("no hour twice",), _hours_overlap),
    Bug("holds cost nothing", ("ledger adds up",), _holds_cost_nothing),
    Bug("leases are not looked at", ("no engine call without a lease",), _leases_are_not_looked_at),
    Bug("ports are never free again", ("nothing is left",), _ports_are_never_free),
    Bug("ports are free at once", ("no request to a stranger",), _ports_are_free_at_once),
    Bug("a pass knows better than the user", ("what was asked last wins",), _a_pass_knows_better),
)
