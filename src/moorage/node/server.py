"""The node role's HTTP server: the `Engine` protocol of this machine, for one installation.

Nothing is asked twice here and nothing decided: what may be started, and when, is decided by whoever holds the credential.
A connection that is given up cancels what it asked for, as leaving an engine's call does.
"""

import asyncio
import hashlib
import hmac
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

import structlog
from aiohttp import web

from moorage.engines.base import Engine, ImageRequest, PullProgress
from moorage.engines.remote.codec import REQUESTS, WireError, decode, parse, to_bytes
from moorage.engines.remote.frames import Frame, FrameKind, pack_chunks, to_wire
from moorage.engines.remote.messages import (
    CALLS,
    PATH,
    Envelope,
    Hint,
    HintPosition,
    WireFailure,
    argument_types,
    failure_of,
)
from moorage.engines.remote.proofs import ANSWER_FOR, PROVE, ProofOrder, ProofQuestion
from moorage.kit.clock import Clock
from moorage.kit.errors import EngineError
from moorage.node.hints import KeptHints
from moorage.node.proofs import Proofs
from moorage.outbound.pulls.ticket import PULL_FOLDER

log = structlog.get_logger()

IDLE_S = 10.0
_MOST_REQUEST_BYTES = 8 * 2**20
_TICKET = re.compile(rf"{PULL_FOLDER}/[0-9a-f]{{32}}@sha256:[0-9a-f]{{64}}")

