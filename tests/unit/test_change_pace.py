"""How long the next change waits after many were accepted: a little, never long, and only behind one's own."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from starlette.types import Message, Receive, Scope, Send

from moorage.entrypoints.change_pace import AT_ONCE, LONGEST_WAIT_S, PER_S, ChangePace
from moorage.entrypoints.shares import ShareMiddleware
from moorage.entrypoints.turns import Turns


class WaitingClock:
    """Time passes only where somebody waits for it."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.waits_s: list[float] = []

    def monotonic(self) -> float:
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        self.waits_s.append(seconds)
        self.now_s += seconds
        await asyncio.sleep(0)


def paced(accepted: int, clock: WaitingClock) -> ChangePace:
    pace = ChangePace(clock)  # type: ignore[arg-type]
    for _ in range(accepted):
        pace.accepted("one")
    return pace


@pytest.mark.parametrize(
    ("accepted", "wait_s"),
    [(0, 0.0), (AT_ONCE, 0.0), (AT_ONCE + 1, 1 / PER_S), (AT_ONCE + 1000, LONGEST_WAIT_S)],
)
async def test_what_was_accepted_beyond_a_few_is_waited_for(accepted: int, wait_s: float) -> None:
    clock = WaitingClock()
    pace = paced(accepted, clock)
    await pace.wait("one")
    assert sum(clock.waits_s) == pytest.approx(wait_s)
    assert pace.wait_s("another") == 0.0


def test_what_was_long_ago_is_forgiven() -> None:
    clock = WaitingClock()
    pace = paced(AT_ONCE + 10, clock)
    clock.now_s += 10 / PER_S
    assert pace.wait_s("one") == 0.0


async def ask(middleware: ShareMiddleware, method: str, host: str) -> int:
    statuses: list[int] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    scope = {"type": "http", "method": method, "path": "/", "headers": [], "client": (host, 1)}
    await middleware(scope, receive, send)
    return statuses[0]


def answering(status: int) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    return app


@pytest.mark.parametrize(
    ("status", "method", "other_asks", "waits"),
    [
        (202, "POST", True, True),
        (202, "POST", False, False),
        (200, "POST", True, False),
        (429, "POST", True, False),
        (202, "GET", True, False),
    ],
)
async def test_changes_wait_while_others_ask(status: int, method: str, other_asks: bool, waits: bool) -> None:
    clock = WaitingClock()
    turns = Turns(50, clock)  # type: ignore[arg-type]
    middleware = ShareMiddleware(answering(status), 10, 50, turns, clock)  # type: ignore[arg-type]
    for _ in range(AT_ONCE + 20):
        if other_asks:
            assert await ask(middleware, "GET", "192.0.2.2") == status
        assert await ask(middleware, method, "192.0.2.1") == status, "nothing is refused for it"
    assert (sum(clock.waits_s) > 0) == waits
    assert all(wait_s <= LONGEST_WAIT_S for wait_s in clock.waits_s)
