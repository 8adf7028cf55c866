"""Earnings and payouts over HTTP: what owners see, how they are paid, and what keeps an account from being emptied by a stranger."""

import io
from datetime import timedelta
from typing import Any

import pypdf
import pytest
from api_support import Api, Home, assert_problem, bearer, new_home
from api_support import api_fixture as api_fixture
from earnings_support import LENGTH, PRICE, SHARE, Market
from sqlalchemy import Interval, bindparam, text
from test_invoices import LAST, LAST_MONTH, issue_all

from moorage.billing.earnings.views_repository import _MISSING, missing_statements
from moorage.billing.invoices.document import Document, DocumentKind, Line, Party
from moorage.billing.invoices.pdf import render
from moorage.billing.payouts.service import CHANGES_PER_DAY

ACCOUNT = {"holder": "Acme Ltd", "account": "DE02 1203 0000 0000 2020 51", "bank": "BYLADEM1001"}
WHOLE = PRICE * SHARE // 100
HOURS = 4
"""A payout is not worth its fee before that."""


@pytest.fixture
async def home(api: Api) -> Home:
    return await new_home(api)


def path_of(home: Home, rest: str) -> str:
    return f"/organizations/{home.organization_id}/{rest}"


async def earn(api: Api, home: Home, *, hours: int = HOURS, days_ago: float = 10) -> Market:
    """By a machine of the home, with hours that a stranger paid for by transfer."""
    market = Market(api.database)
    await api.execute(
        "INSERT INTO machines (id, name, infrastructure, state, created_by, owner_organization_id) "
        "VALUES ('mch_harbour', 'harbour-01', 'community', 'joining', 'usr', :owner)",
        owner=home.organization_id,
    )
    buyer = await market.organization()
    await market.transfer(buyer, hours * PRICE)
    for _ in range(hours):
        await market.served_hour(buyer, home.organization_id, days_ago=days_ago, machine="mch_harbour")
    await market.work()
    return market


async def name_account(api: Api, home: Home, **changes: str) -> dict[str, Any]:
    path = f"/api/v1{path_of(home, 'payout-account')}"
    answer = await api.ask(home.admin, "PUT", path, json=ACCOUNT | changes)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_what_an_owner_sees(api: Api, home: Home) -> None:
    await earn(api, home)
    found = (await api.get(home.admin, path_of(home, "earnings"))).json()
    assert (found["payable_microusd"], found["held_microusd"], found["paid_microusd"]) == (
        HOURS * WHOLE,
        0,
        0,
    )
    assert found["share_percent"] == SHARE
    assert [one["machine_name"] for one in found["entries"]] == ["harbour-01"] * HOURS
    first = (await api.get(home.admin, path_of(home, "earnings?limit=3"))).json()
    rest = (
        await api.get(home.admin, path_of(home, f"earnings?limit=3&cursor={first['next_cursor']}"))
    ).json()
    assert [one["id"] for one in (*first["entries"], *rest["entries"])] == [
        one["id"] for one in found["entries"]
    ]
    assert rest["next_cursor"] is None
    billed = (await api.get(home.admin, path_of(home, "billing/entries"))).json()["items"]
    assert [one["kind"] for one in billed] == ["initial_credit"], "what was earned is not credit"


async def test_what_each_machine_earned(api: Api, home: Home) -> None:
    market = await earn(api, home, days_ago=0.01)
    month = (await market.now() - timedelta(days=0.01)).strftime("%Y-%m")
    found = (await api.get(home.admin, path_of(home, f"earnings/machines?month={month}"))).json()
    served_s = HOURS * int(LENGTH.total_seconds())
    machine = {"machine_id": "mch_harbour", "name": "harbour-01", "served_s": served_s}
    assert found["items"] == [machine | {"earned_microusd": HOURS * WHOLE}]
    assert (found["served_s"], found["earned_microusd"]) == (served_s, HOURS * WHOLE)
    empty = (await api.get(home.admin, path_of(home, "earnings/machines?month=2001-01"))).json()
    assert empty["items"] == []
    assert_problem(await api.get(home.admin, path_of(home, "earnings/machines?month=soon")), 404, "not_found")


