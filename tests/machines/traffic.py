"""Requests that come whatever happens: so many a second, and now and then a stream that lasts a while."""

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import aiohttp

from tests.acceptance.load import Seen, open_loop
from tests.acceptance.stack import Deployed

REQUESTS_PER_S = 15
_STREAM_EVERY_S = 0.5
_EVENTS, _DELAY_MS = 20, 100
"""Of a stream of two seconds."""


@dataclass
class Traffic:
    requests: Seen = field(default_factory=Seen)
    streams: Counter[str] = field(default_factory=Counter)
    """Whole; broken after the first byte; refused before it."""

    def __len__(self) -> int:
        return len(self.requests) + self.streams.total()

    @property
    def failed(self) -> int:
        """Of the plain ones: none of them had a first byte when something happened to it."""
        return len(self.requests) - self.requests.outcomes["200"]

    def __str__(self) -> str:
        others = {outcome: n for outcome, n in self.requests.outcomes.items() if outcome != "200"}
        slowest_s = max(self.requests.took_s, default=0.0)
        return (
            f"{self.requests.outcomes['200']} of {len(self.requests)} requests answered"
            + (f", others {others}" if others else "")
            + f", the slowest in {slowest_s:.1f} s; {self.streams['whole']} of {self.streams.total()} streams whole"
            + (f", {self.streams['broken']} broken off" if self.streams["broken"] else "")
            + (f", {self.streams['refused']} refused" if self.streams["refused"] else "")
        )


@contextlib.contextmanager
def traffic(chat: Deployed, key: str, requests_per_s: int = REQUESTS_PER_S) -> Iterator[Traffic]:
    """It goes on beside whatever is done meanwhile; when this ends, every answer has come or failed."""
    seen, over = Traffic(), threading.Event()

    async def send() -> None:
        async with open_loop(chat, key, requests_per_s, seen=seen.requests), asyncio.TaskGroup() as streams:
            while not over.is_set():
                streams.create_task(_stream(chat, key, seen.streams))
                await asyncio.sleep(_STREAM_EVERY_S)

    sender = threading.Thread(target=asyncio.run, args=(send(),))
    sender.start()
    try:
        yield seen
    finally:
        over.set()
        sender.join()


async def _stream(chat: Deployed, key: str, outcomes: Counter[str]) -> None:
    headers, timeout = {"Authorization": f"Bearer {key}"}, aiohttp.ClientTimeout(total=60)
    received = b""
    try:
        async with (
            aiohttp.ClientSession(headers=headers, timeout=timeout) as client,
            client.get(f"{chat.url}/sse?n={_EVENTS}&delay_ms={_DELAY_MS}", raise_for_status=True) as response,
        ):
            async for part in response.content.iter_any():
                received += part
    except (aiohttp.ClientError, TimeoutError):
        outcomes["broken" if received else "refused"] += 1
        return
    outcomes["whole" if received.count(b"\n\n") == _EVENTS else "broken"] += 1
