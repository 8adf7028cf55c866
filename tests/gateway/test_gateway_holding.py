"""What is asked of a container that sleeps is held, wakes it once, and is answered: by it, or with why not."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest
from gateway_support import Container, eventually
from holding_support import HEADERS, LIMITS, HoldingGateway, Sleeper, holding_gateway, new_sleeper
from sqlalchemy import select

from moorage.kit.database import Database
from moorage.telemetry.requests.held_models import HeldRequestRow

SOON = replace(LIMITS, per_container=60, comment_after_s=0.5, body_bytes=2**20)


@pytest.fixture
async def sleeper(database: Database) -> Sleeper:
    return await new_sleeper(database)


@pytest.fixture
async def holding(sleeper: Sleeper, database: Database, short_folder: Path) -> AsyncIterator[HoldingGateway]:
    os.mkdir(short_folder / "a", 0o755)
    async with holding_gateway(short_folder / "a", database, SOON) as gateway:
        yield gateway


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=60)) as session:
        yield session


async def test_a_hundred_at_two_gateways_are_one_wake_and_all_are_answered(
    sleeper: Sleeper,
    holding: HoldingGateway,
    database: Database,
    short_folder: Path,
    container: Container,
    client: aiohttp.ClientSession,
) -> None:
    container.release.set()
    os.mkdir(short_folder / "b", 0o755)
    async with holding_gateway(short_folder / "b", database, SOON) as other:
        both = (holding, other)
        asked = [
            asyncio.create_task(
                both[n % 2].ask(
                    client,
                    sleeper.container_id,
                    stream=n % 4 < 2,
                    path="/stream" if n % 4 < 2 else "/v1/chat/completions",
                )
            )
            for n in range(100)
        ]
        await eventually(lambda: holding.holder.places.count() + other.holder.places.count() == 100)
        places = (holding.holder.places, other.holder.places)
        assert sum(one.count_of(sleeper.organization_id) for one in places) == 100
        await eventually(lambda: holding.told_to_wait + other.told_to_wait == 50)
        await sleeper.serve(container)
        answers = await asyncio.gather(*asked)
        assert [answer.status for answer in answers] == [200] * 100
        assert not any(answer.broke for answer in answers)
        streams = [answer.body for answer in answers if "data: second" in answer.body]
        assert len(streams) == 50
        assert all(body.startswith(": waiting\n\n") for body in streams)
        assert len(container.seen) == 100
        # Who was told that plain events come could not read compressed ones.
        encodings = {seen.headers.get("Accept-Encoding") for seen in container.seen if seen.path == "/stream"}
        assert encodings == {"identity"}
        assert await sleeper.count("container.wake") == 1
        assert max(one.holder.places.most_seen for one in both) <= SOON.per_container
        assert sum(one.holder.places.count() + one.holder.places.bytes_held for one in both) == 0


@pytest.mark.long
async def test_what_the_container_sees_is_what_it_would_have_seen_awake(
    sleeper: Sleeper, holding: HoldingGateway, container: Container, client: aiohttp.ClientSession
) -> None:
    """A body too large to be kept waits at its client; a WebSocket is one; our headers stay ours."""
    large = os.urandom(8 * 2**20)
    url = holding.url(sleeper.container_id, "/socket").replace("http", "ws", 1)
    own = {"X-Moorage-Container": "ctr_" + "a" * 20, "Cookie": "a=b"}
    asking = asyncio.create_task(
        holding.ask(client, sleeper.container_id, json=None, data=large, headers=_with_key(own))
    )

    async def talk() -> str:
        async with client.ws_connect(url, headers=_with_key({})) as connection:
            await connection.send_str("hello")
            return str((await connection.receive()).data)

    talking = asyncio.create_task(talk())
    await eventually(lambda: holding.holder.places.count() == 2)
    await eventually(lambda: holding.holder.places.bytes_held >= SOON.body_bytes)
    assert holding.holder.places.bytes_held <= SOON.body_bytes + 2**16
    await eventually(sleeper.is_woken)
    await sleeper.serve(container)
    answer = await asking
    assert answer.status == 200
    assert container.bodies == [large]
    seen = {name.lower(): value for name, value in json.loads(answer.body)["headers"].items()}
    assert json.loads(answer.body)["path"] == "/v1/chat/completions"
    assert seen["x-request-id"] == answer.headers["X-Request-ID"]
    assert not [name for name in seen if name.startswith("x-moorage") or name in ("cookie", "authorization")]
    assert not [name for name in answer.headers if name.lower().startswith("x-moorage")]
    assert await talking == "echo hello"


@pytest.mark.long
async def test_more_than_may_be_held_is_refused_and_a_place_is_free_when_its_client_leaves(
    sleeper: Sleeper, holding: HoldingGateway, container: Container, client: aiohttp.ClientSession
) -> None:
    asked = [asyncio.create_task(holding.ask(client, sleeper.container_id)) for _ in range(80)]
    await eventually(lambda: sum(one.done() for one in asked) == 20)
    refused = [one.result() for one in asked if one.done()]
    assert {answer.status for answer in refused} == {503}
    assert {json.loads(answer.body)["error"]["code"] for answer in refused} == {"hold_full"}
    assert holding.holder.places.most_seen == holding.holder.places.count() == 60
    waiting = [one for one in asked if not one.done()]
    for one in waiting[:30]:
        one.cancel()
    await eventually(lambda: holding.holder.places.count() == 30)
    await sleeper.serve(container)
    answers = await asyncio.gather(*waiting[30:])
    assert {answer.status for answer in answers} == {200}


async def test_the_container_hears_that_a_client_left_before_its_answer_began(
    sleeper: Sleeper, holding: HoldingGateway, container: Container, client: aiohttp.ClientSession
) -> None:
    asking = asyncio.create_task(holding.ask(client, sleeper.container_id, path="/hold"))
    await eventually(lambda: holding.holder.places.count() == 1)
    await sleeper.serve(container)
    await eventually(lambda: container.waiting == 1)
    asking.cancel()
    await eventually(lambda: container.left.is_set() and container.waiting == 0)


async def test_a_client_that_left_is_seen_behind_what_may_not_be_read_of_it(
    sleeper: Sleeper, database: Database, short_folder: Path, client: aiohttp.ClientSession
) -> None:
    """The rest of a body, and whatever a WebSocket says, are their container's."""
    os.mkdir(short_folder / "d", 0o755)
    limits = replace(SOON, body_bytes=2**14)
    async with holding_gateway(short_folder / "d", database, limits) as holding:
        url = holding.url(sleeper.container_id, "/socket").replace("http", "ws", 1)

        async def talk() -> None:
            async with client.ws_connect(url, headers=_with_key({})):
                pass

        too_long = holding.ask(client, sleeper.container_id, json=None, data=b"x" * 2**16)
        leaving = [asyncio.create_task(too_long), asyncio.create_task(talk())]
        await eventually(lambda: holding.holder.places.count() == 2)
        await eventually(lambda: holding.holder.places.bytes_held == limits.body_bytes)
        for one in leaving:
            one.cancel()
        await eventually(lambda: holding.holder.places.count() == 0)


