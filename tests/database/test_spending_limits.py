"""Spending limits and warnings on real rows: refused, drained and told once."""

import asyncio

import httpx
import pytest
from api_support import Api, assert_problem, container_body, new_home
from api_support import api_fixture as api_fixture
from reconciler_support import KEYRING, SETTINGS, WatchedEngine, World, life, new_world
from test_renewals import (
    END_SOON,
    PRICE,
    balance,
    change,
    charged,
    deploy,
    leave_credit,
    query,
    renew_all,
    rounds,
)

from moorage.billing.alerts.reconciler import AlertsReconciler
from moorage.containers import service
from moorage.identity.users.repository import create_user
from moorage.kit.clock import VirtualClock, system_clock
from moorage.kit.database import Database
from moorage.kit.errors import ConflictError
from moorage.kit.pagination import PageRequest
from moorage.ledger.accounts import CARD, Kind, credit_of
from moorage.ledger.repository import Posting, post
from moorage.notifications.repository import list_outbox
from moorage.organizations.models import MemberRow
from moorage.reconcile.lease import LeaseKeeper

USD = 1_000_000


@pytest.fixture
async def world(database: Database) -> World:
    made = await new_world(database)
    async with made.database.transaction() as session:
        user, _ = await create_user(session, "ada@example.com")
        session.add(MemberRow(organization_id=made.project.organization_id, user_id=user.id, role="admin"))
    return made


async def limit(world: World, hours: float, *, project: bool = False) -> None:
    scope_id = world.project.id if project else world.project.organization_id
    await change(
        world,
        "INSERT INTO spending_limits (scope_id, organization_id, limit_microusd, told_percent)"
        f" VALUES ('{scope_id}', '{world.project.organization_id}', {int(hours * PRICE)}, 0)"
        " ON CONFLICT (scope_id) DO UPDATE SET limit_microusd = EXCLUDED.limit_microusd, told_percent = 0",
    )


async def look(world: World, times: int = 1) -> None:
    """Rounds of the alerts reconciler, a minute apart."""
    await change(world, "UPDATE leases SET expires_at = now() - interval '1 second' WHERE name = 'alerts'")
    lease = await LeaseKeeper(world.database, "alerts", "test", system_clock).acquire()
    assert lease is not None
    clock = VirtualClock()
    reconciler = AlertsReconciler(world.database, KEYRING, SETTINGS, clock)
    for _ in range(times):
        due = await reconciler.due(10)
        for key in due.keys:
            await reconciler.reconcile(key, lease)
        assert (await reconciler.due(10)).keys == [], "once a minute"
        await clock.advance(60)


async def subjects(world: World) -> list[str]:
    async with world.database.transaction() as session:
        mails = await list_outbox(session, KEYRING, PageRequest(50, None))
    assert {mail.to for mail in mails} <= {"ada@example.com"}
    return [mail.subject for mail in reversed(mails)]


async def actions(world: World) -> list[tuple[object, ...]]:
    return await query(world, "SELECT action, details->'percent' FROM audit_records ORDER BY at, id")


@pytest.mark.parametrize("project", [False, True], ids=["organization", "project"])
@pytest.mark.long
async def test_at_the_limit_what_runs_drains_and_nothing_starts(world: World, project: bool) -> None:
    async with life(world, WatchedEngine(world.machine)) as controller:
        await limit(world, 3.5, project=project)
        container_id = await deploy(world, controller, 2)
        with pytest.raises(
            ConflictError, match=r"limit of this .* \$0\.0175, of which \$0\.0075 is left"
        ) as refused:
            await world.create(replicas=2)
        assert refused.value.code == "spending_limit"
        await change(world, END_SOON)
        await renew_all(world)
        row = await world.container(container_id)
        assert (row.desired_state, row.state, row.reason) == ("stopped", "STOPPING", "spending_limit")
        await rounds(world, controller, container_id, 8)
        row = await world.container(container_id)
        assert (row.state, row.reason) == ("STOPPED", "spending_limit")
        assert "moor billing limits" in (row.message or "")
        assert await world.nothing_left(container_id)
        assert await charged(world) == 3 * PRICE, "never more than the limit"
        whose = "the project default" if project else "Acme"
        assert set(await subjects(world)) == {
            f"The monthly spending limit of {whose} is reached",
            "container-1 stops: the monthly spending limit is reached",
        }
        await look(world, 3)
        assert await actions(world) == [("billing.spending_alert", 100)], "told once"
        with pytest.raises(ConflictError):
            await world.ask(service.start_container, container_id)
        await limit(world, 100, project=project)
        await world.ask(service.start_container, container_id)
        await rounds(world, controller, container_id)
        assert (await world.container(container_id)).state == "RUNNING"


