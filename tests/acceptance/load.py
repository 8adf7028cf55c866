"""Open-loop load on an endpoint: so many requests a second, whether the answers come or not."""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import aiohttp

from tests.acceptance.stack import Deployed


@dataclass
class Seen:
    """What became of the requests: statuses and errors, seconds, and who answered."""

    outcomes: Counter[str] = field(default_factory=Counter)
    took_s: list[float] = field(default_factory=list)
    answered_by: Counter[str] = field(default_factory=Counter)
    answers: list[tuple[float, str, str]] = field(default_factory=list)
    """When each came (by the wall clock), its outcome, and its text."""

    def __len__(self) -> int:
        return self.outcomes.total()


@contextlib.asynccontextmanager
async def open_loop(
    chat: Deployed, key: str, requests_per_s: int, path: str = "/whoami", seen: Seen | None = None
) -> AsyncIterator[Seen]:
    seen = seen if seen is not None else Seen()
    over = asyncio.Event()

    async def one(client: aiohttp.ClientSession) -> None:
        began_s = time.monotonic()
        try:
            async with client.get(f"{chat.url}{path}") as response:
                text = await response.text()
                seen.outcomes[str(response.status)] += 1
                seen.answered_by[text] += 1
                seen.answers.append((time.time(), str(response.status), text))
        except (aiohttp.ClientError, TimeoutError) as exc:
            seen.outcomes[type(exc).__name__] += 1
            seen.answers.append((time.time(), type(exc).__name__, ""))
        seen.took_s.append(time.monotonic() - began_s)

    async def send(client: aiohttp.ClientSession) -> None:
        started_s, sent = time.monotonic(), 0
        async with asyncio.TaskGroup() as group:
            while not over.is_set():
                due = int((time.monotonic() - started_s) * requests_per_s)
                for _ in range(due - sent):
                    group.create_task(one(client))
                sent = max(sent, due)
                await asyncio.sleep(0.005)

    headers, timeout = {"Authorization": f"Bearer {key}"}, aiohttp.ClientTimeout(total=30)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(headers=headers, timeout=timeout, connector=connector) as client:
        sending = asyncio.create_task(send(client))
        try:
            yield seen
        finally:
            over.set()
            await sending
