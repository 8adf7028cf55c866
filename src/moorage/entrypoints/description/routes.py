"""What the code says of each route: who may call it, which errors it can answer with, which statuses beside its own.

`description/write.py` writes it to `routes.json`, because reading all sources takes a second; a
test compares the two, so that the description is never older than the code.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, get_args, get_type_hints

from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute, iter_route_contexts
from starlette.routing import BaseRoute

from moorage.entrypoints.description.reading import findings_in
from moorage.entrypoints.errors import status_of
from moorage.entrypoints.idempotency import IdempotencyMiddleware
from moorage.entrypoints.shares import ShareMiddleware
from moorage.identity.authentication import TheActor, TheOperator, TheUser
from moorage.kit.errors import NotAuthenticatedError
from moorage.kit.web import SAFE_METHODS
from moorage.machines.custody import Custody
from moorage.machines.endpoints import TheMachine

WRITTEN = Path(__file__).with_name("routes.json")

_NOT_ON = {
    "csrf_failed": SAFE_METHODS,
    "idempotency_key_in_use": (*SAFE_METHODS, "PUT", "PATCH", "DELETE"),
    "too_many_changes": (*SAFE_METHODS, "DELETE"),
}
"""What every route's session and actor can refuse, but not to a request of these methods."""


class Who(StrEnum):
    ANYBODY = "anybody"
    MACHINE = "machine"
    OPERATOR = "operator"
    ACTOR = "actor"
    """A person or a `manage` key, whichever."""
    PERSON = "person"
    MEMBER = "member"
    """A person whose role in the organization includes the permission."""
    PROJECT = "project"
    """The same in the project's organization, or a `manage` key of the project."""
    LENDER = "lender"
    """The same in the organization that lends the machine, or the operator."""


@dataclass(frozen=True)
class RouteFacts:
    who: Who
    permission: str | None
    also: list[int]
    """Statuses that it answers with beside the one that it declares."""
    errors: dict[str, list[str]]
    """Status → codes."""


def read_routes(routes: Sequence[BaseRoute]) -> dict[str, RouteFacts]:
    """By method and path, for all that the description names."""
    facts = {}
    for context in iter_route_contexts(routes):
        route = context.original_route
        if isinstance(route, APIRoute) and route.include_in_schema:
            for method in route.methods or ():
                facts[f"{method} {context.path}"] = _facts(method, route)
    return facts


def written_routes() -> dict[str, RouteFacts]:
    written: dict[str, dict[str, Any]] = json.loads(WRITTEN.read_text())
    return {name: RouteFacts(**{**facts, "who": Who(facts["who"])}) for name, facts in written.items()}


def printed(facts: dict[str, RouteFacts]) -> str:
    """A line for each route, so that a change shows as one."""
    lines = (f"{json.dumps(name)}: {json.dumps(asdict(facts[name]))}" for name in sorted(facts))
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _facts(method: str, route: APIRoute) -> RouteFacts:
    functions = list(_functions(route.dependant))
    found = findings_in(*functions, ShareMiddleware.__call__)
    if method == "POST":
        found.add(findings_in(IdempotencyMiddleware.__call__))
    codes: dict[int, set[str]] = {}
    for kind, code in found.errors:
        status = status_of(kind)
        assert status is not None, "only what a client is told is found"
        if method not in _NOT_ON.get(code, ()):
            codes.setdefault(status.value, set()).add(code)
    who, permission = _who(functions)
    return RouteFacts(
        who=who,
        permission=permission,
        also=sorted(found.statuses - {route.status_code or 200}),
        errors={str(status): sorted(codes[status]) for status in sorted(codes)},
    )


def _who(functions: Sequence[Callable[..., Any]]) -> tuple[Who, str | None]:
    """Whom a route asks for, by what it depends on; a few ask in their own function."""
    own, *dependencies = functions
    if all(code != NotAuthenticatedError.code for _, code in findings_in(*functions).errors):
        # It asks nobody who they are, so a permission that it names is somebody else's.
        return Who.ANYBODY, None
    permissions = findings_in(*dependencies).permissions or findings_in(own).permissions
    assert len(permissions) <= 1, f"{own.__qualname__} asks for {sorted(permissions)}"
    permission = next(iter(permissions), None)
    if permission is not None:
        if any(get_type_hints(one).get("return") is Custody for one in dependencies):
            return Who.LENDER, permission.value
        return (Who.MEMBER if _dependency(TheUser) in functions else Who.PROJECT), permission.value
    for asked, who in (
        (TheMachine, Who.MACHINE),
        (TheOperator, Who.OPERATOR),
        (TheUser, Who.PERSON),
        (TheActor, Who.ACTOR),
    ):
        if _dependency(asked) in functions:
            return who, None
    return Who.ANYBODY, None


def _functions(dependant: Dependant) -> Iterator[Callable[..., Any]]:
    """A route's own function, then those that it depends on."""
    if dependant.call is not None:
        yield dependant.call
    for inner in dependant.dependencies:
        yield from _functions(inner)


def _dependency(annotated: Any) -> Callable[..., Any]:
    dependency: Callable[..., Any] = get_args(annotated)[1].dependency
    return dependency
