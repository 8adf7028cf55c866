"""Card payments with the real `stripe` library against a provider over HTTP: events in every order, twice, forged."""

import itertools
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from api_support import ANONYMOUS, KEYRING, Api, Home, assert_problem, container_body, new_home
from stripe_stand_in import SECRET_KEY, WEBHOOK_SECRET, Event, Stripe, serving, signed

from moorage.billing.cards.provider import card_provider
from moorage.billing.cards.reconciler import EVERYTHING, CardPaymentsReconciler
from moorage.billing.cards.service import MOST_OPEN_PAGES
from moorage.entrypoints.api import create_app
from moorage.entrypoints.bootstrap import bootstrap
from moorage.kit.clock import system_clock
from moorage.kit.database import Database
from moorage.kit.errors import UnavailableError
from moorage.kit.pagination import PageRequest
from moorage.kit.settings import Settings
from moorage.ledger.accounts import CARD, Kind, credit_of
from moorage.ledger.check_repository import find_differences
from moorage.ledger.repository import Posting, post
from moorage.notifications.repository import list_outbox
from moorage.reconcile.lease import LeaseKeeper

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


@pytest.mark.long
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
    async with api.database.transaction() as session:
        organization_id = home.organization_id
        spent = Posting("spent", Kind.REFUND, organization_id, credit_of(organization_id), CARD, 60 * USD)
        await post(session, spent)
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
    gone = json.loads(json.dumps(stranger))
    gone["data"]["object"]["id"] = "cs_that_never_was"
    other = {
        **stranger,
        "type": "customer.created",
        "data": {"object": {"object": "customer", "id": "cus_1"}},
    }
    card = {"object": "payment_method", "id": "pm_1", "customer": "cus_of_another_product"}
    their_card = {**stranger, "type": "payment_method.attached", "data": {"object": card}}
    for event in (stranger, gone, other, their_card):
        assert (await deliver(api, event)).status_code == 200, "or the provider sends it again for days"
    stripe.intents[stripe.intent_of(session_of(made))]["metadata"] = {}
    assert (await deliver(api, stranger)).status_code == 200
    assert await state(api, home) == (20 * USD, 0, False)


@pytest.mark.parametrize("amount", [-5 * USD, 0, 4_990_000, 5_005_000, 10_001 * USD, 2**70, 5.5, "5000000"])
async def test_amounts_that_no_card_can_pay(api: Api, stripe: Stripe, amount: Any) -> None:
    home = await new_home(api)
    body = {"method": "card", "amount_microusd": amount}
    answer = await api.post(home.admin, f"/organizations/{home.organization_id}/billing/top-ups", body)
    assert_problem(answer, 422, "invalid_input")
    assert stripe.sessions == {}
    assert await state(api, home) == (20 * USD, 0, False)


async def test_one_organization_has_few_pages_that_the_provider_is_asked_about(
    api: Api, stripe: Stripe
) -> None:
    home, other = await new_home(api), await new_home(api, "eve@example.com")
    await api.execute(
        "INSERT INTO card_payments (id, organization_id, amount_microusd, requested_by, ask_at, automatic) "
        "SELECT 'top_' || n, :id, 5000000, 'usr_somebody', now(), false FROM generate_series(1, :most) n",
        id=home.organization_id,
        most=MOST_OPEN_PAGES,
    )
    body = {"method": "card", "amount_microusd": 5 * USD}
    answer = await api.post(home.admin, f"/organizations/{home.organization_id}/billing/top-ups", body)
    assert_problem(answer, 409, "too_many_top_ups")
    assert stripe.sessions == {}
    await top_up(api, other)
    await api.execute("UPDATE card_payments SET failed_at = now() WHERE id = 'top_1'")
    await top_up(api, home)


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


async def look(api: Api, *, everything: bool = False) -> int:
    """As the driver does it. Returns how many payments were asked about, or 1 for all that the provider knows."""
    await api.execute(
        "UPDATE leases SET expires_at = now() - interval '1 second' WHERE name = 'card-payments'"
    )
    lease = await LeaseKeeper(api.database, "card-payments", "test", system_clock).acquire()
    assert lease is not None
    provider = card_provider(api.settings)
    assert provider is not None
    reconciler = CardPaymentsReconciler(api.database, KEYRING, provider, api.settings, system_clock)
    keys = [key for key in (await reconciler.due(10)).keys if key != EVERYTHING or everything]
    for key in keys:
        await reconciler.reconcile(key, lease)
    assert set((await reconciler.due(10)).keys) <= {EVERYTHING} - set(keys), "not again at once"
    await provider.close()
    return len(keys)


async def time_passes(api: Api, **interval: int) -> None:
    [(unit, amount)] = interval.items()
    for column in ("created_at", "paid_at", "ask_at"):
        await api.execute(
            f"UPDATE card_payments SET {column} = {column} - interval '1 {unit}' * :amount", amount=amount
        )


async def shown(api: Api, home: Home, made: dict[str, Any]) -> dict[str, Any]:
    path = f"/organizations/{home.organization_id}/billing/top-ups/{made['id']}"
    found: dict[str, Any] = (await api.get(home.admin, path)).json()
    return found


