"""Mistakes of passes over containers: what they start, stop, remove, look at and write, and of the gateway behind them."""

from dataclasses import replace
from typing import Any

from sqlalchemy import text

from moorage.containers.planning import plan, shape
from moorage.containers.reconciler import doubts, engine_calls, operations, plan_views
from moorage.containers.reconciler import repository as reconciler_repository
from moorage.containers.reconciler import sweep as sweeping
from moorage.gateway import repository as gateway_repository
from moorage.kit import ids
from moorage.reconcile.driver import Driver
from tests.simulation.planted.bug import Bug, Patch, nothing, nothing_slowly


def _stop_is_forgotten(patch: Patch) -> None:
    patch(engine_calls.EngineCalls, "stop", nothing_slowly)


def _remove_is_forgotten(patch: Patch) -> None:
    patch(engine_calls.EngineCalls, "remove", nothing_slowly)


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

    def begin_once(self: Any, ticket: Any, *arguments: Any, **more: Any) -> None:
        keys = begun.setdefault(id(self), set())
        if ticket.key not in keys:
            keys.add(ticket.key)
            begin(self, ticket, *arguments, **more)

    patch(operations.Operations, "begin", begin_once)


def _every_view(patch: Patch, **wrong: Any) -> None:
    views = plan_views.PlanViews.of_replicas

    def wrongly(self: Any, *arguments: Any) -> Any:
        return [replace(view, **wrong) for view in views(self, *arguments)]

    patch(plan_views.PlanViews, "of_replicas", wrongly)


def _leaving_is_gone(patch: Patch) -> None:
    """Suspended and resumed, or fewer and more again: what still drains counts as if it had ended."""
    _every_view(patch, replaced=True)


def _under_way_is_forgotten(patch: Patch) -> None:
    """A start that takes long is taken for one that never was."""
    _every_view(patch, busy=False)


def _the_old_one_stays(patch: Patch) -> None:
    """Beside its successor."""
    honest = shape.shape

    def kept(container: Any, seen: Any, now: Any, *, proven: bool) -> Any:
        create, drains, hold = honest(container, seen, now, proven=proven)
        wanted = shape._wanted_generation(container, seen)
        old = {
            one.id
            for one in seen
            if wanted is not None and one.generation != wanted and one.slot < container.desired_replicas
        }
        return create, {name: move for name, move in drains.items() if name not in old}, hold

    patch(plan, "shape", kept)


def _doubt_never_ends(patch: Patch) -> None:
    """Nor do the gateways' health checks, which find that nothing listens there, end it sooner."""
    missing = doubts._missing
    patch(doubts, "is_over", lambda *_: False)
    patch(doubts, "_missing", lambda *arguments: replace(missing(*arguments), refuses=False))


def _the_sweep_sleeps(patch: Patch) -> None:
    patch(sweeping.Sweep, "_compare", nothing)


def _due_is_never_asked(patch: Patch) -> None:
    """Only notifications count."""
    patch(reconciler_repository, "due_containers", _no_due)


async def _no_due(*_: Any, **__: Any) -> tuple[list[str], None]:
    return [], None


def _a_pass_knows_better(patch: Patch) -> None:
    """It writes what was wanted when it began."""
    write = reconciler_repository._write_container

    async def write_all(session: Any, loaded: Any, plan: Any, values: Any) -> Any:
        return await write(session, loaded, plan, values | {"desired_state": loaded.container.desired_state})

    patch(reconciler_repository, "_write_container", write_all)


def _a_change_wants_no_pass(patch: Patch) -> None:
    """One that came during a pass is covered by it, it thinks, and so thinks whoever is told of it."""
    ask = Driver.ask

    def ask_unless_under_way(self: Any, key: str) -> None:
        if key not in self._running:
            ask(self, key)

    def as_planned(_: Any, plan: Any) -> Any:
        if plan.look_again_in_s is None:
            return None
        return text(f"clock_timestamp() + interval '{plan.look_again_in_s} seconds'")

    patch(reconciler_repository, "_next_pass", as_planned)
    patch(Driver, "ask", ask_unless_under_way)


def _ports_are_never_free(patch: Patch) -> None:
    patch(reconciler_repository, "release_ports", nothing)


def _ports_are_free_at_once(patch: Patch) -> None:
    """Whatever the gateways still have there."""
    free = text("UPDATE replicas SET port_released_at = now() WHERE port_idle_since IS NOT NULL")

    async def release(session: Any) -> None:
        await session.execute(free)

    patch(reconciler_repository, "release_ports", release)


def _gateway_never_reports(patch: Patch) -> None:
    patch(gateway_repository, "report", nothing)


def _gateway_hears_names_only(patch: Patch) -> None:
    """What it was not told of, it never looks at."""
    patch(gateway_repository, "changed_buckets", lambda *_: frozenset())


BUGS = (
    Bug(
        "stops are not carried out",
        ("everything has a way out", "rows and machine agree"),
        _stop_is_forgotten,
    ),
    Bug("removals are not carried out", ("nothing is left",), _remove_is_forgotten),
    Bug("names are random", ("a row before a process",), _starts_have_other_names),
    Bug(
        "an operation is tried once",
        ("everything has a way out", "nothing is left"),
        _failed_operations_stay_busy,
    ),
    Bug(
        "what leaves is taken for gone",
        ("one process for a slot",),
        _leaving_is_gone,
        needs=("change of mind",),
    ),
    Bug(
        "what is under way is taken for nothing",
        ("deleted stays deleted", "one process for a slot"),
        _under_way_is_forgotten,
        needs=("what was deleted is touched",),
    ),
    Bug("the old one stays", ("slots are single",), _the_old_one_stays, needs=("restart",)),
    Bug(
        "nobody sweeps",
        ("rows and machine agree", "deleted stays deleted"),
        _the_sweep_sleeps,
        needs=("replica dies",),
    ),
    Bug("only notifications count", ("everything has a way out", "nothing is left"), _due_is_never_asked),
    Bug(
        "a pass knows better than the user",
        ("what was asked last wins",),
        _a_pass_knows_better,
        needs=("change of mind",),
    ),
    Bug("ports are never free again", ("nothing is left",), _ports_are_never_free),
    Bug(
        "ports are free at once",
        ("no request to a stranger",),
        _ports_are_free_at_once,
        needs=("a gateway misses a change",),
    ),
    Bug("the gateway never reports", ("everything has a way out", "nothing is left"), _gateway_never_reports),
    Bug(
        "the gateway forgets to compare",
        (
            "the gateway knows what is there",
            "rows and machine agree",
            "everything has a way out",
            "nothing is left",
        ),
        _gateway_hears_names_only,
        needs=("notification_lost",),
    ),
)

# Both need what only nights have: so many replicas on one machine that it is doubted when they are missing, and a change that
# nothing comes after which would make anybody look again.
BUGS_OF_NIGHTS = (
    Bug(
        "doubt never ends",
        ("everything has a way out", "rows and machine agree"),
        _doubt_never_ends,
        needs=("a machine loses most at once",),
    ),
    Bug(
        "a change during a pass wants no pass of its own",
        ("everything has a way out", "rows and machine agree"),
        _a_change_wants_no_pass,
    ),
)
