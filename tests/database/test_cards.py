"""Card payments with the real `stripe` library against a provider over HTTP: events in every order, twice, forged."""

import itertools
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from api_support import ANONYMOUS, KEYRING, Api, Home, assert_problem, container_body, new_home
from stripe_stand_in import SECRET_KEY, WEBHOOK_SECRET, Event, Stripe, serving, signed

from moorage.entrypoints.api import create_app
from moorage.entrypoints.bootstrap import bootstrap
from moorage.kit.database import Database
from moorage.kit.settings import Settings
from moorage.ledger.check_repository import find_differences

USD = 1_000_000


@pytest.fixture
def stripe() -> Any:
    with serving() as running:
        yield running


@pytest.fixture
async def api(database: Database, short_folder: Path, stripe: Stripe) -> Api:
    settings = Settings(
        home=short_folder,
        stripe_secret_key=SECRET_KEY,
        stripe_webhook_secret=WEBHOOK_SECRET,
        stripe_api_base=stripe.url,
    )
    async with database.transaction() as session:
        await bootstrap(session, settings)
    return Api(create_app(settings, database, KEYRING), database, settings)


async def top_up(api: Api, home: Home, usd: int = 50) -> dict[str, Any]:
    body = {"method": "card", "amount_microusd": usd * USD}
    answer = await api.post(home.admin, f"/organizations/{home.organization_id}/billing/top-ups", body)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def session_of(made: dict[str, Any]) -> str:
    return str(made["checkout_url"]).rpartition("/")[2]


async def deliver(api: Api, event: Event, **how: Any) -> httpx.Response:
    body, signature = signed(event, **how)
    return await send(api, body, signature)


async def send(api: Api, body: bytes, signature: str) -> httpx.Response:
    headers = {"Stripe-Signature": signature, "Content-Type": "application/json"}
    return await api.ask(ANONYMOUS, "POST", "/api/v1/webhooks/stripe", content=body, headers=headers)


async def state(api: Api, home: Home) -> tuple[int, int, bool]:
    """The credit, what is owed, and whether the organization is suspended."""
    async with api.database.transaction() as session:
        assert await find_differences(session) == []
    found = (await api.get(home.admin, f"/organizations/{home.organization_id}/billing")).json()
    owed = await api.rows(
        "SELECT coalesce(-sum(amount_microusd), 0) FROM ledger_entries WHERE account = :a",
        a=f"receivable:{home.organization_id}",
    )
    return found["balance_microusd"], int(owed[0][0]), found["suspended"]


async def test_a_payment_becomes_credit(api: Api, stripe: Stripe) -> None:
    home = await new_home(api)
    made = await top_up(api, home)
    assert (made["state"], made["amount_microusd"]) == ("pending", 50 * USD)
    async with httpx.AsyncClient(trust_env=False) as browser:
        assert "Pay" in (await browser.get(made["checkout_url"])).text
        assert (await browser.post(made["checkout_url"])).status_code == 200
    assert await state(api, home) == (20 * USD, 0, False), "nothing before the provider says so"
    event = {"type": "checkout.session.completed", "object": "event", "id": "evt_page"}
    about = {"object": "checkout.session", "id": session_of(made)}
    assert (await deliver(api, {**event, "data": {"object": about}})).status_code == 200
    assert await state(api, home) == (70 * USD, 0, False)
    listed = (await api.get(home.admin, f"/organizations/{home.organization_id}/billing/top-ups")).json()[
        "items"
    ]
    assert [(one["method"], one["state"], one["received_microusd"]) for one in listed] == [
        ("card", "confirmed", 50 * USD)
    ]


