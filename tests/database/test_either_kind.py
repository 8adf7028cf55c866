"""A container that takes machines of either kind: each replica takes the cheaper type that has room, its slot's hour serves
both, and nobody ends up on a stranger's machine without having said so."""

import pytest
from api_support import Api, assert_problem, container_body, new_home
from api_support import api_fixture as api_fixture
from machines_support import SECOND, UNREACHABLE, Fleet, change, leading, new_fleet, serving, silent_for
from reconciler_support import KEYRING, SETTINGS, Life
from test_reconciler_canary import canary
from test_reconciler_drafts import draft
from test_renewals import charged, query

from moorage.billing.renewals.reconciler import RenewalsReconciler
from moorage.containers.capacity_repository import load_room
from moorage.engines.base import LOCAL_ENGINE
from moorage.kit.clock import system_clock
from moorage.kit.database import Database
from moorage.ledger.check_repository import find_differences, find_slots_paid_wrongly

OWN, THEIRS = 5_000, 3_000
"""The prices of `cpu-nano` and of its sibling."""
TYPES = """
INSERT INTO instance_types (name, position, gpu_count, vcpu_millis, memory_bytes, disk_bytes, price_per_hour_microusd,
    infrastructure, enabled)
SELECT 'cpu-nano-community', 99, 0, vcpu_millis, memory_bytes, disk_bytes, 3000, 'community', true
FROM instance_types WHERE name = 'cpu-nano'
"""
EITHER = {"infrastructure": "any", "accept_exposure": True}


@pytest.fixture
async def fleet(database: Database) -> Fleet:
    """The second machine is a stranger's."""
    fleet = await new_fleet(database)
    await change(fleet.world, TYPES)
    await change(fleet.world, f"UPDATE nodes SET infrastructure = 'community' WHERE engine = '{SECOND}'")
    return fleet


async def places(fleet: Fleet, container_id: str) -> list[tuple[str, str | None]]:
    rows = await fleet.world.replicas(container_id, "routed")
    return sorted((row.engine, row.sibling_type) for row in rows)


async def paid(fleet: Fleet) -> list[tuple[object, ...]]:
    return await query(
        fleet.world,
        "SELECT instance_type, sibling_type, price_microusd FROM hours WHERE state = 'paid' ORDER BY price_microusd",
    )


async def books_are_right(fleet: Fleet) -> None:
    async with fleet.world.database.transaction() as session:
        assert await find_differences(session) == []
        assert await find_slots_paid_wrongly(session) == []


async def no_room_at_strangers(fleet: Fleet) -> None:
    """For more than one."""
    await change(fleet.world, f"UPDATE nodes SET memory_bytes = 400 * 1024 * 1024 WHERE engine = '{SECOND}'")


async def test_each_replica_takes_the_cheaper_one_that_has_room(fleet: Fleet) -> None:
    await no_room_at_strangers(fleet)
    async with leading(fleet) as alive:
        container_id = await fleet.world.create(replicas=2, **EITHER)
        held = await query(fleet.world, "SELECT sum(held_microusd) FROM credit_accounts")
        assert held == [(2 * OWN,)], "the dearer one is held"
        await serving(alive, container_id, 2)
    assert await places(fleet, container_id) == [(LOCAL_ENGINE, None), (SECOND, "cpu-nano-community")]
    assert await paid(fleet) == [
        ("cpu-nano", "cpu-nano-community", THEIRS),
        ("cpu-nano", None, OWN),
    ]
    assert await charged(fleet.world) == OWN + THEIRS
    assert await query(fleet.world, "SELECT sum(held_microusd) FROM credit_accounts") == [(0,)]
    entries = await query(
        fleet.world,
        "SELECT details->>'instance_type' FROM ledger_transactions WHERE kind = 'usage' ORDER BY 1",
    )
    assert entries == [("cpu-nano",), ("cpu-nano-community",)], "an invoice names what was bought"
    await books_are_right(fleet)


