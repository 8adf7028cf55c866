"""Deleting an organization: what stands in the way, what ends with it, what stays, and that nobody else notices."""

import asyncio
from typing import Any

import pytest
from api_support import Api, Asker, Home, assert_problem, bearer, container_body, new_home
from api_support import api_fixture as api_fixture
from earnings_support import LENGTH, PRICE, Market
from test_api_earnings import earn, name_account

from moorage.kit.database import take_turn
from moorage.ledger.check_repository import find_differences

USD = 1_000_000
CREDIT = 20 * USD


@pytest.fixture
async def home(api: Api) -> Home:
    return await new_home(api)


async def preview(api: Api, home: Home) -> dict[str, Any]:
    answer = await api.get(home.admin, f"/organizations/{home.organization_id}/deletion")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def standing(api: Api, home: Home) -> list[str]:
    return [one["code"] for one in (await preview(api, home))["obstacles"]]


async def delete(api: Api, home: Home, asker: Asker | None = None, **params: Any) -> Any:
    path = f"/api/v1/organizations/{home.organization_id}"
    said = {"name": "acme", "gives_up_microusd": 10 * CREDIT} | params
    return await api.ask(asker or home.admin, "DELETE", path, params=said)


async def assert_refused(api: Api, home: Home, *codes: str) -> str:
    """And nothing of it happened: projects and members are there."""
    assert await standing(api, home) == list(codes)
    before = await api.dump()
    answer = assert_problem(await delete(api, home), 409, "organization_not_empty")
    assert without_uses(await api.dump()) == without_uses(before)
    return str(answer["detail"])


def without_uses(dump: str) -> list[str]:
    """That somebody asked is noted with their session."""
    return sorted(line for line in dump.splitlines() if not line.startswith("sessions:"))


async def test_an_empty_one(api: Api, home: Home) -> None:
    other = await new_home(api, "other@example.com")
    bea, bea_token = await api.new_person("bea@example.com")
    cy, cy_token = await api.new_person("cy@example.com")
    for user_id in (bea, cy):
        await api.join(home.organization_id, user_id)
    await api.join(other.organization_id, cy)
    _, key = await api.new_key(home.project_id, "manage")
    _, others_key = await api.new_key(other.project_id, "manage")
    invitation = await api.new_invitation(home.organization_id, "dee@example.com")
    _, dee_token = await api.new_person("dee@example.com")
    await api.new_webhook(home.organization_id, "https://hooks.example/acme")
    await api.new_webhook(other.organization_id, "https://hooks.example/other")
    transfer = await api.new_bank_transfer(home.organization_id)
    others_transfer = await api.new_bank_transfer(other.organization_id)

    for wrong in ("", "Acme"):
        assert_problem(await delete(api, home, name=wrong), 422, "name_mismatch")
    assert_problem(await delete(api, home, gives_up_microusd=CREDIT - 1), 409, "credit_left")
    found = await preview(api, home)
    assert found["obstacles"] == []
    assert (found["given_up_microusd"], found["given_credit_microusd"]) == (CREDIT, CREDIT)
    assert (found["paid_credit_microusd"], found["earned_microusd"]) == (0, 0)
    assert len(found["called_off_transfers"]) == 1
    assert (await delete(api, home, gives_up_microusd=CREDIT)).status_code == 204

    gone = f"/organizations/{home.organization_id}"
    for path in (gone, f"{gone}/projects", f"{gone}/billing", f"/projects/{home.project_id}"):
        assert_problem(await api.get(home.admin, path), 404)
    assert (await api.get(home.admin, "/organizations")).json()["items"] == []
    assert_problem(await delete(api, home), 404)
    accepted = await api.post(bearer("dee", dee_token), f"/invitations/{invitation[1]}/accept")
    assert_problem(accepted, 404)
    assert_problem(await api.get(bearer("key", key), "/me"), 401)
    assert_problem(await api.get(bearer("bea", bea_token), "/me"), 401)

    # Nothing else of anybody.
    assert (
        await api.get(bearer("cy", cy_token), f"/organizations/{other.organization_id}")
    ).status_code == 200
    assert (await api.get(bearer("others", others_key), f"/projects/{other.project_id}")).status_code == 200
    assert (await api.get(other.admin, f"/projects/{other.project_id}")).status_code == 200
    assert await api.rows("SELECT url FROM webhooks") == [("https://hooks.example/other",)]
    states = dict(await api.rows("SELECT id, state FROM bank_transfers"))
    assert states == {transfer: "expired", others_transfer: "pending"}