async def test_a_body_with_pictures_is_kept_and_its_client_seen_to_leave(
    sleeper: Sleeper, database: Database, short_folder: Path, client: aiohttp.ClientSession
) -> None:
    os.mkdir(short_folder / "e", 0o755)
    async with holding_gateway(short_folder / "e", database, LIMITS) as holding:
        pictures = b"x" * 3 * 2**20
        asking = asyncio.create_task(holding.ask(client, sleeper.container_id, json=None, data=pictures))
        await eventually(lambda: holding.holder.places.bytes_held == len(pictures))
        asking.cancel()
        await eventually(lambda: holding.holder.places.count() == 0)


async def test_a_body_is_counted_until_its_container_answers(
    sleeper: Sleeper, holding: HoldingGateway, container: Container, client: aiohttp.ClientSession
) -> None:
    places = holding.holder.places
    plain, stream = (
        asyncio.create_task(holding.ask(client, sleeper.container_id, path=path, json=None, data=b"x" * 100))
        for path in ("/hold", "/stream")
    )
    await eventually(lambda: places.count() == 2 and places.bytes_held == 200)
    await sleeper.serve(container)
    await eventually(lambda: container.waiting == 2 and places.count() == 0)
    # The stream's answer has begun, the other's has not.
    await eventually(lambda: places.bytes_held == 100)
    container.release.set()
    assert [(await one).status for one in (plain, stream)] == [200, 200]
    assert places.bytes_held == 0


async def test_a_wake_that_fails_answers_each_with_the_verdict(
    sleeper: Sleeper, holding: HoldingGateway, client: aiohttp.ClientSession
) -> None:
    plain = [asyncio.create_task(holding.ask(client, sleeper.container_id)) for _ in range(5)]
    streams = [asyncio.create_task(holding.ask(client, sleeper.container_id, stream=True)) for _ in range(5)]
    await eventually(sleeper.is_woken)
    await eventually(lambda: holding.holder.places.count() == 10 and holding.told_to_wait == 5)
    await sleeper.put(woken_at=None, state="FAILED", reason="exited", message="It ended with exit code 3.")
    for answer in await asyncio.gather(*plain):
        error = json.loads(answer.body)["error"]
        assert (answer.status, error["code"]) == (503, "exited")
        assert "exit code 3" in error["message"]
        assert error["request_id"] == answer.headers["X-Request-ID"]
    for answer in await asyncio.gather(*streams):
        assert answer.status == 200
        assert not answer.broke
        comment, name, data = answer.body.strip().split("\n\n")[-1].partition("event: error\n")
        assert (comment, name) == ("", "event: error\n")
        assert json.loads(data.removeprefix("data: "))["error"]["code"] == "exited"


