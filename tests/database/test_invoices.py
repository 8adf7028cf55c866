"""Invoices and receipts: what the ledger says, numbered without a gap, and never changed."""

import asyncio
import io
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pypdf
import pytest
from api_support import Api, Home, assert_problem, new_home
from api_support import api_fixture as api_fixture
from sqlalchemy.exc import DBAPIError

from moorage.billing.invoices.issuer import DocumentIssuer
from moorage.kit.clock import system_clock
from moorage.kit.jobs.jobs import Jobs
from moorage.kit.settings import Settings
from moorage.reconcile.lease import Lease, LeaseKeeper

SELLER = {"seller_name": "Hafen Cloud GmbH", "seller_address": "Kai 1\n20359 Hamburg", "seller_tax_id": "DE1"}
NOW = datetime.now(UTC)
THIS_MONTH = NOW.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
LAST_MONTH = (THIS_MONTH - timedelta(days=1)).replace(day=1)
LAST = f"{LAST_MONTH:%Y-%m}"


@pytest.fixture
async def home(api: Api) -> Home:
    return await new_home(api)


def path_of(home: Home, rest: str) -> str:
    return f"/organizations/{home.organization_id}/billing/{rest}"


async def buy(
    api: Api, home: Home, container_id: str, price_microusd: int, at: datetime, times: int = 1
) -> None:
    hour = {"container_id": container_id, "project_id": home.project_id, "instance_type": "cpu-nano"}
    await api.book(home.organization_id, "usage", price_microusd, at, times=times, slot=0, **hour)


async def new_lease(api: Api) -> Lease:
    lease = await LeaseKeeper(api.database, "documents", "test", system_clock).acquire()
    assert lease is not None
    return lease


async def issue_all(api: Api, lease: Lease | None = None) -> None:
    """As the driver does, until nothing is due."""
    lease = lease or await new_lease(api)
    issuer = DocumentIssuer(api.database, Settings(**SELLER), system_clock)  # type: ignore[arg-type]
    for _ in range(50):
        keys = (await issuer.due(10)).keys
        if not keys:
            return
        for key in keys:
            await issuer.reconcile(key, lease)
    raise AssertionError("there is always something more to issue")


def text_of(pdf: bytes) -> str:
    assert pdf.startswith(b"%PDF-")
    return "\n".join(page.extract_text() for page in pypdf.PdfReader(io.BytesIO(pdf)).pages)


async def document(api: Api, home: Home, rest: str) -> tuple[Mapping[str, Any], bytes]:
    shown = await api.get(home.admin, path_of(home, rest))
    assert shown.status_code == 200, shown.text
    pdf = await api.get(home.admin, path_of(home, f"{rest}/pdf"))
    assert (pdf.status_code, pdf.headers["content-type"]) == (200, "application/pdf")
    return shown.json(), pdf.content


@pytest.mark.long
async def test_a_month(api: Api, home: Home) -> None:
    chat = await api.new_container(home.project_id, "chat")
    await buy(api, home, chat, 5_000, LAST_MONTH, times=3)
    await buy(api, home, chat, 5_000, THIS_MONTH - timedelta(microseconds=1))
    await buy(api, home, chat, 7_500, LAST_MONTH + timedelta(days=3), times=2)
    await buy(api, home, "ctr_gone", 1_234_567, LAST_MONTH + timedelta(days=4))
    await buy(api, home, chat, 5_000, THIS_MONTH, times=9)
    await issue_all(api)

    listed = (await api.get(home.admin, path_of(home, "invoices"))).json()["items"]
    assert [(one["month"], one["state"], one["number"]) for one in listed] == [
        (f"{THIS_MONTH:%Y-%m}", "open", None),
        (LAST, "issued", "INV-000001"),
    ]
    booked = await api.rows(
        "SELECT -sum(amount_microusd) FROM ledger_entries JOIN ledger_transactions ON id = transaction_id "
        "WHERE account = :credit AND kind = 'usage' AND at < :until",
        credit=f"credit:{home.organization_id}",
        until=THIS_MONTH,
    )
    assert [one["total_microusd"] for one in listed] == [45_000, int(booked[0][0])]

    invoice, pdf = await document(api, home, f"invoices/{LAST}")
    assert invoice["total_microusd"] == booked[0][0] == 4 * 5_000 + 2 * 7_500 + 1_234_567
    assert sorted((one["hours"], one["price_per_hour_microusd"]) for one in invoice["lines"]) == [
        (1, 1_234_567),
        (2, 7_500),
        (4, 5_000),
    ]
    text = text_of(pdf)
    for words in (
        "Invoice", "Number INV-000001", f"For {LAST}-01 to", "Hafen Cloud GmbH", "20359 Hamburg", "Tax id DE1", "acme",
        "chat (default), cpu-nano 4 $0.005 $0.02", "ctr_gone (default), cpu-nano 1 $1.234567 $1.234567",
        "Total $1.269567", "Nothing is due.",
    ):  # fmt: skip
        assert words in text, text

    preliminary, draft = await document(api, home, f"invoices/{THIS_MONTH:%Y-%m}")
    assert (preliminary["number"], preliminary["total_microusd"]) == (None, 45_000)
    assert "Preliminary, without a number" in text_of(draft)


