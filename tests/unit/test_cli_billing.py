"""`moor billing`, against a server that plays the documented API."""

import json
from pathlib import Path

import pytest
from cli_server import CREATED_AT, FakeMoorage, Moor

from moorage_cli.errors import ExitCode

pytest_plugins = ["cli_fixtures"]

BILLING = "/organizations/org_one/billing"


def test_balance(moor: Moor, fake: FakeMoorage) -> None:
    found = {
        "balance_microusd": 19_995_000,
        "available_microusd": 19_990_000,
        "held_microusd": 5_000,
        "forecast": "$3.20/h now, up to $12.80/h; runs out Sunday 2026-03-01 14:32 UTC.",
    }
    fake.refusals["GET", BILLING] = (200, found)
    shown = moor("billing", "balance").stdout
    assert "19.995 USD" in shown
    assert "runs out Sunday" in shown
    assert "To begin with" not in shown
    found["initial_credit"] = "You get $20.00 once you save a card."
    assert "once you save a card" in moor("billing", "balance").stdout
    assert json.loads(moor("billing", "balance", "--json").stdout)["held_microusd"] == 5_000


def test_usage(moor: Moor, fake: FakeMoorage) -> None:
    item = {
        "day": "2026-03-01",
        "project_id": "prj_one",
        "project_name": "main",
        "container_id": "ctr_gone",
        "container_name": None,
        "instance_type": "cpu-nano",
        "hours": 3,
        "amount_microusd": 15_000,
    }
    fake.refusals["GET", f"{BILLING}/usage"] = (200, {"total_microusd": 15_000, "items": [item]})
    result = moor("billing", "usage", "--from", "2026-03-01", "--to", "2026-03-31")
    assert "ctr_gone" in result.stdout
    assert "0.015" in result.stdout
    assert fake.queries(f"{BILLING}/usage") == [{"from": "2026-03-01", "to": "2026-03-31"}]


def test_entries(moor: Moor, fake: FakeMoorage) -> None:
    entry = {
        "id": "txn_1",
        "at": CREATED_AT,
        "amount_microusd": -5_000,
        "description": "One hour of cpu-nano",
    }
    fake.refusals["GET", f"{BILLING}/entries"] = (200, {"items": [entry], "next_cursor": None})
    assert "-0.005" in moor("billing", "entries").stdout


def test_top_up(moor: Moor, fake: FakeMoorage) -> None:
    made = {"amount_microusd": 12_500_000, "instructions": "IBAN XX00", "reference": "MOOR-ABCD-EFGH-JKLM"}
    fake.refusals["POST", f"{BILLING}/top-ups"] = (201, made)
    result = moor("billing", "top-up", "12.50", "--method", "bank_transfer")
    assert "MOOR-ABCD-EFGH-JKLM" in result.stdout
    wanted = {"method": "bank_transfer", "amount_microusd": 12_500_000, "transfer": "local"}
    assert fake.asked("POST", f"{BILLING}/top-ups") == [wanted]


def test_top_up_by_card(moor: Moor, fake: FakeMoorage) -> None:
    made = {"amount_microusd": 50_000_000, "checkout_url": "https://pay.example/cs_1"}
    fake.refusals["POST", f"{BILLING}/top-ups"] = (201, made)
    assert moor("billing", "top-up", "50").stdout == "https://pay.example/cs_1\n"
    assert fake.asked("POST", f"{BILLING}/top-ups") == [{"method": "card", "amount_microusd": 50_000_000}]


@pytest.mark.parametrize("amount", ["ten", "0.0000001", "NaN", "Infinity", ""])
def test_what_is_not_an_amount(moor: Moor, fake: FakeMoorage, amount: str) -> None:
    assert moor("billing", "top-up", amount).exit_code == 2
    assert fake.asked("POST", f"{BILLING}/top-ups") == []


def test_an_organization_that_is_not_there(moor: Moor, fake: FakeMoorage) -> None:
    result = moor("billing", "balance", "--organization", "acme", "--json")
    assert json.loads(result.stderr)["error"]["code"] == "not_found"


LIMITS = {
    "month": "2026-11-01",
    "resets_on": "2026-12-01",
    "organization": {
        "scope_id": "org_one",
        "name": "acme",
        "limit_microusd": 50_000_000,
        "spent_microusd": 12_500_000,
        "held_microusd": 500_000,
        "left_microusd": 37_000_000,
    },
    "projects": [
        {
            "scope_id": "prj_one",
            "name": "main",
            "limit_microusd": None,
            "spent_microusd": 12_500_000,
            "held_microusd": 0,
            "left_microusd": None,
        }
    ],
}


def test_limits(moor: Moor, fake: FakeMoorage) -> None:
    fake.refusals["GET", f"{BILLING}/limits"] = (200, LIMITS)
    result = moor("billing", "limits")
    assert [line.split() for line in result.stdout.splitlines()[1:]] == [
        ["acme", "50.00", "12.50", "0.50", "37.00"],
        ["main", "-", "12.50", "0.00", "-"],
    ]
    assert "2026-12-01" in result.stderr
    assert json.loads(moor("billing", "limits", "--json").stdout)["projects"] == LIMITS["projects"]