@pytest.mark.long
async def test_without_credit_nothing_wakes_and_each_is_told(
    sleeper: Sleeper, holding: HoldingGateway, client: aiohttp.ClientSession
) -> None:
    await sleeper.spend_all()
    answer = await holding.ask(client, sleeper.container_id, stream=True)
    assert (answer.status, json.loads(answer.body)["error"]["code"]) == (402, "insufficient_credit")
    row = await sleeper.row()
    assert row.asleep_since is not None
    assert row.woken_at is None
    assert await sleeper.count("container.wake") == 0


@pytest.mark.long
async def test_wrong_keys_wake_nothing(
    sleeper: Sleeper, holding: HoldingGateway, client: aiohttp.ClientSession
) -> None:
    url = holding.url(sleeper.container_id)
    for number in range(1000):
        headers = {"Authorization": f"Bearer moor_{number:028}"} if number % 3 else {}
        async with client.post(url, json={"stream": True}, headers=headers) as response:
            assert response.status == 401
    assert holding.holder.places.most_seen == 0
    row = await sleeper.row()
    assert row.asleep_since is not None
    assert row.woken_at is None


@pytest.mark.long
async def test_what_is_held_when_its_process_dies_is_refused_and_the_next_one_holds_again(
    sleeper: Sleeper,
    holding: HoldingGateway,
    database: Database,
    container: Container,
    client: aiohttp.ClientSession,
) -> None:
    asked = [asyncio.create_task(holding.ask(client, sleeper.container_id)) for _ in range(10)]
    begun = [asyncio.create_task(holding.ask(client, sleeper.container_id, stream=True)) for _ in range(5)]
    await eventually(lambda: holding.holder.places.count() == 15 and holding.told_to_wait == 5)
    await holding.die()
    async with asyncio.timeout(10):
        for answer in await asyncio.gather(*asked):
            assert (answer.status, json.loads(answer.body)["error"]["code"]) == (502, "wake_interrupted")
        assert all(answer.broke for answer in await asyncio.gather(*begun))
        answer = await holding.ask(client, sleeper.container_id)
    assert (answer.status, json.loads(answer.body)["error"]["code"]) == (503, "container_asleep")
    assert answer.headers["Retry-After"] == "5"


@pytest.mark.long
async def test_what_waits_too_long_is_refused_in_time(
    sleeper: Sleeper, database: Database, short_folder: Path, client: aiohttp.ClientSession
) -> None:
    """Nobody starts anything: the controller is away."""
    os.mkdir(short_folder / "c", 0o755)
    limits = replace(SOON, timeout_s=1.2)
    async with holding_gateway(short_folder / "c", database, limits) as holding, asyncio.timeout(10):
        plain, stream = await asyncio.gather(
            holding.ask(client, sleeper.container_id), holding.ask(client, sleeper.container_id, stream=True)
        )
        assert (plain.status, json.loads(plain.body)["error"]["code"]) == (503, "wake_timeout")
        assert stream.status == 200
        assert "event: error" in stream.body
        assert "wake_timeout" in stream.body

        async def is_recorded() -> bool:
            async with database.reading() as session:
                rows = (await session.execute(select(HeldRequestRow))).scalars().all()
            return {row.code for row in rows} == {"wake_timeout"} and len(rows) == 2

        await eventually(is_recorded)


@pytest.mark.long
async def test_what_falls_asleep_under_requests_loses_none(
    sleeper: Sleeper, holding: HoldingGateway, container: Container, client: aiohttp.ClientSession
) -> None:
    """Gateways stop sending first. What runs ends; what comes is held, wakes it, and meets the replica that never went."""
    await sleeper.put(asleep_since=None)
    await sleeper.serve(container)

    async def serves() -> bool:
        return (await holding.ask(client, sleeper.container_id)).status == 200

    await eventually(serves)
    long = asyncio.create_task(holding.ask(client, sleeper.container_id, path="/hold"))
    await eventually(lambda: container.waiting == 1)
    failed: list[str] = []
    stop = asyncio.Event()

    async def keep_asking() -> None:
        while not stop.is_set():
            answer = await holding.ask(client, sleeper.container_id)
            failed.extend([answer.body] if answer.status != 200 else [])

    asking = [asyncio.create_task(keep_asking()) for _ in range(4)]
    for _ in range(5):
        await sleeper.put(asleep_since=(await sleeper.row()).state_since)
        await eventually(sleeper.is_woken)
        await sleeper.put(woken_at=None)
    stop.set()
    await asyncio.gather(*asking)
    container.release.set()
    assert (await long).status == 200
    assert failed == []
    assert holding.holder.places.most_seen > 0


def _with_key(headers: dict[str, str]) -> dict[str, str]:
    return HEADERS | headers