@pytest.mark.parametrize("what", ["project", "organization"])
async def test_nobody_waits_for_its_limits_any_more(api: Api, home: Home, what: str) -> None:
    """What was asked for ahead has no container that could withdraw it."""
    path = f"/projects/{home.project_id}/replica-limit-requests"
    assert (await api.post(home.admin, path, {"replicas": 40})).status_code == 201
    if what == "project":
        gone = await api.ask(
            home.admin, "DELETE", f"/api/v1/projects/{home.project_id}", params={"name": "default"}
        )
    else:
        gone = await delete(api, home)
    assert gone.status_code == 204, gone.text
    asked = await api.get(api.operator, "/operator/replica-limit-requests?state=pending")
    assert asked.json()["items"] == []
    assert await api.rows("SELECT state, decided_by FROM replica_limit_requests") == [
        ("withdrawn", home.user_id)
    ]


async def test_what_stays_and_who_hears_of_it(api: Api, home: Home) -> None:
    bea, _ = await api.new_person("bea@example.com")
    await api.join(home.organization_id, bea)
    assert (await delete(api, home)).status_code == 204
    async with api.database.transaction() as session:
        assert await find_differences(session) == []
    seen = (await api.get(api.operator, f"/operator/organizations/{home.organization_id}")).json()
    assert seen["deleted_at"] is not None
    assert (seen["name"], seen["balance_microusd"]) == ("acme", CREDIT), "what it had stays in the books"
    listed = (await api.get(api.operator, "/operator/organizations")).json()["items"]
    assert {one["id"]: one["deleted_at"] is not None for one in listed}[home.organization_id]
    audit = (await api.get(api.operator, f"/operator/organizations/{home.organization_id}/audit")).json()[
        "items"
    ]
    removal = next(one for one in audit if one["action"] == "organization.remove")
    assert removal["actor"] == home.user_id
    assert removal["details"]["given_up_microusd"] == CREDIT
    assert [one["target"] for one in audit if one["action"] == "project.remove"] == [home.project_id]
    mails = {one["to"]: one for one in await api.mails() if "was deleted" in one["subject"]}
    assert set(mails) == {"ada@example.com", "bea@example.com"}
    assert "$20.00 of credit was left" in mails["ada@example.com"]["text"]
    assert "$20.00" not in mails["bea@example.com"]["text"]
    # Who was in it is somebody of the past, for whom their former organization's machines earn nothing.
    past = await api.rows("SELECT user_id FROM past_memberships ORDER BY user_id")
    assert past == sorted([(home.user_id,), (bea,)])


async def test_containers_stand_in_the_way_until_they_are_gone(api: Api, home: Home) -> None:
    container_id = await api.new_container(home.project_id, "chat")
    assert "It has 1 container: chat." in await assert_refused(api, home, "containers")
    await api.execute("UPDATE containers SET desired_state = 'deleted' WHERE id = :id", id=container_id)
    await api.execute("UPDATE projects SET deleted_at = now() WHERE id = :id", id=home.project_id)
    await assert_refused(api, home, "containers")
    await api.execute("UPDATE containers SET deleted_at = now() WHERE id = :id", id=container_id)
    assert (await delete(api, home)).status_code == 204


async def test_money_that_is_owed(api: Api, home: Home) -> None:
    market = Market(api.database)
    payment = await market.pay_by_card(home.organization_id, 7 * USD)
    await market.dispute(payment)
    assert "$7.00" in await assert_refused(api, home, "suspended", "owed")


