"""`moor earnings` and `moor operator payouts`, against a server that plays the documented API."""

import json
from pathlib import Path

import pytest
from cli_server import CREATED_AT, FakeMoorage, Moor

pytest_plugins = ["cli_fixtures"]

HOME = "/organizations/org_one"
EARNINGS = {
    "held_microusd": 371_770_000,
    "payable_microusd": 578_400_000,
    "requested_microusd": 0,
    "paid_microusd": 12_000_000,
    "owed_microusd": 0,
    "next_payable_at": CREATED_AT,
    "share_percent": 70,
    "least_payout_microusd": 25_000_000,
    "entries": [
        {
            "id": "txn_1",
            "at": CREATED_AT,
            "kind": "earning",
            "amount_microusd": 700_000,
            "description": "Earned by a machine",
            "machine_id": "mch_1",
            "machine_name": "harbour-01",
        }
    ],
    "next_cursor": None,
}
PAYOUT = {
    "id": "pay_1",
    "organization_id": "org_one",
    "amount_microusd": 578_400_000,
    "state": "requested",
    "account": "2051",
    "created_at": CREATED_AT,
    "decided_at": None,
    "reference": None,
    "reason": None,
}


def test_show(moor: Moor, fake: FakeMoorage) -> None:
    fake.refusals["GET", f"{HOME}/earnings"] = (200, EARNINGS)
    shown = moor("earnings", "show").stdout
    assert "578.40 USD" in shown
    assert "371.77 USD, the next part until" in shown
    assert "70 %" in shown
    assert "Owed" not in shown
    fake.refusals["GET", f"{HOME}/earnings"] = (200, EARNINGS | {"owed_microusd": 1_000_000})
    assert "out of what is earned next" in moor("earnings", "show").stdout
    assert json.loads(moor("earnings", "show", "--json").stdout)["paid_microusd"] == 12_000_000


def test_entries(moor: Moor, fake: FakeMoorage) -> None:
    fake.refusals["GET", f"{HOME}/earnings"] = (200, EARNINGS)
    assert "harbour-01" in moor("earnings", "entries").stdout
    assert json.loads(moor("earnings", "entries", "--json").stdout)[0]["id"] == "txn_1"


def test_machines(moor: Moor, fake: FakeMoorage) -> None:
    item = {"machine_id": "mch_1", "name": "harbour-01", "served_s": 7_260, "earned_microusd": 612_480_000}
    found = {"month": "2026-11", "served_s": 7_260, "earned_microusd": 612_480_000, "items": [item]}
    fake.refusals["GET", f"{HOME}/earnings/machines"] = (200, found)
    shown = moor("earnings", "machines", "--month", "2026-11").stdout
    assert "2 h 01 min" in shown
    assert "612.48" in shown
    assert fake.queries(f"{HOME}/earnings/machines") == [{"month": "2026-11"}]


def test_account(moor: Moor, fake: FakeMoorage) -> None:
    none = {"account": None, "changed_at": None, "frozen_until": None}
    fake.refusals["GET", f"{HOME}/payout-account"] = (200, none)
    assert "There is no account yet" in moor("earnings", "account").stderr
    named = {"account": "2051", "changed_at": CREATED_AT, "frozen_until": CREATED_AT}
    fake.refusals["PUT", f"{HOME}/payout-account"] = (200, named)
    result = moor("earnings", "account", "--holder", "Acme", "--number", "DE02 1203")
    assert "ending in 2051" in result.stdout
    assert "nothing is sent before" in result.stderr
    wanted = {"holder": "Acme", "account": "DE02 1203", "bank": ""}
    assert fake.asked("PUT", f"{HOME}/payout-account") == [wanted]
    assert moor("earnings", "account", "--holder", "Acme").exit_code == 2


def test_payout(moor: Moor, fake: FakeMoorage) -> None:
    fake.refusals["POST", f"{HOME}/payouts"] = (201, PAYOUT)
    assert "Asked for 578.40 USD (pay_1)" in moor("earnings", "payout").stdout
    sent = PAYOUT | {"state": "confirmed", "reference": "wire 7"}
    fake.refusals["GET", f"{HOME}/payouts"] = (200, {"items": [sent], "next_cursor": None})
    assert "wire 7" in moor("earnings", "payouts").stdout


def test_statement(moor: Moor, fake: FakeMoorage, tmp_path: Path) -> None:
    path = f"{HOME}/earnings/statements"
    item = {"month": "2026-11", "state": "issued", "number": "STM-000001", "total_microusd": 700_000}
    fake.refusals["GET", path] = (200, {"items": [item]})
    assert "STM-000001" in moor("earnings", "statements").stdout
    document = {
        "kind": "statement",
        "number": "STM-000001",
        "dated": "2026-11-30",
        "buyer": {"name": "Acme"},
        "lines": [{"description": "harbour-01", "hours": None, "amount_microusd": 700_000}],
        "total_microusd": 700_000,
    }
    fake.refusals["GET", f"{path}/2026-11"] = (200, document)
    assert "harbour-01" in moor("earnings", "statement").stdout
    fake.refusals["GET", path] = (200, {"items": []})
    assert "nothing has been earned" in moor("earnings", "statement").stderr


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({}, "requested"),
        ({"covered_microusd": 0}, "only 0.00 covered"),
        ({"frozen_until": CREATED_AT}, "frozen until"),
    ],
)
def test_the_operators_list(moor: Moor, fake: FakeMoorage, more: dict[str, object], told: str) -> None:
    waits = PAYOUT | {
        "organization_name": "Acme",
        "holder": "Acme Ltd",
        "account_number": "DE021203",
        "bank": "",
        "covered_microusd": PAYOUT["amount_microusd"],
        "frozen_until": None,
    }
    fake.refusals["GET", "/operator/payouts"] = (200, {"items": [waits | more], "next_cursor": None})
    shown = moor("operator", "payouts", "list").stdout
    assert "Acme Ltd / DE021203" in shown
    assert told in shown


def test_the_operator_decides(moor: Moor, fake: FakeMoorage) -> None:
    fake.refusals["POST", "/operator/payouts/pay_1/confirm"] = (200, PAYOUT | {"state": "confirmed"})
    fake.refusals["POST", "/operator/payouts/pay_1/refuse"] = (200, PAYOUT | {"state": "refused"})
    fake.refusals["POST", "/operator/machines/mch_1/void-earnings"] = (204, None)
    confirmed = moor("operator", "payouts", "confirm", "pay_1", "--reference", "wire 7")
    assert "Booked 578.40 USD" in confirmed.stdout
    assert fake.asked("POST", "/operator/payouts/pay_1/confirm") == [{"reference": "wire 7", "sent": False}]
    assert "Refused pay_1" in moor("operator", "payouts", "refuse", "pay_1", "--reason", "too soon").stdout
    assert "Voided" in moor("operator", "payouts", "void", "mch_1", "--reason", "no GPU").stdout
