"""An organization that is deleted while a card is about to pay for it, with the real `stripe` library over HTTP: what nobody could
use is not charged, and what was charged is not given up unseen."""

import pytest
from api_support import Api, Home, assert_problem, new_home
from stripe_stand_in import Stripe
from test_api_deletion import delete, in_turn
from test_cards import USD, api, stripe
from test_saved_cards import billing

__all__ = ["api", "stripe"]


@pytest.fixture
async def home(api: Api) -> Home:
    return await new_home(api)


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