async def test_payments_that_may_arrive(api: Api, home: Home) -> None:
    await api.execute(
        "INSERT INTO card_payments (id, organization_id, amount_microusd, requested_by, automatic) "
        "VALUES ('top_1', :id, 5, 'usr', false)",
        id=home.organization_id,
    )
    await api.new_saved_card(home.organization_id)
    await assert_refused(api, home, "payment_under_way", "saved_card")


async def test_machines_and_what_they_earned(api: Api, home: Home) -> None:
    await earn(api, home)
    assert "It lends 1 machine." in await assert_refused(api, home, "machines", "earnings")
    await api.execute("UPDATE machines SET state = 'banned'")
    assert "The operator banned one" in await assert_refused(api, home, "machines", "earnings")
    await api.execute("UPDATE machines SET state = 'removed'")
    await assert_refused(api, home, "earnings")
    await name_account(api, home)
    await api.execute("UPDATE payout_accounts SET changed_at = now() - interval '30 days'")
    asked = await api.post(home.admin, f"/organizations/{home.organization_id}/payouts")
    assert asked.status_code == 201, asked.text
    await assert_refused(api, home, "payout_requested")
    sent = await api.post(
        api.operator, f"/operator/payouts/{asked.json()['id']}/confirm", {"reference": "R1"}
    )
    assert sent.status_code == 200, sent.text
    assert (await delete(api, home)).status_code == 204


async def test_an_hour_that_its_machine_serves_in(api: Api, home: Home) -> None:
    """What is served in it is earned when it is over; until then nobody knows how much."""
    market = Market(api.database)
    buyer = await market.organization()
    await market.transfer(buyer, PRICE)
    began_at = await market.now() - LENGTH / 2
    assert await market.buy_hour(buyer, began_at, container="ctr_1") is not None
    await market.serve(home.organization_id, "rep_1", began_at, None, container="ctr_1")
    await assert_refused(api, home, "earnings")


async def test_little_that_was_earned_is_given_up(api: Api, home: Home) -> None:
    await earn(api, home, hours=1)
    await api.execute("UPDATE machines SET state = 'removed'")
    found = await preview(api, home)
    assert found["obstacles"] == []
    assert found["given_up_microusd"] == CREDIT + found["earned_microusd"] > CREDIT
    assert_problem(await delete(api, home, gives_up_microusd=CREDIT), 409, "credit_left")
    assert (await delete(api, home, gives_up_microusd=found["given_up_microusd"])).status_code == 204


async def test_while_others_change_it(api: Api, home: Home) -> None:
    """Whoever comes first: what is made either stands in the way or is refused; nothing is left behind."""
    path = f"/organizations/{home.organization_id}"
    bea, _ = await api.new_person("bea@example.com")
    await api.join(home.organization_id, bea, "admin")
    answers = await asyncio.gather(
        *(api.post(home.admin, f"{path}/projects", {"name": f"a{n}"}) for n in range(3)),
        api.post(home.admin, f"/projects/{home.project_id}/containers", container_body("chat")),
        delete(api, home),
        delete(api, home),
        *(api.post(home.admin, f"{path}/projects", {"name": f"b{n}"}) for n in range(3)),
        *(api.post(home.admin, f"/projects/{home.project_id}/api-keys", {"name": f"k{n}"}) for n in range(3)),
        *(api.post(home.admin, f"{path}/invitations", {"email": f"x{n}@example.com"}) for n in range(3)),
    )
    assert {one.status_code for one in answers} <= {201, 204, 404, 409}
    deleted = await api.rows("SELECT 1 FROM organizations WHERE deleted_at IS NOT NULL")
    containers = await api.rows("SELECT 1 FROM containers")
    assert bool(deleted) != bool(containers)
    if deleted:
        its = {"id": home.organization_id}
        for left in (
            "SELECT 1 FROM projects WHERE organization_id = :id AND deleted_at IS NULL",
            "SELECT 1 FROM invitations WHERE organization_id = :id AND closed_at IS NULL",
            "SELECT 1 FROM organization_members WHERE organization_id = :id",
            (
                "SELECT 1 FROM api_keys k JOIN projects p ON p.id = k.project_id "
                "WHERE p.organization_id = :id AND k.revoked_at IS NULL"
            ),
        ):
            assert await api.rows(left, **its) == [], left


