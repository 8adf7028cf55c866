"""Holds what is asked of containers that sleep, has them woken, and sends it on when they serve.

Purpose: the first request to a sleeping container waits instead of failing. Its key and its rates were checked by HAProxy before it
came here, so nobody without a valid key wakes anything or takes a place.
Invariants: what is held is bounded in number, bytes and time, and nobody can take all of it; each request is answered once, in time: by its container, or with
why not. A request is sent on when the HAProxy of this very gateway has a replica for it, and not before. The wake itself is one row's
change under its lock, so any number of requests at any number of gateways are one.
When it fails: without Postgres the wake is asked for again until a request's time is over. When this process dies HAProxy answers
what was held (502), and refuses what comes (503), until the next one is there. When the controller dies, what is held waits for it, within its time.
"""

import asyncio
import contextlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog

from moorage.gateway.dataplane import Applied
from moorage.gateway.holding.bodies import Body
from moorage.gateway.holding.hang_ups import has_hung_up
from moorage.gateway.holding.limits import HoldLimits
from moorage.gateway.holding.messages import (
    COMMENT,
    HEAD_BYTES_MAX,
    HEAD_END,
    LAST_CHUNK,
    Refusal,
    chunk,
    event,
    parse_head,
    sent_on,
    stream_head,
)
from moorage.gateway.holding.places import FULL, Held, Kept, Places
from moorage.gateway.holding.records import HeldRecord, HeldRecords
from moorage.gateway.holding.relay import (
    AsleepAgainError,
    Streams,
    call_off,
    connected,
    pass_on,
    pass_on_events,
)
from moorage.gateway.holding.waking import NOT_RUNNING, Waker
from moorage.gateway.table import GatewayTable, Route
from moorage.kit.clock import Clock

log = structlog.get_logger()

_ASK_AGAIN_S = 5.0
"""For as long as somebody waits: it may have served and slept again before this gateway saw it serve."""
_TRY_AGAIN_S = 0.5
_LOOK_AGAIN_S = 0.05
"""What HAProxy does and what we were told that it does differ for a moment."""
_LOOK_FOR_CLIENT_S = 1.0
_HEAD_TIMEOUT_S = 15.0
_VERDICT_TIMEOUT_S = 3.0
_BROKEN = Refusal(
    502, "container_closed_connection", "The container closed the connection without a valid answer."
)


class _ClientLeftError(Exception):
    pass


