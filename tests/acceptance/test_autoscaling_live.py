"""A container that scales, live: real Docker, real HAProxy, load that does not wait for answers."""

import asyncio
import time
from collections import Counter
from datetime import datetime

import aiohttp
import pytest

from tests.acceptance.stack import Deployed, Person

DELAY_S = 10
ONE_SECOND = "/sse?n=5&delay_ms=250"
"""A request that a replica works on for a second."""


class Load:
    """Open loop: a request every so often, however long the answers take."""

    def __init__(self, chat: Deployed, key: str) -> None:
        self._url = f"{chat.url}{ONE_SECOND}"
        self._headers = {"Authorization": f"Bearer {key}"}
        self.answers: Counter[int | str] = Counter()

    async def run(self, per_second: int, stop: asyncio.Event) -> None:
        timeout = aiohttp.ClientTimeout(total=60)
        connector = aiohttp.TCPConnector(limit=0)
        async with (
            aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
            asyncio.TaskGroup() as group,
        ):
            while not stop.is_set():
                group.create_task(self._ask(session))
                await asyncio.sleep(1 / per_second)

    async def answered(self, count: int, within_s: float) -> None:
        deadline_s = time.monotonic() + within_s
        while True:
            if sum(self.answers.values()) >= count:
                return
            assert time.monotonic() < deadline_s, f"{self.answers} and not {count} answers"
            await asyncio.sleep(0.1)

    async def _ask(self, session: aiohttp.ClientSession) -> None:
        try:
            async with session.get(self._url, headers=self._headers) as response:
                text = await response.text()
                self.answers[
                    "cut" if response.status == 200 and text.count("data:") != 5 else response.status
                ] += 1
        except (aiohttp.ClientError, TimeoutError) as exc:
            self.answers[repr(exc)] += 1


async def until(chat: Deployed, desired: int, ready: int, within_s: float) -> float:
    began_at_s = time.monotonic()
    while True:
        replicas = (await asyncio.to_thread(chat.read))["replicas"]
        if (replicas["desired"], replicas["ready"]) == (desired, ready):
            return time.monotonic() - began_at_s
        waited_s = time.monotonic() - began_at_s
        assert waited_s < within_s, (
            f"{replicas} and not {desired} desired, {ready} ready after {waited_s:.0f} s"
        )
        await asyncio.sleep(0.1)


@pytest.mark.proof
async def test_up_under_load_and_back_without_a_failed_request(person: Person) -> None:
    resources = {
        "mode": "autoscaling",
        "instance_type": "cpu-nano",
        "min_replicas": 1,
        "max_replicas": 4,
        "scale_down_delay_s": DELAY_S,
    }
    chat = person.deploy("scales", resources=resources)
    chat.until_state("RUNNING")
    key = person.key()
    chat.until_answered(key)
    load, stop = Load(chat, key), asyncio.Event()
    began_at = time.time()
    overload = asyncio.create_task(load.run(12, stop))
    up_s = await until(chat, 4, 4, within_s=60)
    await load.answered(sum(load.answers.values()) + 60, within_s=60)
    stop.set()
    await overload
    heavy, stop = sum(load.answers.values()), asyncio.Event()
    light = asyncio.create_task(load.run(1, stop))
    down_s = await until(chat, 1, 1, within_s=90)
    stop.set()
    await light

    shown = chat.owner.api.get(f"/containers/{chat.id}/autoscaling").json()
    rises = [one for one in shown["items"] if one["replicas"] > one["replicas_before"]]
    asked_s = datetime.fromisoformat(rises[-1]["at"]).timestamp() - began_at
    print(
        f"\nsecond replica asked for {asked_s:.1f} s after the overload began; 4 ready after {up_s:.1f} s; "
        f"1 again {down_s:.1f} s after it ended (delay {DELAY_S} s); "
        f"{heavy} + {sum(load.answers.values()) - heavy} requests, answers {dict(load.answers)}"
    )
    assert load.answers.keys() == {200}
    assert asked_s <= 4
    assert down_s >= DELAY_S * 0.5
    assert all(one["reason"] for one in shown["items"])
    chat.delete()