async def test_it_may_begin_with_the_strangers_type(fleet: Fleet) -> None:
    await no_room_at_strangers(fleet)
    async with leading(fleet) as alive:
        container_id = await fleet.world.create(replicas=2, **EITHER)
        await change(
            fleet.world,
            "UPDATE containers SET instance_type = 'cpu-nano-community',"
            """ settings = settings || '{"instance_type": "cpu-nano-community"}'""",
        )
        await serving(alive, container_id, 2)
    assert await places(fleet, container_id) == [(LOCAL_ENGINE, "cpu-nano"), (SECOND, None)]
    assert await charged(fleet.world) == OWN + THEIRS
    await books_are_right(fleet)


BY_STRANGERS = """UPDATE containers SET instance_type = 'cpu-nano-community',
    settings = settings || '{"instance_type": "cpu-nano-community", "infrastructure": "community"}'"""


async def test_a_canary_on_the_dearer_type_costs_what_it_takes(fleet: Fleet) -> None:
    """What serves beside it takes the cheaper one alone."""
    await no_room_at_strangers(fleet)
    async with leading(fleet) as alive:
        container_id = await fleet.world.create(**EITHER)
        await change(fleet.world, BY_STRANGERS)
        await serving(alive, container_id, 1)
        await draft(fleet.world, container_id, **EITHER)
        await fleet.world.ask(canary, container_id)
        await serving(alive, container_id, 2)
    assert await places(fleet, container_id) == [(LOCAL_ENGINE, "cpu-nano"), (SECOND, None)]
    assert await paid(fleet) == [
        ("cpu-nano-community", None, THEIRS),
        ("cpu-nano-community", "cpu-nano", OWN),
    ]
    assert await query(fleet.world, "SELECT sum(held_microusd) FROM credit_accounts") == [(0,)]
    await books_are_right(fleet)


async def test_what_was_held_for_a_type_that_is_not_offered_any_more_comes_back(fleet: Fleet) -> None:
    async with leading(fleet) as alive:
        container_id = await fleet.world.create(**EITHER)
        await change(fleet.world, BY_STRANGERS.replace('"community"', '"any"'))
        await alive.round(container_id)
        assert await query(fleet.world, "SELECT sum(held_microusd) FROM credit_accounts") == [(OWN,)]
        await change(fleet.world, "UPDATE instance_types SET enabled = false WHERE name = 'cpu-nano'")
        await serving(alive, container_id, 1)
    assert await paid(fleet) == [("cpu-nano-community", None, THEIRS)]
    assert await query(fleet.world, "SELECT sum(held_microusd) FROM credit_accounts") == [(0,)]
    await books_are_right(fleet)


@pytest.mark.parametrize("said", [{}, {"infrastructure": "any"}])
async def test_who_did_not_say_so_stays_on_the_operators(fleet: Fleet, said: dict[str, str]) -> None:
    """Also a container of before that was a thing to be said."""
    async with leading(fleet) as alive:
        container_id = await fleet.world.create(replicas=2)
        infrastructure = said.get("infrastructure", "operator")
        await change(
            fleet.world,
            f"""UPDATE containers SET settings = settings - 'accept_exposure' || '{{"infrastructure": "{infrastructure}"}}'""",
        )
        await serving(alive, container_id, 2)
    assert await places(fleet, container_id) == [(LOCAL_ENGINE, None)] * 2


async def lose_the_stranger(fleet: Fleet, alive: Life, replica_id: str) -> None:
    fleet.second.cut_off()
    fleet.world.failing[replica_id] = UNREACHABLE
    await fleet.world.gateway_step()
    await silent_for(alive, SECOND, 21)


async def test_an_hour_serves_the_other_kind_when_a_machine_is_lost(fleet: Fleet) -> None:
    async with leading(fleet) as alive:
        container_id = await fleet.world.create(**EITHER)
        (first,) = await serving(alive, container_id, 1)
        assert first.engine == SECOND
        await lose_the_stranger(fleet, alive, first.id)
        (second,) = await serving(alive, container_id, 1)
    assert (second.engine, second.sibling_type) == (LOCAL_ENGINE, None)
    assert await charged(fleet.world) == THEIRS, "it was paid for already"
    await books_are_right(fleet)


