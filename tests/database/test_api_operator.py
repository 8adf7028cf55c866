"""What the operator does to organizations and people, and what it does to their containers."""

import pytest
from api_support import Api, assert_problem, container_body, new_home
from api_support import api_fixture as api_fixture
from reconciler_support import WatchedEngine, World, driven, eventually, new_world
from sqlalchemy import select
from test_reconciler_stories import reaches

from moorage.catalog.repository import replace_nodes
from moorage.containers import service, suspension
from moorage.containers.models import ReplicaRow
from moorage.containers.states import ContainerState
from moorage.engines.base import NodeCapacity
from moorage.kit.database import Database
from moorage.kit.errors import ForbiddenError
from moorage.organizations.models import OrganizationRow


async def test_lists(api: Api) -> None:
    home = await new_home(api)
    bea, _ = await api.new_person("bea@example.com")
    await api.join(home.organization_id, bea)
    organizations = (await api.get(api.operator, "/operator/organizations")).json()["items"]
    shown = [(one["name"], one["member_count"], one["project_count"]) for one in organizations]
    assert shown == [("acme", 2, 1), ("Operator", 1, 1)]
    users = (await api.get(api.operator, "/operator/users")).json()["items"]
    assert [(one["email"], one["organization_ids"]) for one in users][:2] == [
        ("bea@example.com", [home.organization_id]),
        ("ada@example.com", [home.organization_id]),
    ]
    page = (await api.get(api.operator, "/operator/users?limit=1")).json()
    rest = (await api.get(api.operator, f"/operator/users?cursor={page['next_cursor']}")).json()["items"]
    assert [one["email"] for one in rest] == ["ada@example.com", "operator@localhost"]


async def test_suspended_organization(api: Api) -> None:
    home = await new_home(api)
    path = f"/operator/organizations/{home.organization_id}"
    existing = await api.new_container(home.project_id, "existing")
    assert_problem(await api.post(api.operator, f"{path}/suspend", {}), 422)
    for _ in range(2):
        answer = await api.post(api.operator, f"{path}/suspend", {"reason": "abuse"})
        assert answer.status_code == 200, answer.text
        assert answer.json()["suspended_at"] is not None
    refused = (
        await api.post(home.admin, f"/projects/{home.project_id}/containers", container_body()),
        await api.post(home.admin, f"/containers/{existing}/start"),
        await api.post(home.admin, f"/containers/{existing}/restart"),
        await api.ask(home.admin, "PATCH", f"/api/v1/containers/{existing}", json={"name": "x"}),
    )
    for one in refused:
        assert_problem(one, 403, "suspended")
    # They still see what is theirs, and may take it away.
    assert (await api.get(home.admin, f"/organizations/{home.organization_id}")).json()["suspended_at"]
    assert (await api.ask(home.admin, "DELETE", f"/api/v1/containers/{existing}")).status_code == 202
    assert (await api.post(api.operator, f"{path}/resume")).json()["suspended_at"] is None
    created = await api.post(home.admin, f"/projects/{home.project_id}/containers", container_body())
    assert created.status_code == 201
    audit = (await api.get(home.admin, f"/organizations/{home.organization_id}/audit")).json()["items"]
    assert [one["action"] for one in audit] == [
        "container.create",
        "organization.resume",
        "container.delete",
        "organization.suspend",
    ]
    assert audit[3]["details"] == {"reason": "abuse"}
    assert_problem(await api.post(api.operator, "/operator/organizations/org_nothing/resume"), 404)


@pytest.fixture
async def world(database: Database) -> World:
    return await new_world(database)