async def test_above_its_minimum_only_what_fits_is_kept(world: World) -> None:
    async with life(world, WatchedEngine(world.machine)) as controller:
        await limit(world, 2)
        container_id = await deploy(world, controller, 1)
        await change(world, "UPDATE containers SET desired_replicas = 3")
        await rounds(world, controller, container_id)
        assert len(await world.replicas(container_id, "routed")) == 2
        assert await charged(world) == 2 * PRICE
        await limit(world, 5)
        await rounds(world, controller, container_id)
        assert len(await world.replicas(container_id, "routed")) == 3


async def test_what_waits_for_the_limit_says_so_and_starts_when_it_is_raised(world: World) -> None:
    async with life(world, WatchedEngine(world.machine)) as controller:
        container_id = await deploy(world, controller)
        await change(world, "UPDATE hours SET expires_at = now(), due_at = NULL")
        await limit(world, 1)
        world.machine.end((await world.replicas(container_id, "routed"))[0].id)
        await controller.round(container_id)
        ended = "UPDATE replicas SET ended_at = ended_at - interval '2 minutes' WHERE ended_badly"
        await change(world, ended)
        await rounds(world, controller, container_id, 2)
        row = await world.container(container_id)
        assert (row.state, row.reason) == ("PENDING", "spending_limit")
        await limit(world, 2)
        await rounds(world, controller, container_id)
        assert (await world.container(container_id)).state == "RUNNING"


async def test_racing_deployments_stay_within_the_limit(world: World) -> None:
    await limit(world, 3)
    outcomes = await asyncio.gather(*(world.create() for _ in range(12)), return_exceptions=True)
    refused = [one for one in outcomes if isinstance(one, ConflictError)]
    assert len(refused) == 9, outcomes
    assert (await balance(world)).held_microusd == 3 * PRICE
    print("\n12 racing deployments with a limit of 3 hours: 3 admitted")


async def test_another_month_begins_anew(world: World) -> None:
    async with life(world, WatchedEngine(world.machine)) as controller:
        await limit(world, 2)
        await deploy(world, controller)
        await deploy(world, controller)
        await look(world, 2)
        assert await actions(world) == [("billing.spending_alert", 100)]
        await change(world, "UPDATE hours SET bought_at = bought_at - interval '32 days'")
        await change(world, "UPDATE spending_limits SET told_month = told_month - interval '1 month'")
        await deploy(world, controller)
        await look(world, 2)
        assert await actions(world) == [("billing.spending_alert", 100), ("billing.spending_alert", 50)]


@pytest.mark.long
async def test_alerts_on_the_way(world: World) -> None:
    async with life(world, WatchedEngine(world.machine)) as controller:
        await limit(world, 10)
        await limit(world, 100, project=True)
        for expected in (0, 0, 0, 0, 1, 1, 1, 2, 2, 3):
            await deploy(world, controller)
            await look(world, 2)
            assert len(await actions(world)) == expected
    assert [percent for _, percent in await actions(world)] == [50, 80, 100]
    assert (await subjects(world))[:2] == [
        "50 % of the monthly spending limit of Acme is spent",
        "80 % of the monthly spending limit of Acme is spent",
    ]