@pytest.mark.long
async def test_what_was_issued_never_changes(api: Api, home: Home) -> None:
    chat = await api.new_container(home.project_id, "chat")
    await buy(api, home, chat, 5_000, LAST_MONTH)
    await buy(api, home, chat, 5_000, THIS_MONTH)
    lease = await new_lease(api)
    await issue_all(api, lease)
    before = await document(api, home, f"invoices/{LAST}")
    assert (
        await api.ask(
            home.admin, "PATCH", f"/api/v1{path_of(home, 'details')}", json={"name": "Renamed", "tax_id": "X"}
        )
    ).status_code == 200
    await api.execute("UPDATE organizations SET name = 'renamed'")
    await api.execute("UPDATE containers SET name = 'renamed'")
    await issue_all(api, lease)
    assert await document(api, home, f"invoices/{LAST}") == before
    now, _ = await document(api, home, f"invoices/{THIS_MONTH:%Y-%m}")
    assert (now["buyer"]["name"], now["buyer"]["tax_id"]) == ("Renamed", "X")
    assert now["lines"][0]["description"].startswith("renamed (")
    for change in ("UPDATE billing_documents SET number = 7", "DELETE FROM billing_documents"):
        with pytest.raises(DBAPIError, match=r"written once|permission denied"):
            await api.execute(change)


async def test_numbers_have_no_gaps_whoever_issues_at_once(api: Api) -> None:
    homes = [await new_home(api, f"person-{number}@example.com") for number in range(6)]
    for home in homes:
        for month in (LAST_MONTH, LAST_MONTH - timedelta(days=60)):
            await buy(api, home, "ctr_one", 5_000, month)
        await api.book(home.organization_id, "card_top_up", 10_000_000, NOW)
    lease = await new_lease(api)
    await asyncio.gather(*(issue_all(api, lease) for _ in range(3)))
    rows = await api.rows("SELECT kind, number, subject FROM billing_documents ORDER BY kind, number")
    assert [number for kind, number, _ in rows if kind == "invoice"] == list(range(1, 13))
    assert [number for kind, number, _ in rows if kind == "receipt"] == list(range(1, 7))
    months = [subject for kind, _, subject in rows if kind == "invoice"]
    assert months == sorted(months), "months are closed one after the other"
    print(f"{len(rows)} documents, 3 issuers at once, 0 gaps, 0 twice")


