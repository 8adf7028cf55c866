"""A worker that cannot end before it was read to the end.

A worker that a reload replaced ends by itself with its last client, and its counters with it. An open connection to its
own socket keeps it: it is opened before the reload, while the socket is this worker's, and closed after the last look.
"""

import asyncio
from pathlib import Path

from moorage.gateway.endpoint_rules import ENDPOINT_FRONTEND
from moorage.gateway.runtime_socket import HaproxyError
from moorage.gateway.stats import parse_slot_counters
from moorage.gateway.usage import SlotCounters

_PROMPT = b"\n> "
_TIMEOUT_S = 10.0
_LONGEST_ANSWER_BYTES = 64 * 2**20


class HeldWorker:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def hold(cls, stats_socket: Path) -> "HeldWorker":
        try:
            reader, writer = await asyncio.open_unix_connection(
                str(stats_socket), limit=_LONGEST_ANSWER_BYTES
            )
        except OSError as exc:
            raise HaproxyError(f"HAProxy's socket {stats_socket} does not answer") from exc
        held = cls(reader, writer)
        await held._ask("prompt")
        return held

    async def counters(self) -> dict[int, SlotCounters]:
        return parse_slot_counters(await self._ask("show stat -1 2 -1"))

    async def has_clients(self) -> bool:
        """Whether a request could still come or end there."""
        answer = await self._ask(f"show stat {ENDPOINT_FRONTEND} 1 -1")
        lines = [line for line in answer.splitlines() if line]
        header = lines[0].removeprefix("# ").split(",")
        return any(int(dict(zip(header, line.split(","), strict=False))["scur"]) > 0 for line in lines[1:])

    def let_go(self) -> None:
        self._writer.close()

    async def _ask(self, command: str) -> str:
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                self._writer.write(command.encode("ascii") + b"\n")
                answer = await self._reader.readuntil(_PROMPT)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as exc:
            raise HaproxyError("A worker that was replaced does not answer") from exc
        return answer.removesuffix(_PROMPT).decode("utf-8", "replace")