async def test_low_credit_is_told_a_day_and_an_hour_before_and_again_after_a_top_up(world: World) -> None:
    organization_id = world.project.organization_id
    async with life(world, WatchedEngine(world.machine)) as controller:
        container_id = await deploy(world, controller)
        await leave_credit(world, 30 * PRICE)
        await look(world)
        assert await subjects(world) == []
        await leave_credit(world, 20 * PRICE)
        await look(world, 3)
        assert await subjects(world) == ["The credit of Acme runs out within 24 hours"]
        await leave_credit(world, 0)
        await look(world, 3)
        assert (await subjects(world))[1:] == ["The credit of Acme runs out within an hour"]
        async with world.database.transaction() as session:
            credit = credit_of(organization_id)
            await post(
                session, Posting("top-up", Kind.CARD_TOP_UP, organization_id, CARD, credit, 10 * PRICE)
            )
        await look(world, 3)
        assert (await subjects(world))[2:] == ["The credit of Acme runs out within 24 hours"]
        assert await query(world, "SELECT DISTINCT action FROM audit_records") == [("billing.low_credit",)]
        await world.ask(service.stop_container, container_id)
        await look(world)
        assert len(await subjects(world)) == 3


@pytest.mark.long
async def test_who_has_a_card_charged_is_warned_only_when_that_fails(world: World) -> None:
    organization_id = world.project.organization_id
    async with life(world, WatchedEngine(world.machine)) as controller:
        await deploy(world, controller)
        await leave_credit(world, 20 * PRICE)
        await change(
            world,
            "INSERT INTO saved_cards (organization_id, customer_id, payment_method_id)"
            f" VALUES ('{organization_id}', 'cus_1', 'pm_1')",
        )
        await change(
            world,
            "INSERT INTO auto_top_ups (organization_id, threshold_microusd, amount_microusd,"
            f" monthly_cap_microusd, agreed_by) VALUES ('{organization_id}', {10 * PRICE}, 5000000, 5000000, 'usr_1')",
        )
        await look(world, 2)
        assert await subjects(world) == []
        await change(
            world,
            "INSERT INTO card_payments (id, organization_id, amount_microusd, requested_by, automatic, failed_at)"
            f" SELECT 'top_' || n, '{organization_id}', 5000000, 'system', true, now() FROM generate_series(1, 3) n",
        )
        await look(world, 2)
        assert await subjects(world) == ["The credit of Acme runs out within 24 hours"]


async def test_routes(api: Api) -> None:
    home, other = await new_home(api), await new_home(api, "bea@example.com")
    path = f"/organizations/{home.organization_id}/billing/limits"
    shown = (await api.get(home.admin, path)).json()
    assert shown["organization"]["limit_microusd"] is None
    assert [(one["scope_id"], one["left_microusd"]) for one in shown["projects"]] == [(home.project_id, None)]

    async def put(where: str, value: object) -> httpx.Response:
        return await api.ask(home.admin, "PUT", f"/api/v1{where}", json={"limit_microusd": value})

    for bad in (-1, 1.5, "5", True, 10**13 + 1, {}):
        assert_problem(await put(path, bad), 422, "invalid_input")
    assert_problem(await put(f"{path}/{other.project_id}", 1), 404, "not_found")
    assert (await put(f"{path}/{home.project_id}", 7_000)).status_code == 200
    containers = f"/projects/{home.project_id}/containers"
    assert (await api.post(home.admin, containers, container_body("first"))).status_code == 201
    refused = await api.post(home.admin, containers, container_body("second"))
    assert_problem(refused, 409, "spending_limit")
    assert "$0.007" in refused.json()["detail"]
    shown = (await api.get(home.admin, path)).json()
    found = shown["projects"][0]
    assert (found["limit_microusd"], found["held_microusd"], found["left_microusd"]) == (7_000, 5_000, 2_000)
    assert shown["organization"]["held_microusd"] == 5_000
    assert (await put(f"{path}/{home.project_id}", None)).status_code == 200
    assert (await api.post(home.admin, containers, container_body("second"))).status_code == 201
    assert (await put(path, 0)).status_code == 200
    assert_problem(await api.post(home.admin, containers, container_body("third")), 409, "spending_limit")
    audit = (await api.get(home.admin, f"/organizations/{home.organization_id}/audit")).json()["items"]
    limits = [one for one in audit if one["action"] == "billing.spending_limit"]
    assert [(one["target"], one["details"]) for one in reversed(limits)] == [
        (home.project_id, {"limit_microusd": 7_000}),
        (home.project_id, {"limit_microusd": None}),
        (home.organization_id, {"limit_microusd": 0}),
    ]