async def test_events_in_every_order_and_twice_give_one_balance(api: Api, stripe: Stripe) -> None:
    """Paid, refunded in part, disputed, dispute won: whatever arrives first, the end is the same."""
    deliveries = 0
    for number, order in enumerate(itertools.permutations(range(4))):
        home = await new_home(api, f"ada-{number}@example.com")
        made = await top_up(api, home)
        events = [stripe.pay(session_of(made))]
        intent_id = stripe.intent_of(session_of(made))
        events += [
            stripe.refund(intent_id, 1500),
            stripe.dispute(intent_id, 3500),
            stripe.close_dispute(won=True),
        ]
        for index in (*order, *reversed(order)):
            assert (await deliver(api, events[index])).status_code == 200
            deliveries += 1
        assert await state(api, home) == (55 * USD, 0, False), order
    print(f"\n24 orders, {deliveries} deliveries, one final balance")


async def test_a_dispute_is_owed_and_suspends(api: Api, stripe: Stripe) -> None:
    home = await new_home(api)
    path = f"/projects/{home.project_id}/containers"
    container = (await api.post(home.admin, path, container_body("chat"))).json()
    made = await top_up(api, home)
    await deliver(api, stripe.pay(session_of(made)))
    disputed = stripe.dispute(stripe.intent_of(session_of(made)), 5000)
    for _ in range(2):
        assert (await deliver(api, disputed)).status_code == 200
    assert await state(api, home) == (70 * USD, 50 * USD, True)
    due = await api.rows("SELECT desired_state, reconcile_at <= now() FROM containers")
    assert due == [("running", True)], "the next pass stops it; a resume lets it run again"
    refused = await api.post(home.admin, path, container_body("another"))
    assert_problem(refused, 403, "suspended")
    assert_problem(await api.post(home.admin, f"/containers/{container['id']}/restart"), 403, "suspended")
    audit = (await api.get(home.admin, f"/organizations/{home.organization_id}/audit")).json()["items"]
    assert [(one["actor"], one["details"]) for one in audit if one["action"] == "organization.suspend"] == [
        ("system", {"reason": "A card payment was disputed."})
    ]
    await deliver(api, stripe.close_dispute(won=False))
    assert await state(api, home) == (70 * USD, 50 * USD, True)


async def test_a_dispute_that_the_operator_decided_about_does_not_suspend_again(
    api: Api, stripe: Stripe
) -> None:
    home = await new_home(api)
    made = await top_up(api, home)
    await deliver(api, stripe.pay(session_of(made)))
    intent_id = stripe.intent_of(session_of(made))
    disputed = stripe.dispute(intent_id, 2000)
    await deliver(api, disputed)
    resumed = await api.post(api.operator, f"/operator/organizations/{home.organization_id}/resume")
    assert resumed.status_code == 200
    for event in (disputed, stripe.refund(intent_id, 1000), stripe.close_dispute(won=False)):
        assert (await deliver(api, event)).status_code == 200
        assert (await state(api, home))[2] is False
    await deliver(api, stripe.dispute(intent_id, 500))
    assert (await state(api, home))[2] is True, "another one"


async def test_a_refund_of_what_was_spent_is_owed(api: Api, stripe: Stripe) -> None:
    home = await new_home(api)
    made = await top_up(api, home)
    await deliver(api, stripe.pay(session_of(made)))
    credit = {"organization_id": home.organization_id}
    await api.execute(
        "INSERT INTO ledger_transactions (id, key, kind, organization_id, details) "
        "VALUES ('txn_s', 'spent', 'refund', :organization_id, '{}')",
        **credit,
    )
    await api.execute(
        "INSERT INTO ledger_entries VALUES ('txn_s', 'credit:' || :organization_id, -60000000), "
        "('txn_s', 'card', 60000000)",
        **credit,
    )
    await api.execute("UPDATE credit_accounts SET available_microusd = available_microusd - 60000000 "
                      "WHERE organization_id = :organization_id", **credit)  # fmt: skip
    refunded = stripe.refund(stripe.intent_of(session_of(made)), 5000)
    for _ in range(3):
        assert (await deliver(api, refunded)).status_code == 200
    assert await state(api, home) == (0, 40 * USD, False)