async def test_the_next_hour_costs_what_runs_by_then(fleet: Fleet) -> None:
    async with leading(fleet) as alive:
        container_id = await fleet.world.create(**EITHER)
        (first,) = await serving(alive, container_id, 1)
        await change(fleet.world, "UPDATE hours SET due_at = now() - interval '1 s'")
        renewals = RenewalsReconciler(fleet.world.database, KEYRING, SETTINGS, system_clock)
        await renewals.reconcile(fleet.world.project.organization_id, alive.lease)
        assert await charged(fleet.world) == 2 * THEIRS
        await lose_the_stranger(fleet, alive, first.id)
        await serving(alive, container_id, 1)
        await change(fleet.world, "UPDATE hours SET due_at = now() - interval '1 s' WHERE due_at IS NOT NULL")
        await renewals.reconcile(fleet.world.project.organization_id, alive.lease)
    assert await charged(fleet.world) == 2 * THEIRS + OWN
    await books_are_right(fleet)


async def test_what_the_machines_hold_is_counted_whoever_lends_them(fleet: Fleet) -> None:
    async with leading(fleet) as alive:
        container_id = await fleet.world.create(**EITHER)
        await serving(alive, container_id, 1)
    async with fleet.world.database.transaction() as session:
        used = (await load_room(session)).used
    assert {machine.engine: held.cpu_millis for machine, held in used.items()} == {SECOND: 250}


async def test_exposure_has_to_be_accepted_and_is_remembered(api: Api) -> None:
    home = await new_home(api)
    await api.execute(TYPES)
    path = f"/projects/{home.project_id}/containers"
    refused = await api.post(home.admin, path, container_body(infrastructure="any"))
    problem = assert_problem(refused, 422, "exposure_not_accepted")
    for word in ("memory", "prompts", "weights", "environment"):
        assert word in problem["detail"]
    assert [one["field"] for one in problem["errors"]] == ["accept_exposure"]
    resources = {"mode": "general", "instance_type": "cpu-nano"}
    body = container_body(infrastructure="any", accept_exposure=True, resources=resources)
    made = (await api.post(home.admin, path, body)).json()
    assert (made["price_per_hour_microusd"], made["least_price_per_hour_microusd"]) == (OWN, THEIRS)
    listed = (await api.get(home.admin, path)).json()["items"][0]
    assert (listed["price_per_hour_microusd"], listed["least_price_per_hour_microusd"]) == (OWN, THEIRS)
    records = (await api.get(home.admin, f"/organizations/{home.organization_id}/audit")).json()["items"]
    (said,) = [one for one in records if one["action"] == "container.accept_exposure"]
    assert (said["actor"], said["target"]) == (home.user_id, made["id"])
    assert said["details"] == {"infrastructure": "any", "name": "chat", "project_id": home.project_id}


async def test_an_edit_says_it_once_and_again_after_going_back(api: Api) -> None:
    home = await new_home(api)
    made = (await api.post(home.admin, f"/projects/{home.project_id}/containers", container_body())).json()
    await api.execute("UPDATE containers SET state = 'STOPPED', desired_state = 'stopped'")

    async def edited(**changes: object) -> dict[str, object]:
        answer = await api.ask(home.admin, "PATCH", f"/api/v1/containers/{made['id']}", json=changes)
        return {"status": answer.status_code, **answer.json()}

    assert (await edited(infrastructure="any"))["code"] == "exposure_not_accepted"
    assert (await edited(infrastructure="any", accept_exposure=True))["accept_exposure"] is True
    assert (await edited(port=9000))["status"] == 200, "it was said"
    assert (await edited(infrastructure="operator"))["accept_exposure"] is False
    assert (await edited(infrastructure="any"))["code"] == "exposure_not_accepted"


async def test_a_draft_says_it_too(api: Api) -> None:
    home = await new_home(api)
    made = (await api.post(home.admin, f"/projects/{home.project_id}/containers", container_body())).json()
    draft = f"/api/v1/containers/{made['id']}/draft"
    refused = await api.ask(home.admin, "PUT", draft, json={"infrastructure": "any"})
    assert_problem(refused, 422, "exposure_not_accepted")
    said = {"infrastructure": "any", "accept_exposure": True}
    assert (await api.ask(home.admin, "PUT", draft, json=said)).status_code == 200
    records = (await api.get(home.admin, f"/organizations/{home.organization_id}/audit")).json()["items"]
    assert [one["action"] for one in records].count("container.accept_exposure") == 1
