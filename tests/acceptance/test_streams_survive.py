"""Streams whose replica goes while they last: a stop, a restart and a scale-down let them end."""

import asyncio
import contextlib
import json
import re
import time
from dataclasses import dataclass, field

import aiohttp
import pytest

from moorage.kit.settings import Settings
from tests.acceptance.stack import Deployed, Person, until

EVENTS_PER_S = 10
DRAIN_LIMIT_S = Settings.model_fields["drain_timeout_s"].default
GRACE_S = Settings.model_fields["stop_grace_s"].default
"""Between the drain limit, when a replica is asked to end, and its death."""
TWO = {"mode": "autoscaling", "instance_type": "cpu-nano", "min_replicas": 2, "max_replicas": 2}


@dataclass
class Stream:
    seconds: int
    received: bytes = b""
    half_way: asyncio.Event = field(default_factory=asyncio.Event)
    ended_at_s: float = 0.0

    @property
    def events(self) -> int:
        return self.seconds * EVENTS_PER_S + 1

    async def read(self, chat: Deployed, key: str) -> None:
        """Until it ends or breaks."""
        url = f"{chat.url}/sse?n={self.events}&delay_ms={1000 // EVENTS_PER_S}"
        timeout = aiohttp.ClientTimeout(total=150)
        async with aiohttp.ClientSession(timeout=timeout) as client:
            with contextlib.suppress(aiohttp.ClientError):
                async with client.get(url, headers={"Authorization": f"Bearer {key}"}) as response:
                    assert response.status == 200
                    async for piece in response.content.iter_any():
                        self.received += piece
                        if self.received.count(b"\n\n") >= self.events / 2:
                            self.half_way.set()
        self.ended_at_s = time.monotonic()

    def is_whole(self) -> bool:
        """Byte for byte what the container sends, but for its clock."""
        masked = re.sub(rb'"monotonic_ns": \d+', b'"monotonic_ns": 0', self.received)
        events = (json.dumps({"n": n, "monotonic_ns": 0}) for n in range(1, self.events + 1))
        return masked == "".join(f"id: {n}\ndata: {text}\n\n" for n, text in enumerate(events, 1)).encode()


async def halfway(chat: Deployed, key: str, streams: list[Stream], action: str) -> float:
    """Read them all, do something to their container when each is half-way, and answer when that was."""
    longest = max(stream.seconds for stream in streams)

    async def so_that_all_are_half_way_together(stream: Stream) -> None:
        await asyncio.sleep((longest - stream.seconds) / 2)
        await stream.read(chat, key)

    async with asyncio.TaskGroup() as group:
        for stream in streams:
            group.create_task(so_that_all_are_half_way_together(stream))
        for stream in streams:
            await stream.half_way.wait()
        acted_at_s = time.monotonic()
        await asyncio.to_thread(act, chat, action)
    return acted_at_s


def act(chat: Deployed, action: str) -> None:
    if action == "scale down":
        one = {"min_replicas": 1, "max_replicas": 1}
        assert chat.owner.api.post(f"/containers/{chat.id}/scale", json=one).is_success
    else:
        chat.do(action)


@pytest.mark.proof
async def test_streams_end_well_when_their_replica_goes(person: Person) -> None:
    key = person.key()
    chats = {
        "stop": person.deploy("stops"),
        "restart": person.deploy("restarts"),
        "scale down": person.deploy("shrinks", resources=TWO),
    }
    for chat in chats.values():
        await asyncio.to_thread(chat.until_state, "RUNNING", timeout_s=120)
        await asyncio.to_thread(chat.until_answered, key)
    shrinks = chats["scale down"]
    both = lambda: shrinks.read()["replicas"]["ready"] == 2  # noqa: E731
    await asyncio.to_thread(until, both, "two replicas are ready", 120)

    # The least busy replica gets the next stream, so of two equal ones each replica has one.
    streams = {name: [Stream(seconds) for seconds in (12, 12, 35, 35)] for name in chats}
    too_long = Stream(4 * DRAIN_LIMIT_S)

    async def cut(chat: Deployed) -> float:
        reading = asyncio.create_task(too_long.read(chat, key))
        stopped_at_s = await halfway(chat, key, streams["stop"], "stop")
        await reading
        return stopped_at_s

    stopped_at_s, *_ = await asyncio.gather(
        cut(chats["stop"]),
        *(halfway(chats[name], key, streams[name], name) for name in ("restart", "scale down")),
    )
    ends = {name: [stream.is_whole() for stream in found] for name, found in streams.items()}
    forced_after_s = too_long.ended_at_s - stopped_at_s
    print(
        f"\nstreams of 12 and 35 s, half-way at stop, restart and scale-down: "
        f"{sum(sum(found) for found in ends.values())} of {sum(map(len, ends.values()))} byte-exact; one of "
        f"{too_long.seconds} s was cut {forced_after_s:.1f} s after the stop (drain limit {DRAIN_LIMIT_S} s, then {GRACE_S} s "
        "for the process to end)"
    )
    assert ends == {name: [True] * 4 for name in chats}
    assert not too_long.is_whole()
    assert too_long.received
    assert DRAIN_LIMIT_S <= forced_after_s <= DRAIN_LIMIT_S + GRACE_S + 20
    for chat in chats.values():
        chat.delete()