T = TypeVar("T")
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class NodeServer:
    engine: Engine
    credential_sha256: str
    """Of the one credential that is accepted; the credential itself is nowhere on this machine."""
    clock: Clock
    pulls_from: str | None
    """`host:port`, on loopback, where tickets are redeemed. Without it there are this machine's images and no others."""

    def __post_init__(self) -> None:
        self.hints = KeptHints(self.clock)
        self.proofs = Proofs()

    def application(self) -> web.Application:
        application = web.Application(
            middlewares=[self._for_the_installation], client_max_size=_MOST_REQUEST_BYTES
        )
        for call in CALLS:
            application.router.add_post(f"{PATH}{call}", self._answering(call))
        application.router.add_post(f"{PATH}ensure_image", self._ensure_image)
        application.router.add_post(f"{PATH}logs", self._logs)
        application.router.add_post(f"{PATH}watch", self._watch)
        application.router.add_post(f"{PATH}{PROVE}", self._prove)
        application.router.add_post(f"{PATH}{ANSWER_FOR}", self._answer_for)
        application.cleanup_ctx.append(self._keeping_hints)
        return application

    @web.middleware
    async def _for_the_installation(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Before anything of it is read."""
        scheme, _, credential = request.headers.get("Authorization", "").partition(" ")
        found = hashlib.sha256(credential.encode("utf-8", "replace")).hexdigest()
        if scheme != "Bearer" or not hmac.compare_digest(found, self.credential_sha256):
            return web.Response(status=401)
        try:
            return await handler(request)
        except WireError as exc:
            return web.Response(status=400, text=str(exc))

    def _answering(self, call: str) -> _Handler:
        async def answer(request: web.Request) -> web.StreamResponse:
            arguments = await _arguments(request, argument_types(call))
            if call == "start":
                # What a proof has filled is free as far as anybody who places replicas knows, and this one needs it.
                await self.proofs.give_way()
            return web.Response(body=await self._outcome(getattr(self.engine, call)(**arguments)))

        return answer

    async def _ensure_image(self, request: web.Request) -> web.StreamResponse:
        arguments = await _arguments(request, argument_types("ensure_image"), without="on_progress")
        wanted = self._redeemed(arguments["request"])
        return await _send(request, self._pull(wanted))

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        return await _send(request, self._output(await _arguments(request, argument_types("logs"))))

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        arguments = await _arguments(request, {"position": HintPosition | None})
        return await _send(request, self._told(arguments["position"]))

    async def _prove(self, request: web.Request) -> web.StreamResponse:
        arguments = await _arguments(request, {"order": ProofOrder})
        return web.Response(body=await self._outcome(self.proofs.begin(arguments["order"])))

    async def _answer_for(self, request: web.Request) -> web.StreamResponse:
        arguments = await _arguments(request, {"question": ProofQuestion})
        return web.Response(body=await self._outcome(self.proofs.answer(arguments["question"])))

    def _redeemed(self, wanted: ImageRequest) -> ImageRequest:
        """This machine pulls tickets of Moorage's pull proxy, and nothing that has another name."""
        if wanted.local:
            return wanted
        if self.pulls_from is None or not _TICKET.fullmatch(wanted.reference):
            raise WireError("request.reference must be a ticket of the pull proxy")
        return replace(wanted, reference=f"{self.pulls_from}/{wanted.reference}")

    async def _pull(self, wanted: ImageRequest) -> AsyncGenerator[Frame, None]:
        latest: list[PullProgress] = []
        moved = asyncio.Event()

        def on_progress(progress: PullProgress) -> None:
            latest[:] = [progress]
            moved.set()

        pulling = asyncio.ensure_future(self._outcome(self.engine.ensure_image(wanted, on_progress)))
        try:
            while not pulling.done():
                moved.clear()
                moving = asyncio.ensure_future(moved.wait())
                await asyncio.wait((pulling, moving), timeout=IDLE_S, return_when=asyncio.FIRST_COMPLETED)
                moving.cancel()
                if latest:
                    yield Frame(FrameKind.PROGRESS, to_bytes(latest.pop()))
                else:
                    yield Frame(FrameKind.IDLE)
            yield Frame(FrameKind.ANSWER, pulling.result())
        finally:
            pulling.cancel()
            await asyncio.gather(pulling, return_exceptions=True)

    async def _output(self, arguments: Mapping[str, Any]) -> AsyncGenerator[Frame, None]:
        try:
            async with aclosing(_with_pauses(self.engine.logs(**arguments))) as bundles:
                async for chunks in bundles:
                    if chunks is None:
                        yield Frame(FrameKind.IDLE)
                        continue
                    for payload in pack_chunks(chunks):
                        yield Frame(FrameKind.CHUNKS, payload)
        except EngineError as exc:
            yield Frame(FrameKind.ANSWER, self._envelope(failure=failure_of(exc)))
            return
        yield Frame(FrameKind.ANSWER, self._envelope())

    async def _told(self, position: HintPosition | None) -> AsyncGenerator[Frame, None]:
        async with aclosing(_with_pauses(self.hints.since(position))) as hints:
            async for hint in hints:
                if hint is None:
                    yield Frame(FrameKind.IDLE)
                else:
                    kind = FrameKind.HINT if isinstance(hint, Hint) else FrameKind.LOOK_AGAIN
                    yield Frame(kind, to_bytes(hint))

    async def _outcome(self, work: Awaitable[Any]) -> bytes:
        try:
            return self._envelope(answer=await work)
        except EngineError as exc:
            return self._envelope(failure=failure_of(exc))

    def _envelope(self, answer: Any = None, failure: WireFailure | None = None) -> bytes:
        now_s, monotonic_s = self.clock.now().timestamp(), self.clock.monotonic()
        return to_bytes(Envelope(now_s, monotonic_s, self.hints.position, answer, failure))

    async def _keeping_hints(self, application: web.Application) -> AsyncIterator[None]:
        keeping = asyncio.create_task(self.hints.keep(self.engine))
        yield
        await self.proofs.close()
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)


async def _arguments(
    request: web.Request, types: Mapping[str, Any], without: str | None = None
) -> dict[str, Any]:
    """By name. What has a default in the protocol is named all the same."""
    given = parse(await request.read())
    if not isinstance(given, dict):
        raise WireError("arguments must be an object")
    return {
        name: decode(kind, given.get(name), REQUESTS, name) for name, kind in types.items() if name != without
    }


async def _send(request: web.Request, frames: AsyncGenerator[Frame, None]) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    async with aclosing(frames):
        async for frame in frames:
            await response.write(to_wire(frame))
    return response


async def _with_pauses(items: AsyncIterator[T]) -> AsyncGenerator[T | None, None]:
    """None whenever nothing came for a while."""
    ended = object()

    async def following() -> T | object:
        return await anext(items, ended)

    coming: asyncio.Future[T | object] | None = None
    try:
        while True:
            coming = coming or asyncio.ensure_future(following())
            await asyncio.wait((coming,), timeout=IDLE_S)
            if not coming.done():
                yield None
                continue
            item, coming = coming.result(), None
            if item is ended:
                return
            yield cast(T, item)
    finally:
        if coming is not None:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)
