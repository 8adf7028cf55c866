"""A hostile owner and money: to be paid twice, to be paid for nothing, to be paid in another's place. Each attempt by name."""

import asyncio
from typing import Any

import pytest
from api_support import Asker
from earnings_support import PRICE, SHARE, Market
from hostile_owner_support import Attempt, Scene, play
from hostile_owner_support import hostile_dsn_fixture as hostile_dsn_fixture
from hostile_owner_support import scene_fixture as scene_fixture

ACCOUNT = {"holder": "Acme Ltd", "account": "DE89 3704 0044 0532 0130 00", "bank": "COBADEFF"}
ANOTHER = ACCOUNT | {"account": "GB33 BUKB 2020 1555 5555 55"}
HOURS = 4
WHOLE = PRICE * SHARE // 100


def own(scene: Scene, rest: str) -> str:
    return f"/organizations/{scene.owner.organization_id}/{rest}"


async def earned(scene: Scene, *, days_ago: float = 10, buyer: str | None = None) -> Market:
    """By its machine, with hours that a stranger paid for by transfer, unless another bought them."""
    market = Market(scene.api.database, prefix=scene.owner.organization_id[-8:])
    buyer = buyer or await market.organization()
    await market.transfer(buyer, HOURS * PRICE)
    for _ in range(HOURS):
        await market.served_hour(buyer, scene.owner.organization_id, days_ago=days_ago, machine=scene.mine)
    await market.work()
    return market


async def ready_for_a_payout(scene: Scene) -> Market:
    market = await earned(scene)
    await named(scene, ACCOUNT)
    await market.days_pass(8)
    return market


async def named(scene: Scene, account: dict[str, str]) -> None:
    answer = await scene.api.ask(
        scene.owner.admin, "PUT", f"/api/v1{own(scene, 'payout-account')}", json=account
    )
    assert answer.status_code == 200, answer.text


async def payouts(scene: Scene) -> list[tuple[Any, ...]]:
    query = "SELECT state, amount_microusd FROM payouts WHERE organization_id = :id ORDER BY created_at"
    return [tuple(row) for row in await scene.api.rows(query, id=scene.owner.organization_id)]


async def payable(scene: Scene) -> int:
    answer = await scene.api.get(scene.owner.admin, own(scene, "earnings"))
    return int(answer.json()["payable_microusd"])


async def twice_at_once(scene: Scene) -> None:
    await ready_for_a_payout(scene)
    answers = await asyncio.gather(*(scene.post(own(scene, "payouts")) for _ in range(10)))
    assert sorted(answer.status_code for answer in answers) == [201, *[409] * 9]


async def twice_by_one_request(scene: Scene) -> None:
    await ready_for_a_payout(scene)
    once = {"Idempotency-Key": "once"}
    first, second = [(await scene.post(own(scene, "payouts"), headers=once)).json() for _ in range(2)]
    assert first == second
    assert len(await payouts(scene)) == 1


async def sent_and_asked_for_again(scene: Scene) -> None:
    market = await ready_for_a_payout(scene)
    asked = (await scene.post(own(scene, "payouts"))).json()
    assert await market.confirm(asked["id"]) == asked["amount_microusd"]
    for _ in range(3):
        await scene.post(own(scene, "payouts"))
    await market.days_pass(400)
    await market.work()
    assert await payable(scene) < 10_000
    assert await market.differences() == []


async def confirmed_by_itself(scene: Scene) -> None:
    await ready_for_a_payout(scene)
    asked = (await scene.post(own(scene, "payouts"))).json()
    for asker in (scene.owner.admin, scene.machine):
        for word, body in (("confirm", {"reference": "x", "sent": True}), ("refuse", {"reason": "Not so."})):
            await scene.post(f"/operator/payouts/{asked['id']}/{word}", body, asker)
    assert [state for state, _ in await payouts(scene)] == ["requested"]


async def to_another_account(scene: Scene) -> None:
    """Whoever got into the account of an admin names a bank account of their own."""
    await ready_for_a_payout(scene)
    asked = (await scene.post(own(scene, "payouts"))).json()
    await named(scene, ANOTHER)
    sent = await scene.api.post(
        scene.api.operator, f"/operator/payouts/{asked['id']}/confirm", {"reference": "wire 1"}
    )
    assert (sent.status_code, sent.json()["code"]) == (409, "payout_refused")
    assert (await scene.post(own(scene, "payouts"))).json()["code"] == "payouts_frozen"


