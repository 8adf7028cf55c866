"""Requests while the replicas that answer them go: removed one after another, and killed."""

import asyncio
from functools import partial

import aiodocker
import pytest

from moorage.engines.docker.create import name_of
from tests.acceptance.load import Seen, open_loop
from tests.acceptance.stack import Deployed, Person, Stack, until

THREE = {"mode": "autoscaling", "instance_type": "cpu-nano", "min_replicas": 3, "max_replicas": 3}
REQUESTS_PER_S = 120


async def until_ready(chat: Deployed, generation: int) -> None:
    what = f"three replicas of generation {generation} are routed"
    await asyncio.to_thread(until, lambda: len(routed(chat, generation)) == 3, what, 120, 0.2)


async def until_gone(chat: Deployed, generation: int, replica_id: str) -> None:
    await asyncio.to_thread(until, lambda: replica_id not in routed(chat, generation), "its death is noticed")


def routed(chat: Deployed, generation: int) -> list[str]:
    items = chat.owner.api.get(f"/containers/{chat.id}/replicas").json()["items"]
    return [one["id"] for one in items if one["state"] == "routed" and one["generation"] == generation]


@pytest.mark.proof
@pytest.mark.quiet
async def test_removing_replicas_drops_nothing(person: Person) -> None:
    chat = person.deploy("drops nothing", resources=THREE)
    await until_ready(chat, 1)
    key = person.key()
    chat.until_answered(key)
    generation = 1
    async with open_loop(chat, key, REQUESTS_PER_S) as seen:
        # Each restart takes the three replicas away, one after another.
        while generation < 3 or len(seen) < 4000:
            await asyncio.to_thread(chat.do, "restart")
            generation += 1
            await until_ready(chat, generation)
    print(f"{3 * (generation - 1)} replicas removed: {seen.outcomes['200']} of {len(seen)} requests well")
    assert dict(seen.outcomes) == {"200": len(seen)}
    chat.delete()


@pytest.mark.proof
@pytest.mark.quiet
async def test_killed_replicas_cost_less_than_one_request_in_a_hundred(person: Person, stack: Stack) -> None:
    chat = person.deploy("killed", resources=THREE)
    await until_ready(chat, 1)
    key = person.key()
    chat.until_answered(key)
    docker = aiodocker.Docker(stack.docker_host)
    kills = 0
    async with open_loop(chat, key, REQUESTS_PER_S) as seen:
        while kills < 4 or len(seen) < 4000:
            victim = await asyncio.to_thread(routed, chat, 1)
            await docker.containers.container(name_of(victim[0])).kill(signal="KILL")
            kills += 1
            await until_gone(chat, 1, victim[0])
            await until_ready(chat, 1)
            await asyncio.to_thread(until, partial(_reaches, seen, kills * 1000), "a thousand requests more")
    await docker.close()
    well = seen.outcomes["200"]
    print(f"{kills} replicas killed: {well} of {len(seen)} requests well ({well / len(seen):.2%})")
    assert well >= 0.99 * len(seen), seen.outcomes
    chat.delete()


def _reaches(seen: Seen, count: int) -> bool:
    return len(seen) >= count