async def test_a_payment_whose_event_was_lost_is_credit_all_the_same(api: Api, stripe: Stripe) -> None:
    home = await new_home(api)
    made = await top_up(api, home)
    stripe.pay(session_of(made))
    assert await look(api) == 0, "its event has a minute to come"
    await time_passes(api, minute=1)
    assert await look(api) == 1
    assert await state(api, home) == (70 * USD, 0, False)
    assert (await shown(api, home, made))["state"] == "confirmed"


async def test_whoever_comes_back_from_the_page_need_not_wait_for_an_event(api: Api, stripe: Stripe) -> None:
    home = await new_home(api)
    made = await top_up(api, home)
    assert (await shown(api, home, made))["state"] == "pending"
    stripe.pay(session_of(made))
    assert (await shown(api, home, made))["state"] == "confirmed"
    assert await state(api, home) == (70 * USD, 0, False)
    path = f"/organizations/{home.organization_id}/billing/top-ups"
    assert_problem(await api.get(home.admin, f"{path}/top_absent"), 404, "not_found")
    other = await new_home(api, "eve@example.com")
    theirs = f"/organizations/{other.organization_id}/billing/top-ups/{made['id']}"
    assert_problem(await api.get(other.admin, theirs), 404, "not_found")


async def test_a_page_on_which_nobody_paid_is_given_up(api: Api, stripe: Stripe) -> None:
    home = await new_home(api)
    made, closed = await top_up(api, home), await top_up(api, home, usd=10)
    stripe.sessions[session_of(closed)]["status"] = "expired"
    await time_passes(api, minute=5)
    assert await look(api) == 2
    assert (await shown(api, home, closed))["state"] == "failed"
    assert (await shown(api, home, made))["state"] == "pending"
    stripe.sessions[session_of(made)]["status"] = "expired"
    await time_passes(api, hour=25)
    assert await look(api) == 1
    assert [(await shown(api, home, one))["state"] for one in (made, closed)] == ["failed", "failed"]
    await time_passes(api, hour=1000)
    assert await look(api) == 0


async def test_a_page_is_over_when_the_provider_says_so_and_not_by_our_clock(
    api: Api, stripe: Stripe
) -> None:
    """The database's clock jumps by days: a page that was opened a moment ago looks old, and can still be paid on."""
    home = await new_home(api)
    made = await top_up(api, home)
    for _ in range(2):
        await time_passes(api, hour=25)
        assert await look(api) == 1
        assert (await shown(api, home, made))["state"] == "pending"
    stripe.pay(session_of(made))
    await time_passes(api, hour=1)
    assert await look(api) == 1
    assert (await shown(api, home, made))["state"] == "confirmed"
    assert await state(api, home) == (70 * USD, 0, False)


async def test_what_became_of_a_page_that_never_was_noted_is_not_asked_for_ever(
    api: Api, stripe: Stripe
) -> None:
    """Nobody was shown it, so nobody can pay on it; and no word of the provider ends it."""
    home = await new_home(api)
    made = await top_up(api, home)
    await api.execute("UPDATE card_payments SET checkout_session_id = NULL")
    await time_passes(api, hour=24)
    assert await look(api) == 1
    assert (await shown(api, home, made))["state"] == "pending"
    await time_passes(api, hour=1)
    assert await look(api) == 1
    assert (await shown(api, home, made))["state"] == "failed"
    await time_passes(api, hour=1000)
    assert await look(api) == 0


async def test_a_refund_and_a_dispute_whose_events_were_lost_are_booked(api: Api, stripe: Stripe) -> None:
    home = await new_home(api)
    made = await top_up(api, home)
    await deliver(api, stripe.pay(session_of(made)))
    stripe.refund(stripe.intent_of(session_of(made)), 1500)
    stripe.dispute(stripe.intent_of(session_of(made)), 1000)
    await time_passes(api, day=1)
    assert await look(api) == 1
    assert await state(api, home) == (55 * USD, 10 * USD, True)
    await time_passes(api, day=181)
    assert (await look(api), await look(api)) == (1, 0), "no bank takes anything back after so long"


async def test_a_provider_that_is_down_is_asked_again(api: Api, stripe: Stripe) -> None:
    home = await new_home(api)
    made = await top_up(api, home)
    stripe.pay(session_of(made))
    await time_passes(api, minute=1)
    stripe.down = True
    with pytest.raises(UnavailableError):
        await look(api)
    stripe.down = False
    assert await look(api) == 0, "not without a rest"
    await time_passes(api, minute=1)
    assert await look(api) == 1
    assert await state(api, home) == (70 * USD, 0, False)


