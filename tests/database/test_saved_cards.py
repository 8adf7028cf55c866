"""Saved cards and automatic top-ups, with the real `stripe` library over HTTP against a provider that remembers."""

import asyncio
from collections import Counter
from typing import Any

import pytest
from api_support import KEYRING, Api, Home, assert_problem, new_home
from reconciler_support import Doom, DoomedDatabase
from stripe_stand_in import Stripe
from test_cards import USD, api, deliver, state, stripe
from test_cards import look as ask_about_payments

from moorage.billing.auto_top_ups.reconciler import AutoTopUpsReconciler
from moorage.billing.cards.provider import card_provider
from moorage.kit.clock import system_clock
from moorage.kit.database import Database
from moorage.kit.errors import UnavailableError
from moorage.reconcile.lease import LeaseKeeper

__all__ = ["api", "stripe"]

AGREED = {"threshold_microusd": 25 * USD, "amount_microusd": 50 * USD, "monthly_cap_microusd": 100 * USD}


def billing(home: Home) -> str:
    return f"/organizations/{home.organization_id}/billing"


async def save_card(api: Api, stripe: Stripe, home: Home, last4: str = "4242") -> None:
    made = await api.post(home.admin, f"{billing(home)}/card")
    assert made.status_code == 201, made.text
    page = made.json()["checkout_url"].rpartition("/")[2]
    assert (await deliver(api, stripe.save_card(page, last4))).status_code == 200


async def put(api: Api, home: Home, **changes: Any) -> Any:
    path = f"/api/v1{billing(home)}/auto-top-up"
    return await api.ask(home.admin, "PUT", path, json={**AGREED, **changes})


async def shown(api: Api, home: Home) -> dict[str, Any]:
    found: dict[str, Any] = (await api.get(home.admin, f"{billing(home)}/auto-top-up")).json()
    return found


async def look(api: Api, times: int = 1, database: Database | None = None) -> None:
    """As the driver does it: ask what is due, do that, and ask again."""
    await api.execute("UPDATE leases SET expires_at = now() - interval '1 second' WHERE name = 'top-ups'")
    lease = await LeaseKeeper(api.database, "top-ups", "test", system_clock).acquire()
    assert lease is not None
    for _ in range(times):
        reconciler = AutoTopUpsReconciler(
            database or api.database, KEYRING, card_provider(api.settings), api.settings, system_clock
        )
        for key in (await reconciler.due(10)).keys:
            await reconciler.reconcile(key, lease)
        assert (await reconciler.due(10)).keys == [], "not again at once"


async def subjects(api: Api) -> list[str]:
    return [mail["subject"] for mail in reversed(await api.mails())]


async def hours_pass(api: Api, hours: int) -> None:
    for column in ("failed_at", "created_at"):
        await api.execute(
            f"UPDATE card_payments SET {column} = {column} - interval '1 hour' * :hours", hours=hours
        )
    await api.execute("UPDATE auto_top_ups SET agreed_at = agreed_at - interval '1 hour' * :h", h=hours)


async def test_a_saved_card(api: Api, stripe: Stripe) -> None:
    home = await new_home(api)
    path = f"{billing(home)}/card"
    assert (await api.get(home.admin, path)).json()["last4"] is None
    await save_card(api, stripe, home)
    assert (await api.get(home.admin, path)).json() == {
        "brand": "visa",
        "last4": "4242",
        "expires_month": 12,
        "expires_year": 2030,
    }
    await save_card(api, stripe, home, "0005")
    assert len(stripe.customers) == 1, "an organization is one customer"
    assert (await api.get(home.admin, path)).json()["last4"] == "0005"
    assert stripe.charged() == []
    for _ in range(2):
        assert (await put(api, home)).status_code == 200
    assert (await api.ask(home.admin, "DELETE", f"/api/v1{path}")).status_code == 204
    assert (await api.get(home.admin, path)).json()["last4"] is None
    assert [one["customer"] for one in stripe.methods.values()] == [None, None], "gone at the provider, too"
    assert (await shown(api, home))["state"] == "off"
    audit = (await api.get(home.admin, f"/organizations/{home.organization_id}/audit")).json()["items"]
    assert Counter(one["action"] for one in audit) == {
        "billing.auto_top_up": 1,
        "billing.auto_top_up_off": 1,
        "billing.card_remove": 1,
        "billing.card_save": 2,
    }, "what was agreed to twice is agreed to once"


