"""Requests while the replicas that answer them go: removed one after another, and killed."""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator

import aiodocker
import aiohttp

from tests.acceptance.stack import Deployed, Person, Stack, until

THREE = {"mode": "autoscaling", "instance_type": "cpu-nano", "min_replicas": 3, "max_replicas": 3}
REQUESTS_PER_S = 120


@contextlib.asynccontextmanager
async def open_loop(chat: Deployed, key: str) -> AsyncIterator[Counter[str]]:
    """So many requests a second, whether the answers come or not."""
    seen: Counter[str] = Counter()
    over = asyncio.Event()

    async def one(client: aiohttp.ClientSession) -> None:
        try:
            async with client.get(f"{chat.url}/whoami") as response:
                await response.read()
                seen[str(response.status)] += 1
        except (aiohttp.ClientError, TimeoutError) as exc:
            seen[type(exc).__name__] += 1

    async def send(client: aiohttp.ClientSession) -> None:
        started, sent = time.monotonic(), 0
        async with asyncio.TaskGroup() as group:
            while not over.is_set():
                due = int((time.monotonic() - started) * REQUESTS_PER_S)
                for _ in range(due - sent):
                    group.create_task(one(client))
                sent = max(sent, due)
                await asyncio.sleep(0.01)

    headers, timeout = {"Authorization": f"Bearer {key}"}, aiohttp.ClientTimeout(total=30)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(headers=headers, timeout=timeout, connector=connector) as client:
        sending = asyncio.create_task(send(client))
        try:
            yield seen
        finally:
            over.set()
            await sending


async def until_ready(chat: Deployed, generation: int) -> None:
    what = f"three replicas of generation {generation} are routed"
    await asyncio.to_thread(until, lambda: len(routed(chat, generation)) == 3, what, 120, 0.2)


async def until_gone(chat: Deployed, generation: int, replica_id: str) -> None:
    await asyncio.to_thread(until, lambda: replica_id not in routed(chat, generation), "its death is noticed")


def routed(chat: Deployed, generation: int) -> list[str]:
    items = chat.owner.api.get(f"/containers/{chat.id}/replicas").json()["items"]
    return [one["id"] for one in items if one["state"] == "routed" and one["generation"] == generation]


async def test_removing_replicas_drops_nothing(person: Person, stack: Stack) -> None:
    chat = person.deploy("drops nothing", resources=THREE)
    await until_ready(chat, 1)
    key = person.key()
    chat.until_answered(key)
    generation = 1
    async with open_loop(chat, key) as seen:
        # Each restart takes the three replicas away, one after another.
        while generation < 3 or seen.total() < 4000:
            await asyncio.to_thread(chat.do, "restart")
            generation += 1
            await until_ready(chat, generation)
    print(f"{3 * (generation - 1)} replicas removed: {seen['200']} of {seen.total()} requests well")
    assert dict(seen) == {"200": seen.total()}

    docker = aiodocker.Docker(stack.docker_host)
    async with open_loop(chat, key) as seen:
        for _ in range(3):
            # An engine's container has its replica's id for a name.
            victim = await asyncio.to_thread(routed, chat, generation)
            await docker.containers.container(victim[0]).kill(signal="KILL")
            await until_gone(chat, generation, victim[0])
            await until_ready(chat, generation)
        await asyncio.to_thread(until, lambda: seen.total() >= 1000, "a thousand requests")
    await docker.close()
    print(
        f"3 replicas killed: {seen['200']} of {seen.total()} requests well ({seen['200'] / seen.total():.2%})"
    )
    assert seen["200"] >= 0.99 * seen.total(), seen
    chat.delete()