@pytest.mark.parametrize(
    ("options", "path", "sent"),
    [
        (["--set", "50"], "limits", 50_000_000),
        (["--set", "0"], "limits", 0),
        (["--remove"], "limits", None),
        (["--set", "12.50", "--project", "main"], "limits/prj_one", 12_500_000),
        (["--remove", "--project", "prj_one"], "limits/prj_one", None),
    ],
)
def test_changing_a_limit(
    moor: Moor, fake: FakeMoorage, options: list[str], path: str, sent: int | None
) -> None:
    fake.refusals["GET", f"{BILLING}/limits"] = (200, LIMITS)
    fake.refusals["PUT", f"{BILLING}/{path}"] = (200, LIMITS)
    assert moor("billing", "limits", *options).exit_code == 0
    assert fake.asked("PUT", f"{BILLING}/{path}") == [{"limit_microusd": sent}]


def test_limits_that_make_no_sense(moor: Moor, fake: FakeMoorage) -> None:
    fake.refusals["GET", f"{BILLING}/limits"] = (200, LIMITS)
    assert moor("billing", "limits", "--set", "5", "--remove").exit_code == 2
    assert moor("billing", "limits", "--set", "a lot").exit_code == 2
    assert moor("billing", "limits", "--set", "5", "--project", "nothing").exit_code == ExitCode.NOT_FOUND


CARD = {"brand": "visa", "last4": "4242", "expires_month": 2, "expires_year": 2030}
ON = {
    "state": "on",
    "message": "Moorage charges the card $50.00 whenever the credit falls below $10.00.",
    "threshold_microusd": 10_000_000,
    "amount_microusd": 50_000_000,
    "monthly_cap_microusd": 200_000_000,
    "charged_this_month_microusd": 50_000_000,
    "tries_again_at": None,
}


def test_card(moor: Moor, fake: FakeMoorage) -> None:
    fake.refusals["GET", f"{BILLING}/card"] = (200, CARD)
    assert "visa ending in 4242, until 02/2030" in moor("billing", "card").stdout
    fake.refusals["POST", f"{BILLING}/card"] = (201, {"checkout_url": "https://pay.example/cs_2"})
    assert moor("billing", "card", "--save").stdout == "https://pay.example/cs_2\n"
    fake.refusals["DELETE", f"{BILLING}/card"] = (204, {})
    fake.refusals["GET", f"{BILLING}/card"] = (200, dict.fromkeys(CARD))
    assert "No card is saved" in moor("billing", "card", "--remove").stdout
    assert moor("billing", "card", "--save", "--remove").exit_code == 2


def test_auto_top_up(moor: Moor, fake: FakeMoorage) -> None:
    path = f"{BILLING}/auto-top-up"
    fake.refusals["GET", path] = fake.refusals["PUT", path] = (200, ON)
    shown = moor("billing", "auto-top-up").stdout
    assert "50.00 of 200.00 USD" in shown
    assert "falls below" in shown
    assert moor("billing", "auto-top-up", "--below", "10", "--amount", "50", "--cap", "200").exit_code == 0
    wanted = {name: ON[name] for name in ("threshold_microusd", "amount_microusd", "monthly_cap_microusd")}
    assert fake.asked("PUT", path) == [wanted]
    fake.refusals["GET", path] = (200, {"state": "off", "message": "The card is left alone."})
    fake.refusals["DELETE", path] = (204, {})
    assert "left alone" in moor("billing", "auto-top-up", "--off").stdout
    assert moor("billing", "auto-top-up", "--off", "--amount", "50").exit_code == 2
    assert moor("billing", "auto-top-up", "--amount", "50").exit_code == 2


def test_invoice(moor: Moor, fake: FakeMoorage, tmp_path: Path) -> None:
    item = {"month": "2026-03", "number": "INV-000007", "total_microusd": 15_000}
    fake.refusals["GET", f"{BILLING}/invoices"] = (200, {"items": [item]})
    assert "INV-000007" in moor("billing", "invoices").stdout
    line = {"description": "chat (main), cpu-nano", "hours": 3, "amount_microusd": 15_000}
    invoice = {"kind": "invoice", "number": "INV-000007", "dated": "2026-03-31", "lines": [line]}
    invoice |= {"buyer": {"name": "Acme"}, "total_microusd": 15_000}
    fake.refusals["GET", f"{BILLING}/invoices/2026-03"] = (200, invoice)
    newest = moor("billing", "invoice")
    assert "chat (main), cpu-nano" in newest.stdout
    assert "Total: 0.015 USD" in newest.stderr
    fake.files[f"{BILLING}/invoices/2026-03/pdf"] = b"%PDF-1.7 \xff\x00"
    file = tmp_path / "invoice.pdf"
    assert moor("billing", "invoice", "--month", "2026-03", "-o", str(file)).exit_code == 0
    assert file.read_bytes() == b"%PDF-1.7 \xff\x00"
    assert moor("billing", "invoice", "-o", str(tmp_path / "absent" / "x.pdf")).exit_code == 2
    fake.refusals["GET", f"{BILLING}/invoices"] = (200, {"items": []})
    assert moor("billing", "invoice").exit_code == 7


def test_receipts(moor: Moor, fake: FakeMoorage) -> None:
    item = {"id": "txn_1", "at": CREATED_AT, "number": None, "total_microusd": 5_000_000}
    page = {"items": [item | {"description": "Top-up by card"}], "next_cursor": None}
    fake.refusals["GET", f"{BILLING}/receipts"] = (200, page)
    assert "not issued yet" in moor("billing", "receipts").stdout
    fake.files[f"{BILLING}/receipts/txn_1/pdf"] = b"%PDF-1.7"
    assert moor("billing", "receipt", "txn_1", "-o", "-").stdout == "%PDF-1.7"