async def test_a_payout(api: Api, home: Home) -> None:
    market = await earn(api, home)
    assert_problem(await api.post(home.admin, path_of(home, "payouts")), 409, "no_payout_account")
    named = await name_account(api, home)
    assert named["account"] == "2051"
    assert_problem(await api.post(home.admin, path_of(home, "payouts")), 409, "payouts_frozen")
    await market.days_pass(7.01)
    asked = (await api.post(home.admin, path_of(home, "payouts"))).json()
    assert (asked["amount_microusd"], asked["state"]) == (HOURS * WHOLE // 10_000 * 10_000, "requested")
    assert_problem(await api.post(home.admin, path_of(home, "payouts")), 409, "payout_requested")
    (waiting,) = (await api.get(api.operator, "/operator/payouts?state=requested")).json()["items"]
    assert (waiting["holder"], waiting["account_number"]) == ("Acme Ltd", "DE02120300000000202051")
    assert waiting["covered_microusd"] == asked["amount_microusd"]
    confirm = f"/operator/payouts/{asked['id']}/confirm"
    confirmed = (await api.post(api.operator, confirm, {"reference": "wire 7"})).json()
    assert confirmed["state"] == "confirmed"
    assert_problem(await api.post(api.operator, confirm, {"reference": "again"}), 409, "payout_confirmed")
    found = (await api.get(home.admin, path_of(home, "earnings"))).json()
    assert found["paid_microusd"] == asked["amount_microusd"]
    assert found["payable_microusd"] == HOURS * WHOLE - asked["amount_microusd"]
    assert found["entries"][0]["kind"] == "payout"
    assert found["entries"][0]["amount_microusd"] == -asked["amount_microusd"]
    mails = [mail["subject"] for mail in await api.mails()]
    assert any("was sent to you" in subject for subject in mails)
    assert any("asks for" in subject for subject in mails)
    assert await market.differences() == []
    (paid,) = (await api.get(home.admin, path_of(home, "payouts"))).json()["items"]
    assert paid["reference"] == "wire 7"
    assert "DE02120300000000202051" not in str(paid)


async def test_a_frozen_payout_is_not_confirmed(api: Api, home: Home) -> None:
    """Unless it has been sent already, which the operator has to say."""
    market = await earn(api, home)
    await name_account(api, home)
    await market.days_pass(8)
    asked = (await api.post(home.admin, path_of(home, "payouts"))).json()
    await api.execute("UPDATE payout_accounts SET changed_at = now() - interval '1 day'")
    (waiting,) = (await api.get(api.operator, "/operator/payouts?state=requested")).json()["items"]
    assert waiting["frozen_until"] is not None
    confirm = f"/operator/payouts/{asked['id']}/confirm"
    refused = await api.post(api.operator, confirm, {"reference": "wire 7"})
    assert_problem(refused, 409, "payouts_frozen")
    assert (await api.get(home.admin, path_of(home, "earnings"))).json()["paid_microusd"] == 0
    sent = await api.post(api.operator, confirm, {"reference": "wire 7", "sent": True})
    assert sent.json()["state"] == "confirmed"


async def test_a_refused_payout_takes_nothing(api: Api, home: Home) -> None:
    market = await earn(api, home)
    await name_account(api, home)
    await market.days_pass(8)
    asked = (await api.post(home.admin, path_of(home, "payouts"))).json()
    refuse = f"/operator/payouts/{asked['id']}/refuse"
    refused = (await api.post(api.operator, refuse, {"reason": "The bank does not know it."})).json()
    assert (refused["state"], refused["reason"]) == ("refused", "The bank does not know it.")
    again = (await api.post(home.admin, path_of(home, "payouts"))).json()
    assert again["amount_microusd"] == asked["amount_microusd"]


async def test_less_than_the_least_is_not_sent(api: Api, home: Home) -> None:
    market = await earn(api, home, hours=1)
    await name_account(api, home)
    await market.days_pass(8)
    assert_problem(await api.post(home.admin, path_of(home, "payouts")), 409, "payout_too_small")


async def test_a_changed_account_freezes_payouts_and_all_admins_hear_of_it(api: Api, home: Home) -> None:
    market = await earn(api, home)
    other_id, _ = await api.new_person("grace@example.com")
    await market.join(other_id, home.organization_id)
    await name_account(api, home)
    await market.days_pass(8)
    asked = (await api.post(home.admin, path_of(home, "payouts"))).json()
    before = len(await api.mails())
    changed = await name_account(api, home, account="GB33 BUKB 2020 1555 5555 55")
    assert changed["frozen_until"] is not None
    told = (await api.mails())[: len(await api.mails()) - before]
    assert sorted(mail["to"] for mail in told) == ["ada@example.com", "grace@example.com"]
    assert "5555" in told[0]["text"]
    (payout,) = (await api.get(home.admin, path_of(home, "payouts"))).json()["items"]
    assert payout["state"] == "refused", "it was to go to the account from before"
    # Unless it has left the bank already: test_self_dealing.
    answer = await api.post(api.operator, f"/operator/payouts/{asked['id']}/confirm", {"reference": "x"})
    assert_problem(answer, 409, "payout_refused")
    assert_problem(await api.post(home.admin, path_of(home, "payouts")), 409, "payouts_frozen")
    await market.days_pass(8)
    assert (await api.post(home.admin, path_of(home, "payouts"))).status_code == 201


async def test_an_account_that_is_changed_again_and_again_is_not_mailed_each_time(
    api: Api, home: Home
) -> None:
    path = f"/api/v1{path_of(home, 'payout-account')}"
    for number in range(CHANGES_PER_DAY):
        body = {"holder": "Ada", "account": f"DE0212{number:04}"}
        assert (await api.ask(home.admin, "PUT", path, json=body)).status_code == 200
    answer = await api.ask(home.admin, "PUT", path, json={"holder": "Ada", "account": "DE02129999"})
    assert_problem(answer, 429, "too_many_changes")
    other_id, token = await api.new_person("grace@example.com")
    await api.join(home.organization_id, other_id, "admin")
    assert (await api.ask(bearer("grace", token), "PUT", path, json=body)).status_code == 200
    await api.execute("UPDATE audit_records SET at = at - interval '25 hours'")
    assert (await api.ask(home.admin, "PUT", path, json=body)).status_code == 200


async def test_bank_details_are_sealed(api: Api, home: Home) -> None:
    market = await earn(api, home)
    await name_account(api, home)
    assert await api.rows("SELECT account_hash FROM payout_account_hashes") == []
    await market.days_pass(8)
    assert (await api.post(home.admin, path_of(home, "payouts"))).status_code == 201
    ((sealed, hashed),) = await api.rows(
        "SELECT sealed_details, account_hash FROM payout_accounts JOIN payout_account_hashes USING (organization_id)"
    )
    for stored in (bytes(sealed), bytes(hashed)):
        assert b"20205" not in stored
        assert b"Acme" not in stored


async def test_what_is_not_an_account(api: Api, home: Home) -> None:
    path = f"/api/v1{path_of(home, 'payout-account')}"
    for account in ("", "----", "DE02\n1203", "x" * 43):
        answer = await api.ask(home.admin, "PUT", path, json=ACCOUNT | {"account": account})
        assert answer.status_code == 422, account


async def test_the_operator_voids_what_a_machine_earned(api: Api, home: Home) -> None:
    market = await earn(api, home, days_ago=1)
    void = "/operator/machines/mch_harbour/void-earnings"
    assert (await api.post(api.operator, void, {"reason": "It has no such GPU."})).status_code == 204
    await market.work()
    found = (await api.get(home.admin, path_of(home, "earnings"))).json()
    assert (found["held_microusd"], found["payable_microusd"]) == (0, 0)
    assert {one["kind"] for one in found["entries"]} == {"earning", "earning_reversed"}
    audit = (await api.get(home.admin, path_of(home, "audit"))).json()["items"]
    assert audit[0]["action"] == "machine.void_earnings"
    unknown = await api.post(api.operator, "/operator/machines/mch_none/void-earnings", {"reason": "Unknown"})
    assert_problem(unknown, 404, "not_found")


async def test_a_months_statement(api: Api, home: Home) -> None:
    await earn(api, home)
    await api.book(home.organization_id, "earning", 700_000, LAST_MONTH, machine_id="mch_harbour")
    open_ = (await api.get(home.admin, path_of(home, f"earnings/statements/{LAST}"))).json()
    assert (open_["number"], open_["total_microusd"]) == (None, 700_000)
    await issue_all(api)
    listed = (await api.get(home.admin, path_of(home, "earnings/statements"))).json()["items"]
    assert [(one["state"], one["number"]) for one in listed] == [("open", None), ("issued", "STM-000001")]
    found = (await api.get(home.admin, path_of(home, f"earnings/statements/{LAST}"))).json()
    assert [(one["description"], one["amount_microusd"]) for one in found["lines"]] == [
        ("harbour-01", 700_000)
    ]
    assert "Earned but not sent by its end: $0.70" in found["note"]
    assert_problem(await api.get(home.admin, path_of(home, "earnings/statements/2001-01")), 404, "not_found")


async def test_whose_statement_is_missing_is_found_without_reading_every_movement(
    api: Api, home: Home
) -> None:
    """Twice a minute, of millions."""
    market = await earn(api, home)
    await market.execute(
        "INSERT INTO ledger_transactions (id, key, kind, organization_id, at, details) "
        "SELECT 'txn_' || n, 'many:' || n, 'earning', :owner, :at, '{}' FROM generate_series(1, 2000) n",
        owner=home.organization_id,
        at=LAST_MONTH,
    )
    await market.execute("ANALYZE")
    async with api.database.transaction() as session:
        missing = await missing_statements(session, timedelta(hours=1), 10)
        assert missing == [(home.organization_id, LAST)]
        explained = text(f"EXPLAIN (ANALYZE, FORMAT JSON) {_MISSING.text}").bindparams(
            bindparam("closes_after", type_=Interval)
        )
        about = {"closes_after": timedelta(hours=1), "limit": 10}
        plan = (await session.execute(explained, about)).scalar_one()[0]["Plan"]
    assert rows_read(plan) < 50


def rows_read(plan: dict[str, Any]) -> float:
    """Of movements, by all that read them."""
    own = (
        plan["Actual Rows"] * plan["Actual Loops"]
        if plan.get("Relation Name") == "ledger_transactions"
        else 0
    )
    return own + sum(rows_read(one) for one in plan.get("Plans", ()))


def test_a_statement_as_pdf() -> None:
    month = LAST_MONTH.date()
    document = Document(
        DocumentKind.STATEMENT,
        7,
        month,
        LAST_MONTH,
        Party("Hafen Cloud"),
        Party("Acme"),
        (Line("harbour-01", 700_000),),
    )
    text = "".join(page.extract_text() for page in pypdf.PdfReader(io.BytesIO(render(document))).pages)
    for words in ("Statement of earnings", "STM-000007", "harbour-01", "$0.70", "Machine"):
        assert words in text


async def test_webhooks_hear_of_payouts_and_not_of_each_hour(api: Api, home: Home) -> None:
    await api.new_webhook(home.organization_id, "https://hooks.example/moorage")
    market = await earn(api, home)
    await name_account(api, home)
    await market.days_pass(8)
    asked = (await api.post(home.admin, path_of(home, "payouts"))).json()
    await api.post(api.operator, f"/operator/payouts/{asked['id']}/confirm", {"reference": "wire 7"})
    told = await api.rows("SELECT payload FROM webhook_deliveries WHERE event = 'billing.booked'")
    (payload,) = [row[0] for row in told]
    assert "payout" in str(payload)
    assert str(-asked["amount_microusd"]) in str(payload)
