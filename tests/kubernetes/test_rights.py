"""The controller's rights in a cluster are those that the engine uses, and no other. What a real API server refuses is tried in
`test_cluster_rights.py`."""

import asyncio

import pytest

from moorage.engines.kubernetes import namespaces
from moorage.engines.kubernetes.objects import controller_role, tenant_role
from moorage.kit.errors import EngineError
from tests.engine.contract import logs_of, spec_of, start, until_done
from tests.kubernetes.api_server import StandIn
from tests.kubernetes.world import ClusterWorld

_VERBS = {"POST": "create", "PATCH": "patch", "DELETE": "delete"}


def rights_used(server: StandIn) -> set[tuple[str, str]]:
    """(resource, verb) of every request, as an API server's authorization sees it."""
    used = set()
    for method, path_and_query in server.requests:
        path, _, query = path_and_query.partition("?")
        if path == "/metrics/resource":
            used.add(("nodes/metrics", "get"))
            continue
        parts = path.strip("/").split("/")
        parts = parts[2:] if parts[0] == "api" else parts[3:]
        parts = parts[2:] if parts[0] == "namespaces" and len(parts) > 2 else parts
        resource, named = parts[0], len(parts) > 1
        if len(parts) > 2:
            resource = f"{resource}/{parts[2]}"
        reads = "get" if named else ("watch" if "watch=1" in query else "list")
        used.add((resource, _VERBS.get(method, reads)))
    return used


async def test_no_right_is_given_that_nothing_uses(
    world: ClusterWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    hints = world.engine.watch()
    spec = await spec_of(world, "serves")
    world.server.faults.lose_reply.append(("POST", "/secrets"))
    with pytest.raises(EngineError):
        await world.engine.start(spec)
    started = await start(world, spec)  # writes the Secret anew
    hint = asyncio.ensure_future(anext(hints))
    await until_done(world, hint)
    await world.engine.listening_sockets(started.engine_id)
    await world.engine.capacity()
    await world.engine.usage([started.engine_id])
    node = world.server.store.get(("nodes", "", "node-1"))
    address = {"type": "ExternalIP", "address": "203.0.112.9"}
    changed = {**node, "status": {**node["status"], "addresses": [*node["status"]["addresses"], address]}}
    world.server.store.update(("nodes", "", "node-1"), changed)
    world.engine._cluster._nodes_at_s = None  # as if three seconds had passed
    await world.engine.prepare()
    await world.engine.stop(started.engine_id, 1)
    await logs_of(world, started.engine_id)
    await world.engine.remove(started.engine_id)
    monkeypatch.setattr(namespaces, "EMPTY_FOR_S", 0.0)
    await world.engine.prepare()
    given = {
        (resource, verb)
        for role in (controller_role(), tenant_role())
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    # To bind a role is asked for by the API server itself, when a RoleBinding is made.
    assert given - {("clusterroles", "bind")} == rights_used(world.server)
