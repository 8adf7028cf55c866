"""Who is refused because it asks for too much at once hears it later: its next question comes later, too."""

import asyncio

import pytest
from starlette.types import Message, Receive, Scope, Send

from moorage.entrypoints.shares import MOST_REFUSED_LATER, REFUSED_AFTER_S, ShareMiddleware
from moorage.entrypoints.turns import BEGUN_AT_ONCE_PER_CLIENT, MOST_WAITING, Turns
from moorage.kit.clock import VirtualClock, system_clock


class Crowd:
    """Requests of one address, none of which is answered before `over`."""

    def __init__(self) -> None:
        self.clock, self.over = VirtualClock(), asyncio.Event()
        self.statuses: list[int] = []
        self._middleware = ShareMiddleware(self._answer, 20, 25, Turns(100, system_clock), self.clock)

    async def ask(self) -> None:
        scope: Scope = {
            "type": "http",
            "headers": [],
            "client": ("192.0.2.1", 1),
            "method": "GET",
            "path": "/",
        }

        async def receive() -> Message:
            raise AssertionError("nothing of it is read")

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.statuses.append(message["status"])

        await self._middleware(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.over.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})


async def a_moment() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_refusal_waits_and_beyond_a_bound_it_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    # A busy machine may need longer for all that comes before the last one.
    monkeypatch.setattr("moorage.entrypoints.turns.COMPUTES_S", 3600)
    crowd, let_in = Crowd(), BEGUN_AT_ONCE_PER_CLIENT + MOST_WAITING
    async with asyncio.TaskGroup() as group:
        for _ in range(let_in + MOST_REFUSED_LATER):
            group.create_task(crowd.ask())
        await a_moment()
        assert crowd.statuses == []
        group.create_task(crowd.ask())
        await a_moment()
        assert crowd.statuses == [429], "what waits is bounded"
        await crowd.clock.advance(REFUSED_AFTER_S)
        await a_moment()
        assert crowd.statuses == [429] * (1 + MOST_REFUSED_LATER)
        crowd.over.set()
    assert crowd.statuses.count(200) == let_in