async def there_and_back(scene: Scene) -> None:
    """The old account again, which was known for long."""
    await ready_for_a_payout(scene)
    await named(scene, ANOTHER)
    await named(scene, ACCOUNT)
    assert (await scene.post(own(scene, "payouts"))).json()["code"] == "payouts_frozen"


async def anothers_money(scene: Scene) -> None:
    theirs = f"/organizations/{scene.victim.organization_id}"
    for asker in (scene.owner.admin, scene.machine):
        await scene.ask(asker, "PUT", f"{theirs}/payout-account", json=ANOTHER)
        await scene.post(f"{theirs}/payouts", asker=asker)
        for what in (
            "payouts",
            "payout-account",
            "earnings",
            "earnings/machines?month=2026-01",
            "earnings/statements",
        ):
            await scene.ask(asker, "GET", f"{theirs}/{what}")
    await scene.ask(scene.owner.admin, "GET", "/operator/payouts")


async def by_who_may_not(scene: Scene) -> None:
    """A member who runs containers, and no more."""
    await ready_for_a_payout(scene)
    user_id, token = await scene.api.new_person(f"user-of-{scene.mine}@example.com")
    await scene.api.join(scene.owner.organization_id, user_id)
    member = Asker("member", {"Authorization": f"Bearer {token}"})
    await scene.ask(member, "PUT", own(scene, "payout-account"), json=ANOTHER)
    await scene.post(own(scene, "payouts"), asker=member)
    await scene.post(own(scene, "machines"), {}, member)
    await scene.post(f"/machines/{scene.mine}/pause", asker=member)
    assert await payouts(scene) == []


async def bought_by_itself(scene: Scene) -> None:
    """With a second organization, made for that by the same person."""
    made = await scene.api.post(scene.owner.admin, "/organizations", {"name": "Somebody Else"})
    assert made.status_code == 201, made.text
    market = await earned(scene, buyer=made.json()["id"])
    await market.days_pass(400)
    await market.work()
    assert await payable(scene) == 0


async def gone_before_its_proof(scene: Scene) -> None:
    """The machine is removed, so that what it earned by a lie is nobody's any more to take back."""
    market = await earned(scene, days_ago=1)
    await scene.ask(scene.owner.admin, "DELETE", f"/machines/{scene.mine}?force=true")
    voided = await scene.api.post(
        scene.api.operator,
        f"/operator/machines/{scene.mine}/void-earnings",
        {"reason": "It had no such GPU."},
    )
    assert voided.status_code == 204, voided.text
    await market.days_pass(400)
    await market.work()
    assert await payable(scene) == 0
    await scene.api.execute("DELETE FROM machine_voids")  # By the operator, and not an effect of the attempt.


async def details_that_are_none(scene: Scene) -> None:
    """The operator reads them on a terminal, and in a list that a spreadsheet opens."""
    for wrong in (
        {"holder": "Acme\x1b[2J"},
        {"holder": "Acme\nPay to DE00"},
        {"account": "DE02\n1203"},
        {"account": "x" * 100},
        {"bank": "\u202eXXX"},
        {"holder": ""},
        {"amount_microusd": 10**12},
    ):
        await scene.ask(scene.owner.admin, "PUT", own(scene, "payout-account"), json=ACCOUNT | wrong)


async def more_than_there_is(scene: Scene) -> None:
    """An amount, a currency, a number below zero: nothing of that is for an owner to say."""
    await ready_for_a_payout(scene)
    before = await payable(scene)
    for body in ({"amount_microusd": 10**12}, {"amount_microusd": -1}):
        await scene.post(own(scene, "payouts"), body)
    assert sum(amount for _, amount in await payouts(scene)) <= before


ATTEMPTS = [
    Attempt("a payout ten times at once", twice_at_once, allowed=1),
    Attempt("a payout twice by one request", twice_by_one_request, allowed=2),
    Attempt("a payout after a payout", sent_and_asked_for_again, allowed=1),
    Attempt("a payout that it confirms itself", confirmed_by_itself, allowed=1),
    Attempt("a payout to an account that was just named", to_another_account, allowed=1),
    Attempt("an account there and back", there_and_back),
    Attempt("another's money", anothers_money),
    Attempt("a payout by who may not", by_who_may_not),
    Attempt("hours bought by its second organization", bought_by_itself),
    Attempt("a machine that is gone before its proof", gone_before_its_proof, allowed=1),
    Attempt("bank details that are none", details_that_are_none),
    Attempt("more than there is", more_than_there_is, allowed=1),
]


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=str)
@pytest.mark.long
async def test_without_effect(scene: Scene, attempt: Attempt) -> None:
    await play(scene, attempt, money_moves=True)
