"""Nothing is left out of the simulation unnoticed: every changing route and every reconciler is used, or it says why not."""

from typing import Any, cast

from moorage.entrypoints.api import described_routes
from moorage.entrypoints.reconcilers import RECONCILERS
from tests.simulation.actors import BadDay, Users
from tests.simulation.coverage import RECONCILERS_UNUSED, UNUSED, USED_BY
from tests.simulation.fleet import FleetActs
from tests.simulation.gpus import Gpus
from tests.simulation.listeners import Listeners
from tests.simulation.parts import PARTS, reconcilers_of
from tests.simulation.payers import Payers
from tests.simulation.people import People
from tests.simulation.races import Races
from tests.simulation.sleepers import Sleepers

_CHANGING = {"POST", "PUT", "PATCH", "DELETE"}


def changing_routes() -> set[str]:
    """Also those that the API's description does not show, as the payment provider's."""
    return {
        f"{method} {route.path}"
        for included in described_routes()
        for route in cast(Any, included).original_router.routes
        for method in sorted(route.methods & _CHANGING)
    }


def test_every_changing_route_is_used_or_says_why_not() -> None:
    routes = changing_routes()
    assert routes - USED_BY.keys() - UNUSED.keys() == set(), (
        "new: let somebody use them, or say why nobody does"
    )
    assert (USED_BY.keys() | UNUSED.keys()) - routes == set(), "gone: forget them"
    assert USED_BY.keys() & UNUSED.keys() == set()


def test_every_act_that_is_named_is_somebodys() -> None:
    nowhere: Any = None
    users = Users(nowhere)
    people = People(nowhere, users, nowhere, nowhere, nowhere)
    doers: list[Any] = [users, Races(users), BadDay(nowhere), people, Gpus(nowhere, users)]
    doers += [FleetActs(nowhere, nowhere), Sleepers(nowhere, users, nowhere)]
    doers += [Payers(nowhere, users, nowhere, nowhere), Listeners(nowhere, users, nowhere, nowhere)]
    acts = {name for doer in doers for _, name, _ in doer.acts()} | {"somebody founds the team"}
    assert set(USED_BY.values()) - acts == set()


def test_every_reconciler_runs_or_says_why_not() -> None:
    run = {"containers", *reconcilers_of(frozenset(PARTS), has_fleet=True, has_sleep=True)}
    assert RECONCILERS.keys() - run - RECONCILERS_UNUSED.keys() == set(), "new: let it run, or say why not"
    assert RECONCILERS_UNUSED.keys() <= RECONCILERS.keys() - run
