"""Money on Docker: what is charged, what is not, and what happens when the credit ends."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from moorage.kit.database import Database
from moorage.kit.postgres import EmbeddedPostgres
from moorage.kit.settings import Settings
from moorage.ledger.accounts import CARD, Kind, credit_of
from moorage.ledger.repository import Posting, balance_of, post
from tests.acceptance.conftest import run_stack
from tests.acceptance.stack import Person, Stack, until

PRICE = 5_000
"""Of an hour of cpu-nano."""
EVENTS = 12
"""Of a stream of three seconds."""


@pytest.fixture
def stack_of_short_hours(docker_host: str) -> Iterator[Stack]:
    yield from run_stack(docker_host, "25000-25999", MOORAGE_BILLING_HOUR_S="24", MOORAGE_DRAIN_TIMEOUT_S="8")


def organization_of(person: Person) -> str:
    return str(person.api.get(f"/projects/{person.project_id}").json()["organization_id"])


def billing(person: Person) -> dict[str, Any]:
    found: dict[str, Any] = person.api.get(f"/organizations/{organization_of(person)}/billing").json()
    return found


def hours_bought(person: Person) -> int:
    used = person.api.get(f"/organizations/{organization_of(person)}/billing/usage").json()
    assert used["total_microusd"] == sum(one["hours"] for one in used["items"]) * PRICE
    return sum(one["hours"] for one in used["items"])


@pytest.mark.long
def test_what_is_charged(stack: Stack) -> None:
    person = stack.sign_up("payer@example.com")
    failing = person.deploy("failing", env={"CHAT_EXIT_AFTER_S": "0"}, start_command="/no/such/program")
    failing.until_state("FAILED")
    until(lambda: billing(person)["held_microusd"] == 0, "what was held is given back")
    assert (billing(person)["balance_microusd"], hours_bought(person)) == (20_000_000, 0)

    resources = {"mode": "autoscaling", "instance_type": "cpu-nano", "min_replicas": 1, "max_replicas": 3}
    chat = person.deploy("paid", resources=resources)
    chat.until_state("RUNNING")
    assert hours_bought(person) == 1
    chat.do("restart")
    until(lambda: chat.read()["generation"] == 2, "the restart is under way")
    until(lambda: _serving_generations(person, chat.id) == [2], "the new replica took over", timeout_s=90)
    assert hours_bought(person) == 1, "a restart within the hour is free"
    scaled = person.api.post(f"/containers/{chat.id}/scale", json={"min_replicas": 3, "max_replicas": 3})
    assert scaled.status_code == 202, scaled.text
    until(lambda: chat.read()["replicas"]["ready"] == 3, "three replicas serve", timeout_s=120)
    assert hours_bought(person) == 3, "two more hours: the first is still paid"
    found = billing(person)
    assert (found["balance_microusd"], found["held_microusd"]) == (20_000_000 - 3 * PRICE, 0)
    assert found["burn_per_hour_microusd"] == 3 * PRICE
    chat.delete()


@pytest.mark.long
async def test_credit_that_runs_out(stack_of_short_hours: Stack) -> None:
    stack = stack_of_short_hours
    person = stack.sign_up("poor@example.com")
    key = person.key()
    await leave_credit(stack, organization_of(person), 2 * PRICE)
    chat = person.deploy("last hours")
    chat.until_state("RUNNING")
    with ThreadPoolExecutor(1) as client:
        streams = client.submit(streams_until_refused, f"{chat.url}/sse?n={EVENTS}&delay_ms=250", key)
        stopped = chat.until_state("STOPPED", timeout_s=150)
        ends = streams.result(timeout=60)
    assert stopped["reason"] == "stopped_no_credit"
    assert len(ends) >= 3
    assert set(ends) == {EVENTS}, "whatever had begun was finished before the replica went"
    assert hours_bought(person) == 2
    assert billing(person)["balance_microusd"] == 0
    assert person.api.get(f"/containers/{chat.id}/replicas").json()["items"][0]["state"] not in (
        "ready",
        "routed",
    )
    with stack.operator() as operator:
        mails = operator.get("/operator/outbox").json()["items"]
    assert any(one["to"] == "poor@example.com" and "credit has run out" in one["subject"] for one in mails)
    refused = person.api.post(f"/containers/{chat.id}/start")
    assert (refused.status_code, refused.json()["code"]) == (402, "insufficient_credit")


def streams_until_refused(url: str, key: str) -> list[int]:
    """One after the other, so that one is under way when the replica goes. How many events each had."""
    ends = []
    while True:
        answer = httpx.get(url, headers={"Authorization": f"Bearer {key}"}, timeout=30)
        if answer.status_code != 200:
            return ends
        ends.append(answer.text.count("\n\n"))


def _serving_generations(person: Person, container_id: str) -> list[int]:
    rows = person.api.get(f"/containers/{container_id}/replicas").json()["items"]
    return [row["generation"] for row in rows if row["state"] in ("ready", "routed", "draining")]


async def leave_credit(stack: Stack, organization_id: str, microusd: int) -> None:
    """The rest goes back to the card."""
    database = Database(EmbeddedPostgres(Settings(home=stack.home)).dsn)
    async with database.transaction() as session:
        available = (await balance_of(session, organization_id)).available_microusd
        source = credit_of(organization_id)
        amount = available - microusd
        await post(session, Posting("refund:test", Kind.REFUND, organization_id, source, CARD, amount))
    await database.close()
