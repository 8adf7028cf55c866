"""Money over HTTP: the gate, what people see, transfers and credits; and 30 deployments that race for the last dollar."""

import asyncio
import csv
import io
from datetime import timedelta
from typing import Any

import pytest
from api_support import Api, Home, assert_problem, container_body, new_home
from api_support import api_fixture as api_fixture

from moorage.billing.top_ups.service import MOST_PENDING_TRANSFERS
from moorage.catalog.defaults import default_catalogue
from moorage.kit.clock import system_clock
from moorage.ledger.check_repository import find_differences

PRICES = {one.name: one.price_per_hour_microusd for one in default_catalogue()}
USD = 1_000_000


@pytest.fixture
async def home(api: Api) -> Home:
    return await new_home(api)


def large(name: str, replicas: int = 1) -> dict[str, Any]:
    resources = {
        "mode": "autoscaling",
        "instance_type": "h200-141gb",
        "min_replicas": replicas,
        "max_replicas": 8,
    }
    return container_body(name, resources=resources)


async def billing(api: Api, home: Home) -> dict[str, Any]:
    answer = await api.get(home.admin, f"/organizations/{home.organization_id}/billing")
    assert answer.status_code == 200, answer.text
    async with api.database.transaction() as session:
        assert await find_differences(session) == []
    found: dict[str, Any] = answer.json()
    return found


async def entries(api: Api, home: Home) -> list[dict[str, Any]]:
    answer = await api.get(home.admin, f"/organizations/{home.organization_id}/billing/entries")
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


async def set_available(api: Api, home: Home, microusd: int) -> None:
    await api.execute(
        "UPDATE credit_accounts SET available_microusd = :a WHERE organization_id = :o",
        a=microusd,
        o=home.organization_id,
    )
    await api.execute(
        "UPDATE credit_lots SET amount_microusd = :a WHERE organization_id = :o",
        a=microusd,
        o=home.organization_id,
    )


async def test_signing_up_gives_20_usd_once(api: Api) -> None:
    for _ in range(2):
        await api.post(api.operator, "/auth/email/start", {"email": "eve@example.com"})
        code = (await api.mails())[0]["subject"][:6]
        signed_in = await api.post(
            api.operator, "/auth/email/verify", {"email": "eve@example.com", "code": code}
        )
    token = signed_in.json()["session_token"]
    rows = await api.rows(
        "SELECT a.available_microusd FROM credit_accounts a JOIN organization_members m "
        "ON m.organization_id = a.organization_id JOIN users u ON u.id = m.user_id WHERE u.email = 'eve@example.com'"
    )
    assert [tuple(row) for row in rows] == [(20 * USD,)]
    assert token


async def test_30_racing_deployments_with_credit_for_one(api: Api, home: Home) -> None:
    price = PRICES["h200-141gb"]
    await api.execute(
        "INSERT INTO ledger_transactions (id, key, kind, organization_id, details) "
        "VALUES ('txn_r', 'refund:r', 'refund', :o, '{}')",
        o=home.organization_id,
    )
    await api.execute(
        "INSERT INTO ledger_entries VALUES ('txn_r', :credit, :minus), ('txn_r', 'card', :plus)",
        credit=f"credit:{home.organization_id}",
        minus=2 * price - 1 - 20 * USD,
        plus=20 * USD - 2 * price + 1,
    )
    await set_available(api, home, 2 * price - 1)
    path = f"/projects/{home.project_id}/containers"
    answers = await asyncio.gather(*(api.post(home.admin, path, large(f"race-{n}")) for n in range(30)))
    assert sorted(answer.status_code for answer in answers) == [201] + [402] * 29
    refused = assert_problem(
        next(one for one in answers if one.status_code == 402), 402, "insufficient_credit"
    )
    assert refused["missing_microusd"] == 1
    assert "Top up at least $0.000001" in refused["detail"]
    found = await billing(api, home)
    assert (found["available_microusd"], found["held_microusd"]) == (price - 1, price)
    assert await api.rows("SELECT count(*) FROM containers") == [(1,)]


