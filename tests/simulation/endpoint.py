"""What clients ask of containers, and what HAProxy does with it: its rules for keys, routes and what sleeps, over the real holder.

The holder is the gateway's own process, reached by its socket, and sends on by HAProxy's, as in production (`gateway/held_rules.py`).
HAProxy outlives that process: what was held breaks off with it, and what comes is refused.
"""

import asyncio
import json
import random
from dataclasses import dataclass, field
from pathlib import Path

from moorage.gateway.held_rules import (
    ASLEEP_HEADER,
    CONTAINER_HEADER,
    KEY_HEADER,
    ORGANIZATION_HEADER,
    REPLICA_HEADER,
)
from moorage.gateway.holding.holder import Holder
from moorage.gateway.holding.messages import COMMENT, HEAD_END, parse_head
from moorage.kit.crypto import sha256
from tests.simulation.haproxy import Haproxy, Held
from tests.simulation.loop import Process
from tests.simulation.pipes import Pipes
from tests.simulation.world import World

_TAKES_S = (0.02, 0.02, 0.3, 2.0, 15.0, 40.0)
_STREAM = b"Content-Type: text/event-stream\r\n"


@dataclass
class Asked:
    """One request, from when its client sent it."""

    container_id: str
    key_id: str | None
    """None: of no key that there is."""
    began_s: float
    streams: bool
    holder: Process | None = None
    """Who holds it, or did."""
    status: int | None = None
    """None while nothing was answered, and for good where its client left or the connection broke."""
    code: str | None = None
    comments: int = 0
    ended_s: float | None = None
    left: bool = False
    """Its client did not wait for the answer."""
    is_served: bool = False
    """A replica has it: what that takes is its own affair."""
    broke_off: bool = False
    """An answer began and did not end."""