async def test_an_inquiry_is_no_chargeback(api: Api, stripe: Stripe) -> None:
    """The bank asks and has taken nothing back; should it do so later, that is a dispute."""
    home = await new_home(api)
    made = await top_up(api, home)
    await deliver(api, stripe.pay(session_of(made)))
    asks = stripe.dispute(stripe.intent_of(session_of(made)), 5000)
    for status in ("warning_needs_response", "warning_under_review", "warning_closed"):
        stripe.disputes[-1]["status"] = status
        assert (await deliver(api, asks)).status_code == 200
        assert await state(api, home) == (70 * USD, 0, False), status
    stripe.disputes[-1]["status"] = "needs_response"
    await deliver(api, asks)
    assert await state(api, home) == (70 * USD, 50 * USD, True)


@pytest.mark.parametrize("spent_usd", [0, 60, 70])
async def test_a_refund_that_fails_later_is_given_back(api: Api, stripe: Stripe, spent_usd: int) -> None:
    home = await new_home(api)
    made = await top_up(api, home)
    await deliver(api, stripe.pay(session_of(made)))
    if spent_usd:
        async with api.database.transaction() as session:
            organization_id = home.organization_id
            source = credit_of(organization_id)
            await post(session, Posting("spent", Kind.REFUND, organization_id, source, CARD, spent_usd * USD))
    before = await state(api, home)
    refunded = stripe.refund(stripe.intent_of(session_of(made)), 5000)
    await deliver(api, refunded)
    assert await state(api, home) != before
    stripe.refunds[-1]["status"] = "failed"
    for _ in range(2):
        assert (await deliver(api, refunded)).status_code == 200
        assert await state(api, home) == before
    entries = (await api.get(home.admin, f"/organizations/{home.organization_id}/billing/entries")).json()[
        "items"
    ]
    assert any("Failed refund" in one["description"] for one in entries)


async def test_the_provider_is_spoken_to_over_one_connection(api: Api, stripe: Stripe) -> None:
    home = await new_home(api)
    for _ in range(3):
        await top_up(api, home)
    assert stripe.connections == 1


async def restore_backup_from_before(api: Api) -> None:
    """Of payments that were begun since and are not booked, nothing is left but what the provider knows."""
    await api.execute("DELETE FROM card_payments")


async def operators_mails(api: Api) -> list[str]:
    async with api.database.reading() as session:
        mails = await list_outbox(session, KEYRING, PageRequest(50, None))
    return [
        mail.text
        for mail in mails
        if mail.to == api.settings.operator_email and "card payment" in mail.subject
    ]


async def test_a_payment_made_after_the_backup_that_was_restored_is_credit_once(
    api: Api, stripe: Stripe
) -> None:
    home = await new_home(api)
    made = await top_up(api, home)
    event = stripe.pay(session_of(made))
    await restore_backup_from_before(api)
    assert await state(api, home) == (20 * USD, 0, False)
    for _ in range(2):
        assert (await deliver(api, event)).status_code == 200
    await look(api, everything=True)
    assert await state(api, home) == (70 * USD, 0, False)
    assert (await shown(api, home, made))["state"] == "confirmed"
    rows = await api.rows(
        "SELECT requested_by = :user, automatic, paid_at IS NOT NULL FROM card_payments", user=home.user_id
    )
    assert rows == [(True, False, True)]
    refunded = stripe.refund(stripe.intent_of(session_of(made)), 1000)
    assert (await deliver(api, refunded)).status_code == 200
    assert await state(api, home) == (60 * USD, 0, False)
    assert await operators_mails(api) == []


async def test_also_when_its_event_came_before_the_restore(api: Api, stripe: Stripe) -> None:
    """Nothing will tell of it again: the provider's list is read, page by page."""
    stripe.page_size = 2
    homes = [await new_home(api, f"ada-{number}@example.com") for number in range(3)]
    for home in homes:
        stripe.pay(session_of(await top_up(api, home)))
    await restore_backup_from_before(api)
    for _ in range(2):
        await look(api, everything=True)
    assert [await state(api, home) for home in homes] == [(70 * USD, 0, False)] * 3


async def test_a_payment_of_an_organization_that_is_unknown_is_told_to_the_operator_once(
    api: Api, stripe: Stripe
) -> None:
    home = await new_home(api)
    made = await top_up(api, home)
    event = stripe.pay(session_of(made))
    intent = stripe.intents[stripe.intent_of(session_of(made))]
    intent["metadata"]["organization_id"] = "org_made_after_the_backup"
    await restore_backup_from_before(api)
    for _ in range(2):
        assert (await deliver(api, event)).status_code == 200
        await look(api, everything=True)
    [mail] = await operators_mails(api)
    assert all(
        word in mail for word in (intent["id"], "org_made_after_the_backup", "50.00", "moor operator credit")
    )
    assert await state(api, home) == (20 * USD, 0, False)


async def test_a_payment_of_another_installation_on_the_same_account_is_nobodys_business(
    api: Api, stripe: Stripe
) -> None:
    home = await new_home(api)
    made = await top_up(api, home)
    event = stripe.pay(session_of(made))
    stripe.intents[stripe.intent_of(session_of(made))]["metadata"] |= {
        "installation_id": "ins_another",
        "top_up_id": "top_theirs",
    }
    assert (await deliver(api, event)).status_code == 200
    await look(api, everything=True)
    assert (await state(api, home), await operators_mails(api)) == ((20 * USD, 0, False), [])