async def test_start_and_restart_go_through_the_gate(api: Api, home: Home) -> None:
    container_id = await api.new_container(home.project_id, "idle")
    await set_available(api, home, PRICES["cpu-nano"] - 1)
    for change in ("start", "restart"):
        assert_problem(
            await api.post(home.admin, f"/containers/{container_id}/{change}"), 402, "insufficient_credit"
        )
    await set_available(api, home, PRICES["cpu-nano"])
    assert (await api.post(home.admin, f"/containers/{container_id}/start")).status_code == 202
    assert (await api.post(home.admin, f"/containers/{container_id}/restart")).status_code == 202, "held once"


async def test_a_project_needs_a_balance_above_zero(api: Api, home: Home) -> None:
    path = f"/organizations/{home.organization_id}/projects"
    await set_available(api, home, 0)
    assert_problem(await api.post(home.admin, path, {"name": "poor"}), 402, "insufficient_credit")
    await set_available(api, home, 1)
    assert (await api.post(home.admin, path, {"name": "rich"})).status_code == 201


async def test_the_forecast(api: Api, home: Home) -> None:
    idle = await billing(api, home)
    assert (idle["burn_per_hour_microusd"], idle["runs_out_at"]) == (0, None)
    created = (await api.post(home.admin, f"/projects/{home.project_id}/containers", large("big", 2))).json()
    await api.execute(
        "INSERT INTO replicas (id, container_id, slot, generation, instance_type, state, node, gpu_device_ids, host, "
        "host_port, ended_badly) SELECT 'rep_' || n, :c, n, 1, 'h200-141gb', 'routed', 'node', '{}', '127.0.0.1', "
        "20000 + n, false FROM generate_series(0, 1) n",
        c=created["id"],
    )
    found = await billing(api, home)
    price = PRICES["h200-141gb"]
    assert found["held_microusd"] == 2 * price
    assert found["burn_per_hour_microusd"] == 2 * price
    assert found["burn_maximum_per_hour_microusd"] == 8 * price
    assert found["runs_out_at"] is not None
    assert found["forecast"].startswith("$9.98/h now, up to $39.92/h; runs out ")


async def test_usage_is_seen_by_project_and_adds_up_to_the_ledger(api: Api, home: Home) -> None:
    user_id, token = await api.new_person("bob@example.com")
    await api.join(home.organization_id, user_id)
    side = await api.new_project(home.organization_id, "side", user_id)
    for project_id, slots in ((home.project_id, 3), (side, 1)):
        created = (
            await api.post(home.admin, f"/projects/{project_id}/containers", container_body("chat"))
        ).json()
        await api.execute(
            "INSERT INTO hours SELECT 'hour_' || :p || n, organization_id, project_id, container_id, instance_type, n, "
            "price_microusd, 'paid', held_at, now(), now() + interval '1 hour', NULL, NULL "
            "FROM hours, generate_series(1, :n) n WHERE container_id = :c AND state = 'held'",
            p=project_id,
            n=slots,
            c=created["id"],
        )
    path = f"/organizations/{home.organization_id}/billing/usage"
    seen = (await api.get(home.admin, path)).json()
    price = PRICES["cpu-nano"]
    assert seen["total_microusd"] == 4 * price
    assert sorted((one["project_name"], one["container_name"], one["hours"]) for one in seen["items"]) == [
        ("default", "chat", 3),
        ("side", "chat", 1),
    ]
    bob = type(home.admin)("bob", {"Authorization": f"Bearer {token}"})
    assert [one["project_id"] for one in (await api.get(bob, path)).json()["items"]] == [side]
    exported = await api.get(home.admin, f"{path}/export")
    rows = list(csv.DictReader(io.StringIO(exported.text)))
    assert sum(int(row["amount_microusd"]) for row in rows) == 4 * price
    assert (await api.get(home.admin, f"{path}?from=2001-01-01&to=2001-01-31")).json()["items"] == []
    assert_problem(await api.get(home.admin, f"{path}?from=2026-02-01&to=2026-01-01"), 422, "invalid_input")
    assert_problem(await api.get(home.admin, f"{path}?from=0001-01-01&to=9999-12-31"), 422, "invalid_input")


