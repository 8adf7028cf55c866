"""Webhooks on the real application, with a real receiver."""

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp import web
from api_support import KEYRING, Api, Asker, assert_problem, bearer, container_body
from api_support import api_fixture as api_fixture

from moorage.entrypoints.api import create_app
from moorage.kit.clock import system_clock
from moorage.kit.database import Listener
from moorage.reconcile.driver import Driver
from moorage.webhooks.delivery import MOST_WAITING, SHARE, WebhookDelivery
from moorage.webhooks.repository import MOST_KEPT, due_webhooks, purge_deliveries
from tests.ports import free_port

DEADLINE_S = 20.0

PUBLIC_URL = "https://moorage.test"


@dataclass
class Receiver:
    port: int
    answers: list[int] = field(default_factory=list)
    """What it says to the next messages; 204 when there is nothing left."""
    received: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    may_answer: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    async def handle(self, request: web.Request) -> web.Response:
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.received.append((headers, await request.read()))
        await self.may_answer.wait()
        status = self.answers.pop(0) if self.answers else 204
        return web.Response(status=status, headers={"Location": self.url + "/elsewhere"})

    def events(self) -> list[str]:
        return [json.loads(body)["type"] for _, body in self.received]


@dataclass
class World:
    api: Api
    receiver: Receiver
    admin: Asker
    organization_id: str
    project_id: str

    @property
    def path(self) -> str:
        return f"/organizations/{self.organization_id}/webhooks"

    async def webhook(self, *events: str) -> dict[str, Any]:
        answer = await self.api.post(
            self.admin, self.path, {"url": self.receiver.url, "events": list(events)}
        )
        assert answer.status_code == 201, answer.text
        made: dict[str, Any] = answer.json()
        return made

    async def deliveries(self, webhook_id: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (
            await self.api.get(self.admin, f"{self.path}/{webhook_id}/deliveries")
        ).json()["items"]
        return found

    async def hurry(self) -> None:
        await self.api.execute(
            "UPDATE webhook_deliveries SET next_try_at = now() WHERE next_try_at IS NOT NULL"
        )
        await self.api.execute("SELECT pg_notify('moorage_webhooks', '')")


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    receiver = Receiver(free_port())
    receiver.may_answer.set()
    app = web.Application()
    app.router.add_post("/{path:.*}", receiver.handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", receiver.port).start()
    yield receiver
    await runner.cleanup()


@pytest.fixture
async def world(api: Api, receiver: Receiver) -> AsyncIterator[World]:
    settings = api.settings.model_copy(
        update={"allowed_webhook_hosts": (f"127.0.0.1:{receiver.port}",), "public_url": PUBLIC_URL}
    )
    api = Api(create_app(settings, api.database, KEYRING), api.database, settings)
    user_id, token = await api.new_person("ann@example.com")
    organization_id = await api.new_organization("acme", {user_id: "admin"})
    project_id = await api.new_project(organization_id, "main", user_id)
    listener = Listener(api.database.dsn)
    delivery = WebhookDelivery(api.database, KEYRING, settings, system_clock)
    driver = Driver(delivery, api.database, listener, "test", system_clock)
    tasks = [asyncio.create_task(listener.run()), asyncio.create_task(driver.run())]
    yield World(api, receiver, bearer("admin", token), organization_id, project_id)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def until(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    deadline = system_clock.monotonic() + DEADLINE_S
    while not await condition():
        assert system_clock.monotonic() < deadline, what
        await asyncio.sleep(0.02)


async def until_received(receiver: Receiver, count: int) -> None:
    async def enough() -> bool:
        return len(receiver.received) >= count

    await until(enough, f"{count} messages; there are {len(receiver.received)}")


async def test_what_happens_is_told_signed_and_once(world: World) -> None:
    made = await world.webhook("container.*", "project.*")
    answer = await world.api.post(
        world.admin, f"/projects/{world.project_id}/containers", container_body("chat")
    )
    assert answer.status_code == 201, answer.text
    await until_received(world.receiver, 1)
    headers, body = world.receiver.received[0]
    message = json.loads(body)
    assert message["type"] == "container.create"
    assert message["organization_id"] == world.organization_id
    assert message["data"]["container_id"] == answer.json()["id"]
    key = base64.b64decode(made["secret"].removeprefix("whsec_"))
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"
    assert headers["content-type"] == "application/json"

    async def done() -> bool:
        return all(one["delivered_at"] for one in await world.deliveries(made["id"]))

    await until(done, "the delivery is recorded")
    (recorded,) = await world.deliveries(made["id"])
    assert (recorded["id"], recorded["tries"], recorded["status"]) == (headers["webhook-id"], 1, 204)
    assert world.receiver.events() == ["container.create"], "once, and nothing that was not asked for"


async def test_a_chat_gets_sentences_with_names(world: World) -> None:
    body = {"url": world.receiver.url, "events": ["container.*"], "format": "chat"}
    made = (await world.api.post(world.admin, world.path, body)).json()
    assert made["format"] == "chat"
    answer = await world.api.post(
        world.admin, f"/projects/{world.project_id}/containers", container_body("chat-model")
    )
    assert answer.status_code == 201, answer.text
    await until_received(world.receiver, 1)
    message = json.loads(world.receiver.received[0][1])
    assert message == {
        "text": "main / chat-model: A container was created. By ann@\u200bexample.com."
        f" {PUBLIC_URL}/projects/{world.project_id}/containers/{answer.json()['id']}"
    }
    refused = await world.api.post(world.admin, world.path, {"url": world.receiver.url, "format": "smoke"})
    assert_problem(refused, 422)


async def test_nobody_hears_of_another_organization(world: World) -> None:
    await world.webhook("*")
    await until_received(world.receiver, 0)
    user_id, token = await world.api.new_person("eve@example.com")
    other_id = await world.api.new_organization("other", {user_id: "admin"})
    project_id = await world.api.new_project(other_id, "theirs", user_id)
    await world.api.post(bearer("eve", token), f"/projects/{project_id}/containers", container_body("secret"))
    await world.api.post(world.admin, f"/projects/{world.project_id}/containers", container_body("mine"))
    await until_received(world.receiver, 1)
    told = b"".join(body for _, body in world.receiver.received).decode()
    assert other_id not in told
    assert project_id not in told


async def test_a_receiver_that_fails_is_tried_again_with_the_same_id(world: World) -> None:
    made = await world.webhook("webhook.test")
    world.receiver.answers = [500, 302]
    await world.api.post(world.admin, f"{world.path}/{made['id']}/test", {})

    async def tries(count: int) -> bool:
        (one,) = await world.deliveries(made["id"])
        return bool(one["tries"] == count)

    await until(lambda: tries(1), "the first try is recorded")
    (failed,) = await world.deliveries(made["id"])
    assert failed["status"] == 500
    assert "answered 500" in failed["error"]
    await world.hurry()
    await until(lambda: tries(2), "a redirect is not followed")
    await world.hurry()
    await until(lambda: tries(3), "the third try succeeds")
    (recorded,) = await world.deliveries(made["id"])
    assert (recorded["status"], recorded["error"], recorded["next_try_at"]) == (204, None, None)
    assert len({headers["webhook-id"] for headers, _ in world.receiver.received}) == 1
    assert len(world.receiver.received) == 3


async def test_a_receiver_that_is_gone_is_not_asked_again(world: World) -> None:
    made = await world.webhook("webhook.test")
    world.receiver.answers = [410]
    await world.api.post(world.admin, f"{world.path}/{made['id']}/test", {})

    async def disabled() -> bool:
        (one,) = (await world.api.get(world.admin, world.path)).json()["items"]
        return not one["enabled"]

    await until(disabled, "the webhook is switched off")
    answer = await world.api.post(world.admin, f"{world.path}/{made['id']}/test", {})
    assert_problem(answer, 409, "webhook_disabled")
    audit = (await world.api.get(world.admin, f"/organizations/{world.organization_id}/audit")).json()[
        "items"
    ]
    assert ("system", "webhook.disable") in [(one["actor"], one["action"]) for one in audit]
    answer = await world.api.ask(
        world.admin, "PATCH", f"/api/v1{world.path}/{made['id']}", json={"enabled": True}
    )
    assert answer.json()["enabled"]
    await world.api.post(world.admin, f"{world.path}/{made['id']}/test", {})
    await until_received(world.receiver, 2)


PRIVATE = (
    "http://example.com/hook",
    "https://127.0.0.1/",
    "https://localhost/",
    "https://[::1]/",
    "https://10.0.0.1/",
    "https://192.168.1.1/",
    "https://172.16.0.1/",
    "https://169.254.169.254/latest/meta-data/",
    "https://100.64.0.1/",
    "https://0.0.0.0/",
    "https://2130706433/",
    "https://0x7f000001/",
    "https://0177.0.0.1/",
    "https://127.1/",
    "https://[::ffff:127.0.0.1]/",
    "https://[::ffff:10.0.0.1]/",
    "https://[fd00::1]/",
    "https://[fe80::1]/",
    "https://[64:ff9b::7f00:1]/",
    "https://metadata.google.internal/",
    "https://host.local/",
    "https://user:password@example.com/",
    "https://example.com@127.0.0.1/",
    "https://example.com\\@127.0.0.1/",
    "ftp://example.com/",
    "file:///etc/passwd",
    "//example.com/",
    "https://",
    "https://exam ple.com/",
    "https://example.com:99999/",
)


async def test_private_addresses_are_refused(world: World) -> None:
    for url in PRIVATE:
        answer = await world.api.post(world.admin, world.path, {"url": url})
        assert_problem(answer, 422, "webhook_address_not_allowed")
    print(f"\n{len(PRIVATE)} addresses, 0 taken")


async def test_a_name_that_turns_private_is_not_connected_to(world: World) -> None:
    """A row as it would be if the name had been public when it was made."""
    made = await world.webhook("webhook.test")
    outside = free_port()
    await world.api.execute(
        "UPDATE webhooks SET url = :url WHERE id = :id", url=f"https://127.0.0.1:{outside}/", id=made["id"]
    )
    reached = asyncio.Event()
    server = await asyncio.start_server(
        lambda _, writer: (reached.set(), writer.close()), "127.0.0.1", outside
    )
    async with server:
        await world.api.post(world.admin, f"{world.path}/{made['id']}/test", {})

        async def failed() -> bool:
            (one,) = await world.deliveries(made["id"])
            return "private address" in (one["error"] or "")

        await until(failed, "the delivery fails")
    assert not reached.is_set()


async def test_switched_off_by_an_admin(world: World) -> None:
    made = await world.webhook("*")
    path = f"/api/v1{world.path}/{made['id']}"
    assert not (await world.api.ask(world.admin, "PATCH", path, json={"enabled": False})).json()["enabled"]
    await world.api.post(world.admin, f"/projects/{world.project_id}/containers", container_body("chat"))
    assert await world.deliveries(made["id"]) == [] or all(
        one["next_try_at"] is None for one in await world.deliveries(made["id"])
    )
    assert (await world.api.ask(world.admin, "DELETE", path)).status_code == 204
    assert (await world.api.get(world.admin, world.path)).json()["items"] == []


async def sent_and_unanswered(world: World) -> str:
    made = await world.webhook("webhook.test")
    world.receiver.may_answer.clear()
    await world.api.post(world.admin, f"{world.path}/{made['id']}/test", {})
    await until_received(world.receiver, 1)
    return str(made["id"])


async def test_switched_off_while_a_message_is_under_way(world: World) -> None:
    world.receiver.answers = [500]
    webhook_id = await sent_and_unanswered(world)
    path = f"/api/v1{world.path}/{webhook_id}"
    assert (await world.api.ask(world.admin, "PATCH", path, json={"enabled": False})).status_code == 200
    world.receiver.may_answer.set()

    async def tried() -> bool:
        (one,) = await world.deliveries(webhook_id)
        return bool(one["tries"])

    await until(tried, "the answer is recorded")
    (one,) = await world.deliveries(webhook_id)
    assert (one["status"], one["next_try_at"]) == (500, None), "what is switched off is sent nothing more"


async def test_what_the_old_address_says_does_not_switch_off_the_new_one(world: World) -> None:
    world.receiver.answers = [410]
    webhook_id = await sent_and_unanswered(world)
    path, url = f"/api/v1{world.path}/{webhook_id}", world.receiver.url + "/moved"
    assert (await world.api.ask(world.admin, "PATCH", path, json={"url": url})).status_code == 200
    world.receiver.may_answer.set()

    async def tried() -> bool:
        (one,) = await world.deliveries(webhook_id)
        return bool(one["tries"])

    await until(tried, "the answer is recorded")
    assert (await world.api.get(world.admin, world.path)).json()["items"][0]["enabled"]
    await world.hurry()
    await until_received(world.receiver, 2)


@pytest.mark.parametrize("events", [[], ["container"], ["container.state; DROP"], ["%"], ["*.*"]])
async def test_bad_events(world: World, events: list[str]) -> None:
    answer = await world.api.post(world.admin, world.path, {"url": world.receiver.url, "events": events})
    assert_problem(answer, 422)


async def test_money(world: World) -> None:
    """What came or went is an event with what it did to the credit; an hour that was bought is not."""
    webhook = await world.webhook("billing.booked")
    given = {"organization_id": world.organization_id, "amount_microusd": 5_000_000, "reason": "an outage"}
    answer = await world.api.post(world.api.operator, "/operator/credits", given)
    assert answer.status_code == 201, answer.text
    hour = {"container_id": "ctr_one", "project_id": world.project_id, "instance_type": "cpu-nano", "slot": 0}
    await world.api.book(world.organization_id, "usage", 5_000, datetime.now(UTC), **hour)

    async def received() -> bool:
        return bool(world.receiver.received)

    await until(received, "the event arrives")
    (delivery,) = await world.deliveries(webhook["id"])
    data = delivery["payload"]["data"]
    assert (delivery["event"], data["kind"], data["amount_microusd"]) == (
        "billing.booked",
        "credit",
        5_000_000,
    )
    assert (data["id"], data["details"]["reason"]) == (answer.json()["id"], "an outage")


async def test_tests_that_wait_are_few(world: World) -> None:
    webhook_id = await sent_and_unanswered(world)
    path = f"{world.path}/{webhook_id}/test"
    statuses = [(await world.api.post(world.admin, path, {})).status_code for _ in range(20)]
    assert statuses == [202] * 9 + [429] * 11
    assert_problem(await world.api.post(world.admin, path, {}), 429, "too_many_tests")
    assert len(await world.deliveries(webhook_id)) == 10
    world.receiver.may_answer.set()
    await until_received(world.receiver, 10)


MANY_DELIVERIES = """
    INSERT INTO webhook_deliveries (id, webhook_id, event, payload, next_try_at, created_at)
    SELECT 'msg_' || i, :webhook, 'container.state', '{}', :next_try_at, now() - i * interval '1 second'
    FROM generate_series(1, :count) i
"""


async def test_a_receiver_that_is_too_slow_is_switched_off(world: World) -> None:
    webhook_id = await sent_and_unanswered(world)
    later = datetime.now(UTC) + timedelta(hours=1)
    await world.api.execute(MANY_DELIVERIES, webhook=webhook_id, next_try_at=later, count=MOST_WAITING + 1)
    world.receiver.may_answer.set()

    async def disabled() -> bool:
        (one,) = (await world.api.get(world.admin, world.path)).json()["items"]
        return not one["enabled"] and "5000 messages wait" in one["disabled_reason"]

    await until(disabled, "the webhook is switched off")
    assert await world.api.rows("SELECT 1 FROM webhook_deliveries WHERE next_try_at IS NOT NULL") == []


async def test_of_what_was_delivered_the_newest_are_kept(world: World) -> None:
    webhook_id = (await world.webhook("webhook.test"))["id"]
    await world.api.execute(MANY_DELIVERIES, webhook=webhook_id, next_try_at=None, count=MOST_KEPT + 5)
    async with world.api.database.transaction() as session:
        await purge_deliveries(session)
    (kept,) = await world.api.rows(
        "SELECT count(*), max(substr(id, 5)::int) FROM webhook_deliveries WHERE webhook_id = :id",
        id=webhook_id,
    )
    assert tuple(kept) == (MOST_KEPT, MOST_KEPT)


async def silent_webhooks(world: World, asker: Asker, organization_id: str, count: int) -> list[str]:
    """With a message each, to a receiver that takes it and says nothing."""
    path, made = f"/organizations/{organization_id}/webhooks", []
    for _ in range(count):
        answer = await world.api.post(asker, path, {"url": world.receiver.url, "events": ["webhook.test"]})
        assert answer.status_code == 201, answer.text
        made.append(answer.json()["id"])
        answer = await world.api.post(asker, f"{path}/{made[-1]}/test", {})
        assert answer.status_code == 202, answer.text
    return made


@pytest.mark.long
async def test_silent_receivers_of_one_person_leave_places_to_others(
    world: World, receiver: Receiver
) -> None:
    """Forty of them, in three organizations: more than are sent to at once."""
    user_id, token = await world.api.new_person("eve@example.com")
    eve = bearer("eve", token)
    world.receiver.may_answer.clear()
    for name, count in (("one", 20), ("two", 10), ("three", 10)):
        await silent_webhooks(world, eve, await world.api.new_organization(name, {user_id: "admin"}), count)
    await until_received(world.receiver, SHARE)
    (mine,) = await silent_webhooks(world, world.admin, world.organization_id, 1)

    def organizations() -> list[str]:
        return [json.loads(body)["organization_id"] for _, body in world.receiver.received]

    async def told() -> bool:
        return world.organization_id in organizations()

    await until(told, f"a message to {mine} while {len(world.receiver.received)} receivers are silent")
    assert len(organizations()) == SHARE + 1, "no more than a share of the one, and the other's"
    world.receiver.may_answer.set()
    await until_received(world.receiver, 41)


async def test_shares_are_of_an_organization_too(world: World) -> None:
    world.receiver.may_answer.clear()
    for number in range(3):
        user_id, token = await world.api.new_person(f"admin-{number}@example.com")
        await world.api.join(world.organization_id, user_id, "admin")
        await silent_webhooks(world, bearer("another", token), world.organization_id, 3)
    await until_received(world.receiver, SHARE)
    async with world.api.database.reading() as session:
        keys, _ = await due_webhooks(session, 100, SHARE, [])
    assert len(keys) == SHARE
    world.receiver.may_answer.set()
    await until_received(world.receiver, 9)
