"""An organization that is deleted while a card is about to pay for it, with the real `stripe` library over HTTP: what nobody could
use is not charged, and what was charged is not given up unseen."""

import asyncio

import pytest
from api_support import Api, Home, assert_problem, new_home
from sqlalchemy import text
from stripe_stand_in import Stripe
from test_api_deletion import delete, in_turn, standing, until_waiting
from test_cards import USD, api, deliver, state, stripe
from test_cards import look as ask_about_payments
from test_saved_cards import billing, look, put, save_card

__all__ = ["api", "stripe"]


@pytest.fixture
async def home(api: Api) -> Home:
    return await new_home(api)


async def page_for_a_card(api: Api, home: Home) -> str:
    made = await api.post(home.admin, f"{billing(home)}/card")
    assert made.status_code == 201, made.text
    return str(made.json()["checkout_url"]).rpartition("/")[2]


async def test_a_payment_that_begins_beside(api: Api, stripe: Stripe, home: Home) -> None:
    """Its page would take money that becomes the credit of nobody."""
    wanted = {"method": "card", "amount_microusd": 50 * USD}
    turn = f"too_many_top_ups:{home.organization_id}"
    deleted, begun = await in_turn(
        api, turn, delete(api, home), api.post(home.admin, f"{billing(home)}/top-ups", wanted)
    )
    assert deleted.status_code == 204, deleted.text
    assert_problem(begun, 404)
    assert await api.rows("SELECT 1 FROM card_payments") == []


async def test_a_payment_that_begins_before(api: Api, stripe: Stripe, home: Home) -> None:
    wanted = {"method": "card", "amount_microusd": 50 * USD}
    turn = f"too_many_top_ups:{home.organization_id}"
    begun, deleted = await in_turn(
        api, turn, api.post(home.admin, f"{billing(home)}/top-ups", wanted), delete(api, home)
    )
    assert begun.status_code == 201, begun.text
    assert_problem(deleted, 409, "organization_not_empty")


async def test_a_card_is_saved_after(api: Api, stripe: Stripe, home: Home) -> None:
    """The page where it is entered was open. Nobody is left who could remove it, so it is forgotten at the provider."""
    page = await page_for_a_card(api, home)
    assert (await delete(api, home)).status_code == 204
    event = stripe.save_card(page, "4242")
    for _ in range(2):  # the second time there is nothing left to forget
        assert (await deliver(api, event)).status_code == 200
    assert await api.rows("SELECT payment_method_id FROM saved_cards") == [(None,)]
    assert [one["customer"] for one in stripe.methods.values()] == [None]


async def test_nothing_is_charged_automatically_after(api: Api, stripe: Stripe, home: Home) -> None:
    """Its card went away at the provider, and what was agreed to stayed."""
    await save_card(api, stripe, home)
    assert (await put(api, home)).status_code == 200
    await api.execute("UPDATE saved_cards SET payment_method_id = NULL")
    assert (await delete(api, home)).status_code == 204
    # Even if a card came back.
    await api.execute("UPDATE saved_cards SET payment_method_id = 'pm_1'")
    await look(api)
    assert stripe.charged() == []
    assert await api.rows("SELECT 1 FROM card_payments") == []


async def test_what_was_called_off_may_still_come_through(api: Api, stripe: Stripe, home: Home) -> None:
    """Whoever removes a card while it is charged waits until the provider is asked no more."""
    await save_card(api, stripe, home)
    assert (await put(api, home)).status_code == 200
    await api.execute(
        "INSERT INTO card_payments (id, organization_id, amount_microusd, requested_by, automatic, payment_method_id) "
        "VALUES ('top_1', :id, 50000000, 'system', true, 'pm_1')",
        id=home.organization_id,
    )
    assert (await api.ask(home.admin, "DELETE", f"/api/v1{billing(home)}/card")).status_code == 204
    assert await standing(api, home) == ["payment_under_way"]
    assert_problem(await delete(api, home), 409, "organization_not_empty")
    await api.execute(
        "UPDATE card_payments SET created_at = created_at - interval '2 days', failed_at = failed_at - interval '2 days'"
    )
    await ask_about_payments(api)
    assert (await delete(api, home)).status_code == 204


async def test_a_payment_that_arrives_meanwhile(api: Api, stripe: Stripe, home: Home) -> None:
    """After somebody looked at the credit and before they looked at payments: it is one or the other, and never unseen."""
    wanted = {"method": "card", "amount_microusd": 50 * USD}
    begun = await api.post(home.admin, f"{billing(home)}/top-ups", wanted)
    page = str(begun.json()["checkout_url"]).rpartition("/")[2]
    async with api.database.transaction() as session:
        # Between the two, the deletion asks for the saved card.
        await session.execute(text("LOCK TABLE saved_cards"))
        deleting = asyncio.create_task(delete(api, home, gives_up_microusd=20 * USD))
        await until_waiting(api, 1)
        assert (await deliver(api, stripe.pay(page))).status_code == 200
    assert_problem(await deleting, 409)
    assert (await state(api, home))[0] == 70 * USD