async def test_the_balance_at_the_end_of_each_day(api: Api, home: Home) -> None:
    """Of a top-up three days ago and an hour that was bought two days ago, beside the credit to begin with."""
    now = system_clock.now()
    for name, days_ago, microusd in (("topped", 3, 50 * USD), ("bought", 2, -7 * USD)):
        await api.execute(
            "INSERT INTO ledger_transactions (id, key, kind, organization_id, at, details) "
            "VALUES (:id, :id, 'refund', :o, :at, '{}')",
            id=name,
            o=home.organization_id,
            at=now - timedelta(days=days_ago),
        )
        await api.execute(
            "INSERT INTO ledger_entries VALUES (:id, :credit, :amount), (:id, 'card', :back)",
            id=name,
            credit=f"credit:{home.organization_id}",
            amount=microusd,
            back=-microusd,
        )
    await set_available(api, home, 63 * USD)
    assert (await billing(api, home))["balance_microusd"] == 63 * USD
    path = f"/organizations/{home.organization_id}/billing/balance"

    async def balances(first: int, last: int) -> list[int]:
        days = {"from": now.date() - timedelta(days=first), "to": now.date() - timedelta(days=last)}
        found = (await api.get(home.admin, path, params={key: str(day) for key, day in days.items()})).json()
        assert [one["day"] for one in found["items"]] == [
            str(now.date() - timedelta(days=ago)) for ago in range(first, last - 1, -1)
        ]
        return [one["balance_microusd"] // USD for one in found["items"]]

    assert await balances(4, 0) == [0, 50, 43, 43, 63]
    assert await balances(3, 2) == [50, 43]
    assert await balances(2, 2) == [43]
    assert_problem(await api.get(home.admin, f"{path}?from=2026-02-01&to=2026-01-01"), 422, "invalid_input")
    other = await new_home(api, "eve@example.com")
    empty = (await api.get(other.admin, f"/organizations/{other.organization_id}/billing/balance")).json()
    assert {one["balance_microusd"] for one in empty["items"]} <= {0, 20 * USD}


async def announce(api: Api, home: Home, amount: int = 100 * USD, **more: Any) -> dict[str, Any]:
    body = {"method": "bank_transfer", "amount_microusd": amount, **more}
    answer = await api.post(home.admin, f"/organizations/{home.organization_id}/billing/top-ups", body)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


@pytest.mark.parametrize("received", [100 * USD, 99 * USD, 250 * USD], ids=["exact", "less", "more"])
async def test_a_bank_transfer_becomes_credit_when_it_is_confirmed(
    api: Api, home: Home, received: int
) -> None:
    announced = await announce(api, home)
    assert announced["instructions"] == "IBAN XX00 TEST"
    assert announced["reference"].startswith("MOOR-")
    pending = (await api.get(api.operator, "/operator/bank-transfers?state=pending")).json()["items"]
    assert [one["id"] for one in pending] == [announced["id"]]
    path = f"/operator/bank-transfers/{announced['id']}/confirm"
    racing = await asyncio.gather(
        *(api.post(api.operator, path, {"received_microusd": received}) for _ in range(5))
    )
    assert sorted(answer.status_code for answer in racing) == [200, 409, 409, 409, 409]
    assert (await billing(api, home))["balance_microusd"] == 20 * USD + received
    newest = (await entries(api, home))[0]
    assert (newest["kind"], newest["amount_microusd"]) == ("bank_transfer", received)
    assert "arrived" in (await api.mails())[0]["subject"]
    revenue = (await api.get(api.operator, "/operator/revenue")).json()["items"]
    assert [one["bank_transfer_microusd"] for one in revenue] == [received]
    assert [(one["hours"], one["usage_microusd"], one["refunded_microusd"]) for one in revenue] == [(0, 0, 0)]
    exported = await api.get(home.admin, f"/organizations/{home.organization_id}/billing/entries/export")
    amounts = [int(row["amount_microusd"]) for row in csv.DictReader(io.StringIO(exported.text))]
    assert amounts == [received, 20 * USD]


async def test_the_operator_looks_through_so_many_announced_transfers_of_one(api: Api, home: Home) -> None:
    announced = [await announce(api, home) for _ in range(MOST_PENDING_TRANSFERS)]
    path = f"/organizations/{home.organization_id}/billing/top-ups"
    body = {"method": "bank_transfer", "amount_microusd": 5 * USD}
    assert_problem(await api.post(home.admin, path, body), 409, "too_many_top_ups")
    await api.post(api.operator, f"/operator/bank-transfers/{announced[0]['id']}/expire")
    answers = await asyncio.gather(*(api.post(home.admin, path, body) for _ in range(3)))
    assert sorted(answer.status_code for answer in answers) == [201, 409, 409]


async def test_an_expired_transfer_is_refused(api: Api, home: Home) -> None:
    announced = await announce(api, home)
    expired = await api.post(api.operator, f"/operator/bank-transfers/{announced['id']}/expire")
    assert expired.json()["state"] == "expired"
    late = await api.post(
        api.operator, f"/operator/bank-transfers/{announced['id']}/confirm", {"received_microusd": USD}
    )
    assert_problem(late, 409, "transfer_expired")
    assert (await billing(api, home))["balance_microusd"] == 20 * USD


async def test_a_credit_has_its_reason(api: Api, home: Home) -> None:
    body = {
        "organization_id": home.organization_id,
        "amount_microusd": 3 * USD,
        "reason": "The outage in May",
    }
    assert (await api.post(api.operator, "/operator/credits", body)).status_code == 201
    newest = (await entries(api, home))[0]
    assert newest["description"] == "Credit from the operator: The outage in May"
    listed = (await api.get(api.operator, "/operator/credits")).json()["items"]
    assert [(one["amount_microusd"], one["reason"]) for one in listed] == [(3 * USD, "The outage in May")]
    nobody = {**body, "organization_id": "org_nobody"}
    assert_problem(await api.post(api.operator, "/operator/credits", nobody), 404, "not_found")
    assert (await billing(api, home))["balance_microusd"] == 23 * USD


@pytest.mark.parametrize(
    "amount", [-5 * USD, 0, 1, 4_990_000, 5 * USD + 1, 5_005_000, 10_001 * USD, 2**53, 2**70, 5.5, "5000000", None, True]
)  # fmt: skip
async def test_amounts_that_nobody_can_pay(api: Api, home: Home, amount: Any) -> None:
    body = {"method": "bank_transfer", "amount_microusd": amount}
    path = f"/organizations/{home.organization_id}/billing/top-ups"
    assert_problem(await api.post(home.admin, path, body), 422, "invalid_input")
    announced = await announce(api, home)
    if amount not in (4_990_000,):
        confirm = f"/operator/bank-transfers/{announced['id']}/confirm"
        wrong = amount if amount != 5_005_000 else 5_005_001
        assert_problem(
            await api.post(api.operator, confirm, {"received_microusd": wrong}), 422, "invalid_input"
        )
    credit = {"organization_id": home.organization_id, "amount_microusd": amount, "reason": "because"}
    if amount not in (4_990_000,):
        assert_problem(await api.post(api.operator, "/operator/credits", credit), 422, "invalid_input")
    assert len(await entries(api, home)) == 1


async def test_other_mistakes_in_a_top_up(api: Api, home: Home) -> None:
    path = f"/organizations/{home.organization_id}/billing/top-ups"
    good = {"method": "bank_transfer", "amount_microusd": 5 * USD}
    for wrong in ({"currency": "eur"}, {"method": "cash"}, {"transfer": "pigeon"}):
        assert_problem(await api.post(home.admin, path, {**good, **wrong}), 422, "invalid_input")
    abroad = await api.post(home.admin, path, {**good, "transfer": "international"})
    assert_problem(abroad, 409, "payment_method_not_set_up")