async def test_events_about_cards(api: Api, stripe: Stripe) -> None:
    """A card that is taken away at the provider is gone here; late and foreign events do no harm."""
    home = await new_home(api)
    made = (await api.post(home.admin, f"{billing(home)}/card")).json()
    saved = stripe.save_card(made["checkout_url"].rpartition("/")[2])
    (method,) = stripe.methods.values()
    customer_id, method["customer"] = method["customer"], None
    detached = {"object": "payment_method", "id": method["id"], "customer": None}
    gone = {
        "id": "evt_gone",
        "object": "event",
        "type": "payment_method.detached",
        "data": {"object": detached, "previous_attributes": {"customer": customer_id}},
    }
    for event in (gone, saved, gone):
        assert (await deliver(api, event)).status_code == 200
        assert (await api.get(home.admin, f"{billing(home)}/card")).json()["last4"] is None
    stranger = {**gone, "data": {"object": {**detached, "customer": "cus_of_somebody_else"}}}
    assert (await deliver(api, stranger)).status_code == 200, "a customer of another product"


async def test_the_card_is_charged_when_the_credit_is_low(api: Api, stripe: Stripe) -> None:
    home = await new_home(api)
    assert_problem(await put(api, home), 409, "no_saved_card")
    await save_card(api, stripe, home)
    await look(api, 2)
    assert stripe.charged() == [], "nobody agreed to it"
    assert (await put(api, home)).json()["state"] == "on"
    await look(api, 3)
    assert stripe.charged() == [5000]
    assert await state(api, home) == (70 * USD, 0, False)
    for intent_id in stripe.intents:
        for _ in range(2):
            assert (await deliver(api, stripe.event_of(intent_id))).status_code == 200
    assert await state(api, home) == (70 * USD, 0, False)
    assert await subjects(api) == ["Your card was charged $50.00"]
    (top_up,) = (await api.get(home.admin, f"{billing(home)}/top-ups")).json()["items"]
    assert (top_up["automatic"], top_up["state"]) == (True, "confirmed")


async def test_the_cap_of_a_month(api: Api, stripe: Stripe) -> None:
    home = await new_home(api)
    await save_card(api, stripe, home)
    await put(api, home, threshold_microusd=10_000 * USD, monthly_cap_microusd=149 * USD)
    await look(api, 6)
    assert stripe.charged() == [5000, 5000]
    assert (await shown(api, home))["state"] == "capped"
    assert (await subjects(api))[2:] == ["Automatic top-ups have reached their monthly cap"]
    await put(api, home, threshold_microusd=10_000 * USD, monthly_cap_microusd=150 * USD)
    await look(api, 3)
    assert stripe.charged() == [5000, 5000, 5000]
    await hours_pass(api, 32 * 24)
    await look(api, 9)
    assert len(stripe.charged()) == 6, "another month"


async def test_a_card_that_is_declined_is_left_alone_after_three_times(api: Api, stripe: Stripe) -> None:
    home = await new_home(api)
    await save_card(api, stripe, home)
    await put(api, home)
    stripe.refusal = "card_declined"
    for tries, hours in ((1, 1), (2, 6), (3, 1000), (3, 0)):
        await look(api, 4)
        assert len(stripe.intents) == tries
        if tries < 3:
            assert (await shown(api, home))["state"] == "waiting"
        await hours_pass(api, hours)
    assert (await shown(api, home))["state"] == "paused"
    assert await subjects(api) == ["Your card could not be charged $50.00"] * 3
    assert "paused" in (await api.mails())[0]["text"]
    failed = (await api.get(home.admin, f"{billing(home)}/top-ups")).json()["items"]
    assert [one["state"] for one in failed] == ["failed"] * 3
    stripe.refusal = None
    await look(api, 2)
    assert await state(api, home) == (20 * USD, 0, False)
    await put(api, home)
    await look(api, 2)
    assert await state(api, home) == (70 * USD, 0, False), "an admin agreed again"


async def test_a_payment_that_the_bank_wants_confirmed(api: Api, stripe: Stripe) -> None:
    home = await new_home(api)
    await save_card(api, stripe, home)
    await put(api, home)
    stripe.refusal = "authentication_required"
    await look(api, 2)
    (mail,) = await api.mails()
    assert mail["subject"] == "Your bank wants you to confirm $50.00"
    (top_up,) = (await api.get(home.admin, f"{billing(home)}/top-ups")).json()["items"]
    assert top_up["state"] == "pending"
    assert top_up["checkout_url"] in mail["text"]
    assert (await shown(api, home))["state"] == "waiting"
    paid = stripe.pay(top_up["checkout_url"].rpartition("/")[2])
    assert (await deliver(api, paid)).status_code == 200
    assert await state(api, home) == (70 * USD, 0, False)
    assert (await shown(api, home))["state"] == "on"
    assert (await shown(api, home))["charged_this_month_microusd"] == 50 * USD