async def until_waiting(api: Api, number: int) -> None:
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    async with asyncio.timeout(30):
        while await api.rows(waiting) != [(number,)]:  # noqa: ASYNC110 - only Postgres knows
            await asyncio.sleep(0.01)


async def in_turn(api: Api, turn: str, *asked: Any) -> list[Any]:
    """Each is let in, has looked at who asks, and waits for the turn before the next one comes; then they go on in that order."""
    waiting = []
    async with api.database.transaction() as session:
        await take_turn(session, turn)
        for number, one in enumerate(asked, 1):
            waiting.append(asyncio.create_task(one))
            await until_waiting(api, number)
    return await asyncio.gather(*waiting)


async def test_a_transfer_announced_beside(api: Api, home: Home) -> None:
    """Or it would stay pending for ever, and what is paid for it would be nobody's."""
    settings = api.settings.model_copy(update={"bank_details_local": "IBAN DE02"})
    api.app.state.settings = settings
    path = f"/organizations/{home.organization_id}/billing/top-ups"
    turn = f"too_many_top_ups:{home.organization_id}"

    def announce() -> Any:
        body = {"method": "bank_transfer", "amount_microusd": 50 * USD, "transfer": "local"}
        return api.post(home.admin, path, body)

    before, deleted, after = await in_turn(api, turn, announce(), delete(api, home), announce())
    assert before.status_code == 201, before.text
    assert deleted.status_code == 204, deleted.text
    assert_problem(after, 404)
    assert await api.rows("SELECT state FROM bank_transfers") == [("expired",)]


@pytest.mark.parametrize("what", ["webhooks", "machines"])
async def test_what_is_made_beside(api: Api, home: Home, what: str) -> None:
    """The right to make it was there when it was asked for, and is gone when it is made."""
    turn = f"too_many_webhooks:{home.organization_id}" if what == "webhooks" else "machine-names"
    body: dict[str, Any] = {}
    if what == "webhooks":
        body = {"url": "https://hooks.example/acme", "events": ["container.state"]}
    api.app.state.settings = api.settings.model_copy(
        update={"community_machines": True, "public_url": "https://moorage.example"}
    )
    path = f"/organizations/{home.organization_id}/{what}"

    async with api.database.transaction() as session:
        await take_turn(session, turn)
        asked = asyncio.create_task(api.post(home.admin, path, body))
        await until_waiting(api, 1)
        assert (await delete(api, home)).status_code == 204
    assert_problem(await asked, 404)
    assert await api.rows(f"SELECT 1 FROM {what}") == []


async def test_nothing_is_given_to_it_any_more(api: Api, home: Home) -> None:
    gift = {"organization_id": home.organization_id, "amount_microusd": USD, "reason": "welcome"}
    assert (await api.post(api.operator, "/operator/credits", gift)).status_code == 201
    assert (await delete(api, home)).status_code == 204
    assert_problem(await api.post(api.operator, "/operator/credits", gift), 409, "organization_deleted")
    path = f"/operator/organizations/{home.organization_id}/initial-credit"
    assert_problem(await api.post(api.operator, path), 409, "organization_deleted")
    absent = gift | {"organization_id": "org_" + "a" * 20}
    assert_problem(await api.post(api.operator, "/operator/credits", absent), 404)


async def test_deleting_makes_no_room_for_a_while(api: Api, home: Home) -> None:
    """Each leaves rows behind, so whoever makes and deletes them all day has no more of them than anybody."""
    most = api.settings.organizations_per_person
    for number in range(most - 1):
        made = await api.post(home.admin, "/organizations", {"name": f"o{number}"})
        assert made.status_code == 201, made.text
    path = made.headers["location"]
    assert (await api.ask(home.admin, "DELETE", path, params={"name": f"o{number}"})).status_code == 204
    refused = await api.post(home.admin, "/organizations", {"name": "one more"})
    assert_problem(refused, 409, "too_many_organizations")
    await api.execute("UPDATE organizations SET deleted_at = deleted_at - interval '8 days'")
    assert (await api.post(home.admin, "/organizations", {"name": "one more"})).status_code == 201