async def test_forged_stale_and_altered_events_are_refused(api: Api, stripe: Stripe) -> None:
    home = await new_home(api)
    made = await top_up(api, home)
    event = stripe.pay(session_of(made))
    body, signature = signed(event)
    attempts = [
        (body, ""),
        (body, "nonsense"),
        (body, signature.replace("v1=", "v0=")),
        (body, signature[:-1] + ("0" if signature[-1] != "0" else "1")),
        (body.replace(b"completed", b"expired  "), signature),
        (b"{}", signature),
        (b"\xff\xfe", signature),
        signed(event, secret="whsec_of_somebody_else"),
        signed(event, secret=""),
        signed(event, age_s=301),
        signed(event, age_s=86_400),
    ]
    for sent, header in attempts:
        assert_problem(await send(api, sent, header), 422, "invalid_signature")
    assert await state(api, home) == (20 * USD, 0, False)
    print(f"\n{len(attempts)} forged, stale or altered events, 0 accepted")


@pytest.mark.parametrize(
    "changes", [{"currency": "eur"}, {"amount_received": 4999}, {"amount_received": 5001}], ids=str
)
async def test_a_payment_that_is_not_what_was_asked_for(
    api: Api, stripe: Stripe, changes: dict[str, Any]
) -> None:
    home = await new_home(api)
    made = await top_up(api, home)
    event = stripe.pay(session_of(made), **changes)
    assert_problem(await deliver(api, event), 422, "payment_mismatch")
    assert await state(api, home) == (20 * USD, 0, False)


async def test_events_about_others(api: Api, stripe: Stripe) -> None:
    home = await new_home(api)
    made = await top_up(api, home)
    stranger = stripe.pay(session_of(made), metadata={"top_up_id": "top_of_somebody_else"})
    assert_problem(await deliver(api, stranger), 422, "unknown_payment")
    stripe.intents[stripe.intent_of(session_of(made))]["metadata"] = {}
    assert_problem(await deliver(api, stranger), 422, "unknown_payment")
    gone = json.loads(json.dumps(stranger))
    gone["data"]["object"]["id"] = "cs_that_never_was"
    assert_problem(await deliver(api, gone), 422, "unknown_payment")
    other = {
        **stranger,
        "type": "customer.created",
        "data": {"object": {"object": "customer", "id": "cus_1"}},
    }
    assert (await deliver(api, other)).status_code == 200
    assert await state(api, home) == (20 * USD, 0, False)


@pytest.mark.parametrize("amount", [-5 * USD, 0, 4_990_000, 5_005_000, 10_001 * USD, 2**70, 5.5, "5000000"])
async def test_amounts_that_no_card_can_pay(api: Api, stripe: Stripe, amount: Any) -> None:
    home = await new_home(api)
    body = {"method": "card", "amount_microusd": amount}
    answer = await api.post(home.admin, f"/organizations/{home.organization_id}/billing/top-ups", body)
    assert_problem(answer, 422, "invalid_input")
    assert stripe.sessions == {}
    assert await state(api, home) == (20 * USD, 0, False)


async def test_an_answer_that_got_lost_makes_no_second_page(api: Api, stripe: Stripe) -> None:
    home = await new_home(api)
    stripe.lost_answers = 1
    made = await top_up(api, home)
    assert list(stripe.sessions) == [session_of(made)]


async def test_without_a_provider(database: Database, short_folder: Path) -> None:
    settings = Settings(home=short_folder)
    async with database.transaction() as session:
        await bootstrap(session, settings)
    api = Api(create_app(settings, database, KEYRING), database, settings)
    home = await new_home(api)
    body = {"method": "card", "amount_microusd": 5 * USD}
    answer = await api.post(home.admin, f"/organizations/{home.organization_id}/billing/top-ups", body)
    assert_problem(answer, 409, "payment_method_not_set_up")
    assert_problem(await send(api, b"{}", "t=1,v1=0"), 409, "payment_method_not_set_up")