@pytest.mark.long
async def test_receipts(api: Api, home: Home) -> None:
    other = await new_home(api, "other@example.com")
    card = (await api.book(home.organization_id, "card_top_up", 12_500_000, NOW - timedelta(days=2)))[0]
    wire = (await api.book(home.organization_id, "bank_transfer", 50_000_000, NOW, reference="MOOR-A1"))[0]
    credit = (await api.book(home.organization_id, "credit", 1_000_000, NOW, reason="sorry"))[0]
    early, _ = await document(api, home, f"receipts/{wire}")
    assert early["number"] is None
    await issue_all(api)
    listed = (await api.get(home.admin, path_of(home, "receipts"))).json()["items"]
    assert [(one["id"], one["number"], one["total_microusd"]) for one in listed] == [
        (wire, "RCT-000002", 50_000_000),
        (card, "RCT-000001", 12_500_000),
    ]
    receipt, pdf = await document(api, home, f"receipts/{wire}")
    assert receipt["lines"][0]["description"] == "Top-up by bank transfer, reference MOOR-A1"
    text = text_of(pdf)
    for words in ("Receipt", "Number RCT-000002", f"Paid on {NOW:%Y-%m-%d}", "MOOR-A1", "Total $50.00"):
        assert words in text, text
    for absent in (credit, "txn_absent"):
        assert_problem(await api.get(home.admin, path_of(home, f"receipts/{absent}")), 404)
    assert_problem(await api.get(other.admin, path_of(other, f"receipts/{wire}/pdf")), 404)


async def test_a_busy_machine_makes_it_later(api: Api, home: Home) -> None:
    """Jobs give way to everything else, so one may run out of time by no fault of anybody's."""
    await buy(api, home, "ctr_gone", 5_000, LAST_MONTH)
    await issue_all(api)
    api.app.state.jobs = Jobs(1, budget_s=0.01)
    answer = await api.get(home.admin, path_of(home, f"invoices/{LAST}/pdf"))
    assert (answer.status_code, answer.json()["code"]) == (503, "job_too_long")
    assert "Try again" in answer.json()["detail"]
    assert "retry-after" in answer.headers


async def test_names_in_other_scripts(api: Api, home: Home) -> None:
    await buy(api, home, "ctr_one", 5_000, LAST_MONTH)
    name = "Łódź Ωμέγα Привет გამარჯობა"
    body = {"name": name, "address": "שלום\nمرحبا\n株式", "tax_id": "PL 1"}
    changed = await api.ask(home.admin, "PATCH", f"/api/v1{path_of(home, 'details')}", json=body)
    assert changed.json() == body
    invoice, pdf = await document(api, home, f"invoices/{LAST}")
    assert invoice["buyer"] == body
    text = text_of(pdf)
    for shown in (name, "שלום", "مرحبا", "[U+682A][U+5F0F]"):
        assert shown in text, text


async def test_details(api: Api, home: Home) -> None:
    path = path_of(home, "details")
    assert (await api.get(home.admin, path)).json() == {"name": "acme", "address": "", "tax_id": ""}

    async def change(**body: Any) -> Any:
        return await api.ask(home.admin, "PATCH", f"/api/v1{path}", json=body)

    assert (await change(address="Kai 2\n20359 Hamburg")).json()["name"] == "acme"
    assert (await change(name="Acme AG", address="Kai 2\n20359 Hamburg", tax_id="DE2")).json() == {
        "name": "Acme AG",
        "address": "Kai 2\n20359 Hamburg",
        "tax_id": "DE2",
    }
    assert (await change(name="")).json()["name"] == "acme"
    for field, bad in (
        ("name", "a\nb"), ("name", "x" * 201), ("name", "\x00"), ("name", None), ("name", 7), ("tax_id", "x" * 65),
        ("address", "\n" * 8), ("address", "a\tb"), ("address", "x" * 501), ("vat", "DE1"),
    ):  # fmt: skip
        problem = assert_problem(await change(**{field: bad}), 422, "invalid_input")
        assert [error["field"] for error in problem["errors"]] == [field], bad
    (audited,) = [
        one
        for one in (await api.get(home.admin, f"/organizations/{home.organization_id}/audit")).json()["items"]
        if one["action"] == "billing.details" and one["details"]["fields"] == ["name", "tax_id"]
    ]
    assert audited["actor"] == home.user_id


@pytest.mark.parametrize(
    "month", ["2026-13", "2026-1", "1999-12", "abc", "2026-11-01", "9999-12", "２０２６-11", "0000-00"]
)
async def test_no_such_month(api: Api, home: Home, month: str) -> None:
    for rest in (f"invoices/{month}", f"invoices/{month}/pdf"):
        assert_problem(await api.get(home.admin, path_of(home, rest)), 404)