@pytest.mark.long
async def test_containers_of_a_suspended_organization(world: World) -> None:
    """They stop and say why; those that ran run again when it is over, and those that did not do not."""
    async with driven(world, WatchedEngine(world.machine)):
        runs, rests = await world.create(replicas=2), await world.create()
        await reaches(world, runs, ContainerState.RUNNING, ready=2)
        await reaches(world, rests, ContainerState.RUNNING, ready=1)
        await world.ask(service.stop_container, rests)
        await reaches(world, rests, ContainerState.STOPPED)

        async with world.database.transaction() as session:
            organization_id = (await session.execute(select(OrganizationRow.id))).scalars().first()
            assert organization_id is not None
            assert await suspension.suspend(session, organization_id, "usr_operator", "abuse")
        await reaches(world, runs, ContainerState.STOPPED)
        await eventually(lambda: world.nothing_left(runs), "nothing runs while suspended")
        assert (await world.container(runs)).reason == "suspended"
        assert (await world.container(rests)).reason == "stopped_by_user"
        with pytest.raises(ForbiddenError):
            await world.ask(service.start_container, rests)

        async with world.database.transaction() as session:
            assert await suspension.resume(session, organization_id, "usr_operator")
        await reaches(world, runs, ContainerState.RUNNING, ready=2)
        await reaches(world, rests, ContainerState.STOPPED)
        assert (await world.container(rests)).reason == "stopped_by_user"


async def test_a_gateway_that_is_gone_is_forgotten_with_what_it_held(api: Api) -> None:
    home = await new_home(api)
    container_id = await api.new_container(home.project_id, "chat")
    silent, alive = await api.new_silent_gateway(), await api.new_silent_gateway()
    await api.execute("UPDATE gateways SET seen_at = now() WHERE id = :id", id=alive)
    async with api.database.transaction() as session:
        session.add(
            ReplicaRow(
                id="rep_gone",
                container_id=container_id,
                slot=0,
                generation=1,
                instance_type="cpu-small",
                state="draining",
                node="local",
                host_port=20000,
            )
        )
    await api.execute("UPDATE containers SET reconcile_at = NULL")
    for gateway_id in (silent, alive):
        await api.execute(
            "INSERT INTO replica_routes (gateway_id, replica_id, draining, in_flight, changed_at) "
            "VALUES (:id, 'rep_gone', true, 1, now())",
            id=gateway_id,
        )
    assert_problem(
        await api.ask(api.operator, "DELETE", f"/api/v1/operator/gateways/{alive}"), 409, "gateway_alive"
    )
    assert (await api.ask(api.operator, "DELETE", f"/api/v1/operator/gateways/{silent}")).status_code == 204
    assert await api.rows("SELECT gateway_id FROM replica_routes") == [(alive,)]
    assert await api.rows("SELECT count(*) FROM containers WHERE reconcile_at <= now()") == [(1,)]
    assert (await api.ask(api.operator, "DELETE", f"/api/v1/operator/gateways/{silent}")).status_code == 404


async def test_replicas_that_are_gone(api: Api) -> None:
    path = "/operator/nodes/one/replicas-gone"
    assert_problem(await api.post(api.operator, path), 404)
    node = NodeCapacity("one", "operator", "amd64", 1000, 2**30, ())
    async with api.database.transaction() as session:
        await replace_nodes(session, [node])
    assert_problem(await api.post(api.operator, path), 409, "not_in_doubt")
    await api.new_doubt("one")
    health = (await api.get(api.operator, "/operator/health")).json()
    [part] = [part for part in health["parts"] if part["name"] == "replicas on one"]
    assert (part["state"], "3 of 4 disappeared" in part["message"]) == ("failing", True)
    assert "moor operator replicas-gone one" in part["what_to_do"]
    said = (await api.post(api.operator, path)).json()
    assert (said["node"], said["missing"], said["expected"]) == ("one", 3, 4)
    assert said["gone_at"] is not None
    assert (await api.post(api.operator, path)).json()["gone_at"] == said["gone_at"], "said once"
    audit = (await api.get(api.operator, "/operator/audit")).json()["items"]
    assert (audit[0]["action"], audit[0]["target"]) == ("node.replicas_gone", "one")
