"""A container that sleeps on a real engine, a hundred requests that wake it, and kill -9 of everything that could lose them.
`make prove-sleep` prints the figures."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import aiohttp
import httpx
import pytest

from tests.acceptance.conftest import run_stack
from tests.acceptance.stack import Deployed, Person, Stack, until

IDLE_S = 10
LOADS_S = 12
"""Longer than a stream waits for its first comment."""
REQUESTS = 100
HOLD_S = 60


@pytest.fixture(scope="module")
def sleepy_stack(docker_host: str) -> Iterator[Stack]:
    yield from run_stack(docker_host, "27000-28999", MOORAGE_HOLD_TIMEOUT_S=str(HOLD_S))


@pytest.fixture(scope="module")
def owner(sleepy_stack: Stack) -> Person:
    return sleepy_stack.sign_up("ann@example.com")


@dataclass
class Seen:
    status: int | None
    """None: the connection broke before the answer's head."""
    text: str
    took_s: float
    whole: bool

    @property
    def outcome(self) -> str:
        if self.status is None or not self.whole:
            return "broken"
        if "event: error" in self.text:
            return "error event"
        return str(self.status)


async def crowd(chat: Deployed, key: str, meanwhile: Callable[[], None] | None = None) -> list[Seen]:
    """All at once, every other one a stream."""
    timeout = aiohttp.ClientTimeout(total=HOLD_S + 60)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as client:
        asking = [asyncio.create_task(ask(client, chat, key, stream=n % 2 == 0)) for n in range(REQUESTS)]
        if meanwhile is not None:
            await asyncio.sleep(3)
            await asyncio.to_thread(meanwhile)
        return await asyncio.gather(*asking)


async def with_wrong_keys(chat: Deployed, times: int) -> Counter[int]:
    statuses: Counter[int] = Counter()
    async with aiohttp.ClientSession() as client:
        for number in range(times):
            headers = {"Authorization": f"Bearer moor_{number:028}"}
            async with client.post(f"{chat.url}/v1", headers=headers) as response:
                statuses[response.status] += 1
    return statuses


async def ask(client: aiohttp.ClientSession, chat: Deployed, key: str, *, stream: bool) -> Seen:
    body = {"model": "chat", "messages": [{"role": "user", "content": "Ahoy"}], "stream": stream}
    began_s, status, pieces = time.monotonic(), None, []
    whole = True
    try:
        async with client.post(
            f"{chat.url}/api/v1/chat/completions", json=body, headers={"Authorization": f"Bearer {key}"}
        ) as response:
            status = response.status
            async for piece in response.content.iter_any():
                pieces.append(piece)
    except aiohttp.ClientError:
        whole = False
    return Seen(status, b"".join(pieces).decode(), time.monotonic() - began_s, whole)


def deploy(owner: Person, name: str) -> tuple[Deployed, str]:
    chat = owner.deploy(name, sleep_after_s=IDLE_S, env={"CHAT_START_DELAY_S": str(LOADS_S)})
    chat.until_state("RUNNING")
    key = owner.key()
    return chat, key


def until_asleep(chat: Deployed) -> None:
    def asleep() -> bool:
        try:
            found = chat.read()
        except (AssertionError, httpx.HTTPError):
            return False
        return bool(found["asleep_since"]) and found["replicas"] == {"desired": 0, "ready": 0}

    until(asleep, f"{chat.id} sleeps", timeout_s=120)
    gone = lambda: not [one for one in replicas(chat) if one in ("routed", "ready", "draining")]  # noqa: E731
    until(gone, "its replicas are gone")


def replicas(chat: Deployed) -> list[str]:
    rows = chat.owner.api.get(f"/containers/{chat.id}/replicas").json()["items"]
    return [row["state"] for row in rows]


def wakes(chat: Deployed) -> int:
    items = chat.owner.api.get(f"/containers/{chat.id}/activity", params={"limit": 200}).json()["items"]
    return sum(one["kind"] == "container.wake" for one in items)


def told(name: str, seen: list[Seen]) -> None:
    longest = max(one.took_s for one in seen)
    print(f"\n{name}: {dict(Counter(one.outcome for one in seen))}, the slowest took {longest:.1f} s")


@pytest.mark.proof
async def test_a_hundred_requests_are_one_wake_and_none_is_lost(owner: Person) -> None:
    chat, key = deploy(owner, "sleepy")
    until_asleep(chat)
    assert await with_wrong_keys(chat, 1000) == {401: 1000}
    found = chat.read()
    assert (found["state"], found["asleep"], found["woken_at"]) == ("RUNNING", True, None)
    seen = await crowd(chat, key)
    told("one wake", seen)
    assert Counter(one.outcome for one in seen) == {"200": REQUESTS}
    streams = [one for one in seen if ": waiting" in one.text]
    assert len(streams) == REQUESTS // 2
    assert all("[DONE]" in one.text for one in streams)
    assert wakes(chat) == 1
    assert replicas(chat).count("routed") == 1
    chat.delete()


@pytest.mark.proof
@pytest.mark.parametrize("victim", ["controller", "api", "postgres", "gateway", "haproxy"])
async def test_kill_while_they_wait(owner: Person, sleepy_stack: Stack, victim: str) -> None:
    """Answered, or refused in time. What our own process held is refused when that dies; what needs it not is answered."""
    chat, key = deploy(owner, f"kill {victim}")
    until_asleep(chat)
    seen = await crowd(chat, key, lambda: sleepy_stack.kill(victim) and None)
    told(f"kill -9 of {victim}", seen)
    assert max(one.took_s for one in seen) < HOLD_S + 10
    outcomes = Counter(one.outcome for one in seen)
    if victim in ("controller", "api", "postgres"):
        assert outcomes == {"200": REQUESTS}
    elif victim == "gateway":
        assert set(outcomes) <= {"200", "502", "503"}

    def serves() -> bool:
        try:
            return chat.ask(key).status_code == 200
        except httpx.HTTPError:
            return False

    until(serves, "it serves again")
    until(lambda: wakes(chat) == 1, "one wake")
    chat.delete()