@dataclass
class Holder:
    socket: Path
    released: Path
    """HAProxy's, for what goes on."""
    waker: Waker
    records: HeldRecords
    limits: HoldLimits
    clock: Clock
    owner: str | None = None
    """The user that HAProxy connects as, where that is not ours."""
    places: Places = field(init=False)
    _serves: tuple[GatewayTable, Applied] | None = field(init=False, default=None)
    _wakes: dict[str, asyncio.Task[None]] = field(init=False, default_factory=dict)
    _asked: dict[str, asyncio.Event] = field(init=False, default_factory=dict)
    """Of the containers that somebody has asked to wake: set when that is to be done again."""
    _ends: dict[str, asyncio.Task[None]] = field(init=False, default_factory=dict)
    _clients: set[asyncio.Task[None]] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        self.places = Places(self.limits)

    async def run(self) -> None:
        self.socket.unlink(missing_ok=True)
        server = await asyncio.start_unix_server(self._come, str(self.socket), limit=HEAD_BYTES_MAX)
        self.socket.chmod(0o600)
        if self.owner is not None:
            shutil.chown(self.socket, self.owner)
        try:
            await self.records.run()
        finally:
            server.close()
            under_way = [*self._clients, *self._wakes.values(), *self._ends.values()]
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)

    def applied(self, table: GatewayTable, applied: Applied) -> None:
        """HAProxy serves this from now on."""
        self._serves = table, applied
        for container_id in self.places.waiting():
            self._look(container_id)

    def _look(self, container_id: str) -> None:
        if self._serves is None:
            return
        table, applied = self._serves
        route = table.routes.get(container_id)  # type: ignore[call-overload]
        servers = [server for server in route.servers if not server.draining] if route is not None else []
        if any(server.replica_id in applied.enabled for server in servers):
            self.places.answer(container_id, None)
        elif not servers and not _is_held_for(route) and container_id not in self._ends:
            self._ends[container_id] = task = asyncio.create_task(self._tell_why_not(container_id))
            task.add_done_callback(lambda _: self._ends.pop(container_id, None))

    async def _tell_why_not(self, container_id: str) -> None:
        self.places.answer(container_id, await self._why_not(container_id) or NOT_RUNNING)

    async def _why_not(self, container_id: str) -> Refusal | None:
        try:
            async with asyncio.timeout(_VERDICT_TIMEOUT_S):
                return await self.waker.why_not(container_id)
        except Exception as exc:  # noqa: BLE001 - logged; the request is answered all the same
            log.warning("verdict_not_read", container_id=container_id, error=repr(exc))
            return None

    async def _wake(self, container_id: str) -> None:
        while self.places.waits_for(container_id):
            pause_s = _TRY_AGAIN_S
            try:
                async with asyncio.timeout(_ASK_AGAIN_S):
                    refusal = await self.waker.wake(container_id, self.places.a_key(container_id))
                if refusal is not None:
                    self.places.answer(container_id, refusal)
                pause_s = _ASK_AGAIN_S
            except Exception as exc:  # noqa: BLE001 - logged, and asked again while somebody waits
                log.warning("wake_not_asked_for", container_id=container_id, error=repr(exc))
            self._asked.setdefault(container_id, asyncio.Event()).clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._asked[container_id].wait()

    def _ask_to_wake(self, container_id: str, *, at_once: bool = False) -> None:
        """`at_once`: nobody waited for it, so what was asked for before is over."""
        if at_once and container_id in self._asked:
            self._asked[container_id].set()
        if container_id not in self._wakes:
            self._wakes[container_id] = task = asyncio.create_task(self._wake(container_id))
            task.add_done_callback(lambda _: self._woke(container_id))

    def _woke(self, container_id: str) -> None:
        self._wakes.pop(container_id, None)
        self._asked.pop(container_id, None)
        if self.places.waits_for(container_id):
            self._ask_to_wake(container_id)

    async def _come(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "asyncio makes one for each connection"
        self._clients.add(task)
        try:
            await self._hold((reader, writer))
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, _ClientLeftError):
            pass  # Either side has left; HAProxy tells the other.
        except TimeoutError:
            log.info("held_request_did_not_arrive")
        except ValueError as exc:
            log.warning("held_request_unreadable", error=repr(exc))
        finally:
            self._clients.discard(task)
            writer.close()

    async def _hold(self, client: Streams) -> None:
        reader, writer = client
        async with asyncio.timeout(_HEAD_TIMEOUT_S):
            head = parse_head(await reader.readuntil(HEAD_END))
        record = HeldRecord(
            head.get("x-request-id") or "", head.container_id, self.clock.now(), self.limits.per_container
        )
        began_s, body, kept = self.clock.monotonic(), Body(head), Kept(head.organization_id)

        def answered() -> None:
            body.forget()
            self.places.give_back_all_bytes(kept)

        try:
            while True:
                refusal = await self._held(body, kept, client, began_s, record)
                if refusal is not None:
                    record.code = refusal.code
                    await _refuse(writer, refusal, record.request_id, begun=record.comments > 0)
                    return
                with contextlib.suppress(AsleepAgainError):
                    await self._send_on(body, client, record, answered)
                    return
                await self.clock.sleep(_LOOK_AGAIN_S)
        except _ClientLeftError:
            record.code = "client_left"
            raise
        finally:
            self.places.give_back_all_bytes(kept)
            self.records.add(record)

    async def _held(
        self, body: Body, kept: Kept, client: Streams, began_s: float, record: HeldRecord
    ) -> Refusal | None:
        """None: it goes on to its container, with as much of its body as was read."""
        head = body.head
        first = not self.places.waits_for(head.container_id)
        held = self.places.take(head.container_id, head.organization_id, head.key_id, record.arrived_at)
        if held is None:
            return FULL
        record.place = max(record.place, held.place)
        try:
            # HAProxy may serve it by now: it sends here what it had in its map a moment ago.
            self._look(head.container_id)
            if not held.answer.done():
                self._ask_to_wake(head.container_id, at_once=first)
            if not body.is_whole:
                await self._read(body, kept, client, began_s)
            return await self._wait(body, held, client, began_s, record)
        finally:
            record.held_ms = round((self.clock.monotonic() - began_s) * 1000)
            self.places.leave(held)

    async def _read(self, body: Body, kept: Kept, client: Streams, began_s: float) -> None:
        """As much of it as may be kept here, so that its client need not go on sending; the rest waits there."""
        reader, writer = client
        if (body.head.get("expect") or "").lower() == "100-continue":
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(self._left_s(began_s), 0)):
                while not body.is_whole and (room := self.places.take_bytes(kept, HEAD_BYTES_MAX)):
                    piece = await reader.read(room)
                    self.places.give_back_bytes(kept, room - len(piece))
                    if not piece:
                        raise _ClientLeftError
                    body.add(piece)

    async def _wait(
        self, body: Body, held: Held, client: Streams, began_s: float, record: HeldRecord
    ) -> Refusal | None:
        """None: it goes on to its container."""
        reader, writer = client
        streams = body.asks_for_stream()
        # Nothing more comes from a client that has sent all, but its end. Of another the rest of the body would.
        gone = asyncio.create_task(reader.read(1)) if body.is_whole and not body.head.upgrades else None
        try:
            while not held.answer.done():
                left_s = self._left_s(began_s)
                if left_s <= 0:
                    return await self._too_late(held.container_id)
                comment_in_s = self._comment_in_s(began_s, record.comments) if streams else left_s
                waits: set[asyncio.Future[Any]] = {held.answer}
                if gone is not None:
                    waits.add(gone)
                timeout_s = min(left_s, comment_in_s, _LOOK_FOR_CLIENT_S if gone is None else left_s)
                await asyncio.wait(waits, timeout=max(timeout_s, 0), return_when=asyncio.FIRST_COMPLETED)
                if gone.done() if gone is not None else has_hung_up(client):
                    raise _ClientLeftError
                if streams and not held.answer.done() and self._comment_in_s(began_s, record.comments) <= 0:
                    writer.write((stream_head() if not record.comments else b"") + chunk(COMMENT))
                    await writer.drain()
                    record.comments += 1
        finally:
            if gone is not None:
                gone.cancel()
                await asyncio.gather(gone, return_exceptions=True)
        return held.answer.result()

    def _left_s(self, began_s: float) -> float:
        return began_s + self.limits.timeout_s - self.clock.monotonic()

    def _comment_in_s(self, began_s: float, comments: int) -> float:
        return began_s + (comments + 1) * self.limits.comment_after_s - self.clock.monotonic()

    async def _too_late(self, container_id: str) -> Refusal:
        why = await self._why_not(container_id)
        because = f" {why.message}" if why is not None and why is not NOT_RUNNING else ""
        message = f"The container did not wake within {self.limits.timeout_s:g} s.{because}"
        code = why.code if why is not None and because else "wake_timeout"
        return Refusal(503, code, message, retry_after_s=5)

    async def _send_on(
        self, body: Body, client: Streams, record: HeldRecord, answered: Callable[[], None]
    ) -> None:
        _, writer = client
        try:
            async with connected(self.released) as (reader, released):
                released.write(sent_on(body.head, begun=record.comments > 0) + body.raw)
                if not record.comments:
                    record.replica_id = await pass_on(
                        client, (reader, released), answered, whole=body.is_whole
                    )
                else:
                    record.replica_id = await self._events(client, (reader, released), record, answered)
        except (ConnectionError, FileNotFoundError, asyncio.IncompleteReadError) as exc:
            if writer.is_closing():
                return
            log.info("held_request_broke", container_id=record.container_id, error=repr(exc))
            record.code = record.code or _BROKEN.code
            if record.comments:
                await _refuse(writer, _BROKEN, record.request_id, begun=True)
            elif record.replica_id is None:
                await _refuse(writer, _BROKEN, record.request_id, begun=False)

    async def _events(
        self, client: Streams, released: Streams, record: HeldRecord, answered: Callable[[], None]
    ) -> str | None:
        """Until the answer's end, or until the client has left: its container is to hear of that."""
        answer = asyncio.create_task(pass_on_events(client[1], released[0], record.request_id, answered))
        gone = asyncio.create_task(client[0].read(1))
        try:
            await asyncio.wait({answer, gone}, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                return await answer
            call_off(released)
            return None
        finally:
            for task in (answer, gone):
                task.cancel()
            await asyncio.gather(answer, gone, return_exceptions=True)


def _is_held_for(route: Route | None) -> bool:
    return route is not None and route.asleep


async def _refuse(writer: asyncio.StreamWriter, refusal: Refusal, request_id: str, *, begun: bool) -> None:
    """Once a stream has begun its status is told, so what went wrong is an event of it."""
    if begun:
        writer.write(chunk(event("error", refusal.body(request_id))) + LAST_CHUNK)
    else:
        writer.write(refusal.answer(request_id))
    await writer.drain()