@pytest.mark.long
async def test_a_provider_that_does_not_answer(api: Api, stripe: Stripe) -> None:
    home = await new_home(api)
    await save_card(api, stripe, home)
    await put(api, home)
    stripe.down = True
    with pytest.raises(UnavailableError):
        await look(api)
    stripe.down, stripe.lost_answers = False, 1
    await look(api, 2)
    assert stripe.charged() == [5000]
    assert await state(api, home) == (70 * USD, 0, False)


@pytest.mark.long
async def test_what_had_no_answer_for_a_day_is_given_up_and_counts_if_it_was_paid(
    api: Api, stripe: Stripe
) -> None:
    home = await new_home(api)
    await save_card(api, stripe, home)
    await put(api, home)
    stripe.lost_answers = 3
    with pytest.raises(UnavailableError):
        await look(api)
    assert stripe.charged() == [5000]
    await hours_pass(api, 24)
    await look(api)
    assert (await shown(api, home))["state"] == "waiting"
    await deliver(api, stripe.event_of(next(iter(stripe.intents))))
    assert await state(api, home) == (70 * USD, 0, False)
    await look(api, 3)
    assert stripe.charged() == [5000]


@pytest.mark.long
async def test_a_charge_that_went_through_unheard_is_credit_all_the_same(api: Api, stripe: Stripe) -> None:
    """Neither the answer nor the event ever came."""
    home = await new_home(api)
    await save_card(api, stripe, home)
    await put(api, home)
    stripe.lost_answers = 3
    with pytest.raises(UnavailableError):
        await look(api)
    await hours_pass(api, 24)
    await look(api)
    assert await ask_about_payments(api) == 1
    assert await state(api, home) == (70 * USD, 0, False)


@pytest.mark.long
async def test_nothing_is_charged_while_suspended_or_after_it_was_called_off(
    api: Api, stripe: Stripe
) -> None:
    home = await new_home(api)
    await save_card(api, stripe, home)
    await put(api, home)
    path = f"/operator/organizations/{home.organization_id}"
    await api.post(api.operator, f"{path}/suspend", {"reason": "abuse"})
    await look(api, 2)
    assert (await shown(api, home))["state"] == "suspended"
    await api.post(api.operator, f"{path}/resume")
    stripe.down = True
    with pytest.raises(UnavailableError):
        await look(api)
    off = await api.ask(home.admin, "DELETE", f"/api/v1{billing(home)}/auto-top-up")
    assert off.status_code == 204
    stripe.down = False
    await look(api, 2)
    assert stripe.charged() == []


@pytest.mark.long
@pytest.mark.parametrize("refusal", [None, "card_declined"], ids=["charged", "declined"])
async def test_killed_at_every_step_a_card_is_charged_once(
    api: Api, stripe: Stripe, database_dsn: str, refusal: str | None
) -> None:
    doomed = DoomedDatabase(database_dsn)
    points = 0
    for at in range(1, 60):
        home = await new_home(api, f"ada-{at}@example.com")
        await save_card(api, stripe, home)
        await put(api, home)
        stripe.refusal, before = refusal, len(stripe.intents)
        doomed.doom = Doom(at)
        try:
            await look(api, 1, doomed)
        except asyncio.CancelledError:
            if not doomed.doom.dead:
                raise
        await look(api, 2)
        assert len(stripe.intents) == before + 1
        assert await state(api, home) == ((20 if refusal else 70) * USD, 0, False)
        await api.execute("DELETE FROM auto_top_ups")
        points += doomed.doom.dead
        if not doomed.doom.dead:
            break
    await doomed.close()
    assert points >= 6
    print(f"\n{points} crash points, each card asked once")


@pytest.mark.parametrize(
    "changes",
    [
        {"threshold_microusd": 0},
        {"threshold_microusd": -1},
        {"amount_microusd": 4_990_000},
        {"amount_microusd": 50_000_001},
        {"amount_microusd": 10**13},
        {"amount_microusd": 5.5},
        {"monthly_cap_microusd": 49 * USD},
        {"monthly_cap_microusd": 10**12},
        {"currency": "eur"},
    ],
    ids=str,
)
async def test_bad_input(api: Api, stripe: Stripe, changes: dict[str, Any]) -> None:
    home = await new_home(api)
    await save_card(api, stripe, home)
    assert_problem(await put(api, home, **changes), 422, "invalid_input")
    assert (await shown(api, home))["state"] == "off"