@dataclass
class Endpoint:
    world: World
    folder: Path
    seed: int
    asked: list[Asked] = field(default_factory=list)
    """That have not ended."""
    ended: list[Asked] = field(default_factory=list)
    """That nobody has judged yet."""
    uses: dict[str, list[float]] = field(default_factory=dict)
    """By container: when a replica of it had a request."""
    holder: Holder | None = None
    """Of the present gateway."""
    _chance: random.Random = field(init=False)
    _requests: int = 0

    def __post_init__(self) -> None:
        self._chance = random.Random(f"requests of the night of {self.seed}")

    @property
    def holder_path(self) -> Path:
        return self.folder / "holder.sock"

    @property
    def released_path(self) -> Path:
        return self.folder / "released.sock"

    async def open(self) -> None:
        self.world.loop.sockets = Pipes(self.world.loop)
        self.world.haproxy.is_asked = True
        await asyncio.start_unix_server(self._released, str(self.released_path))

    def is_waited_at(self) -> bool:
        return bool(self.asked)

    async def ask(
        self, container_id: str, key: str, *, streams: bool = False, patience_s: float | None = None
    ) -> Asked:
        entry = self._haproxy.entries.get(sha256(key).hex())
        asked = Asked(container_id, entry.key_id if entry else None, self.world.now_s(), streams)
        self.asked.append(asked)
        try:
            async with asyncio.timeout(patience_s):
                await self._pass(asked, key)
        except TimeoutError:
            asked.left = True
        finally:
            asked.ended_s = self.world.now_s()
            self.asked.remove(asked)
            self.ended.append(asked)
        if asked.holder is not None:
            self.world.story.count("request held")
        return asked

    @property
    def _haproxy(self) -> Haproxy:
        return self.world.haproxy

    async def _pass(self, asked: Asked, key: str) -> None:
        """As `endpoint_rules.py` says it."""
        proxy = self._haproxy
        entry, project = proxy.entries.get(sha256(key).hex()), proxy.projects.get(asked.container_id)  # type: ignore[call-overload]
        if entry is None:
            asked.status, asked.code = 401, "invalid_api_key"
        elif project != entry.project_id:
            asked.status, asked.code = 404, "not_found"
        elif proxy.servers_of(asked.container_id):
            asked.is_served = True
            asked.status, _ = await self._serve(asked.container_id)
        elif asked.container_id in proxy.asleep:
            await self._be_held(asked, entry.key_id, entry.organization_id)
        else:
            asked.status, asked.code = 503, "container_not_running"

    async def _be_held(self, asked: Asked, key_id: str, organization_id: str) -> None:
        gateway = self.world.processes["gateway"]
        try:
            reader, writer = await asyncio.open_unix_connection(str(self.holder_path))
        except ConnectionError:
            asked.status, asked.code = 503, "container_asleep"
            self.world.story.count("nobody held it")
            return
        asked.holder = gateway
        self._requests += 1
        body = json.dumps({"stream": asked.streams}).encode()
        lines = [
            "POST /v1/chat/completions HTTP/1.1",
            f"X-Request-Id: req-{self._requests}",
            f"{CONTAINER_HEADER}: {asked.container_id}",
            f"{KEY_HEADER}: {key_id}",
            f"{ORGANIZATION_HEADER}: {organization_id}",
            f"Content-Length: {len(body)}",
        ]
        try:
            writer.write("\r\n".join(lines).encode() + HEAD_END + body)
            await self._hear(asked, reader)
        finally:
            writer.close()

    async def _hear(self, asked: Asked, reader: asyncio.StreamReader) -> None:
        try:
            head = parse_head(await reader.readuntil(HEAD_END))
        except asyncio.IncompleteReadError:
            asked.status, asked.code = 502, "wake_interrupted"
            return
        status, text = head.status, b""
        while piece := await reader.read(65_536):
            text += piece
            asked.comments = text.count(COMMENT)
        asked.status = status
        if head.is_chunked:
            asked.broke_off = not text.endswith(b"0\r\n\r\n")
        else:
            asked.broke_off = len(text) != head.body_bytes
        if b'"error"' in text:
            (line,) = [one for one in text.decode().splitlines() if '"error"' in one]
            asked.code = json.loads(line.removeprefix("data: "))["error"]["code"]

    async def _released(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """What was held comes back."""
        head = parse_head(await reader.readuntil(HEAD_END))
        container_id = head.container_id
        mark = b""
        if container_id in self._haproxy.asleep:
            status, mark = 503, f"{ASLEEP_HEADER}: again\r\n".encode()
            self.world.story.count("asleep again")
        else:
            for one in self.asked:
                # Whichever of them it is, one that is served less than another waits.
                if one.container_id == container_id and one.holder is not None and not one.is_served:
                    one.is_served = True
                    break
            status, replica = await self._serve(container_id)
            mark = f"{REPLICA_HEADER}: {replica}\r\n".encode() if replica else b""
        streams = json.loads(await reader.readexactly(head.body_bytes or 0))["stream"] and status == 200
        body = b"data: {}\n\n" if streams else b"{}"
        kind = _STREAM if streams else b"Content-Type: application/json\r\n"
        length = f"Content-Length: {len(body)}\r\nConnection: close".encode()
        writer.write(f"HTTP/1.1 {status} Well\r\n".encode() + mark + kind + length + HEAD_END + body)
        writer.close()

    async def _serve(self, container_id: str) -> tuple[int, str | None]:
        """By one of its servers."""
        proxy = self._haproxy
        there = proxy.servers_of(container_id)
        if not there:
            return 503, None
        name, takes_s = self._chance.choice(there), self._chance.choice(_TAKES_S)
        held = proxy.servers[name]
        held.in_flight += 1
        proxy.requests[container_id] += 1
        uses = self.uses.setdefault(container_id, [])
        uses.append(self.world.now_s())
        try:
            until_s = self.world.now_s() + takes_s
            while self._answers(held) and self._haproxy.servers.get(name) is held:
                if self.world.now_s() >= until_s:
                    self.world.story.count("request served")
                    return 200, name
                await asyncio.sleep(min(until_s - self.world.now_s(), 1.0))
                uses.append(self.world.now_s())
            self.world.story.count("request broke")
            return 502, name
        finally:
            held.in_flight -= 1

    def _answers(self, held: Held) -> bool:
        machine = next((one for one in self.world.machines() if one.address == held.host), None)
        return (
            machine is not None
            and self.world.is_reached(held.host, held.port)
            and machine.answers_at(held.port) is not None
        )
