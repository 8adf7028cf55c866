"""The pull proxy: a registry of ours, from which engines pull what users named.

An engine that is given a user's image name looks the host up by itself, follows the registry wherever it points, and
hands the password to whomever it names. So it is given a name of ours instead, `127.0.0.1:…/moorage-pull/<id>@sha256:…`,
and a password that is good for this pull alone. Behind that name the image was asked for with its owner's credentials,
and its layers come through connections that were each vetted (`transport.py`).

Invariants: the engine connects to nothing that a user named; what a ticket hands out is one manifest, its
configuration and its layers; no layer passes that is not what the manifest says; nothing that a registry says is
repeated. A pull that cannot succeed is refused with a sentence; what may pass (a connection that broke) is left to the
engine, which asks again from where it was.

It has a thread and an event loop of its own: bytes of one tenant make nobody else's loop wait.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self

from aiohttp import web

from moorage.kit.clock import Clock
from moorage.kit.errors import EngineError, ImageError
from moorage.kit.loop_thread import LoopThread
from moorage.outbound.addresses import Lookup, system_lookup
from moorage.outbound.pulls.server import PullServer
from moorage.outbound.pulls.shares import Shares
from moorage.outbound.pulls.ticket import Pull, PullOrder, Ticket
from moorage.outbound.registry.client import registry_session, resolve_image, transport_errors_of
from moorage.outbound.registry.sentences import ImageName

_LOOPBACK = "127.0.0.1"
_SHUTDOWN_S = 1.0
_HEAD_WITHIN_S = 10.0


class PullProxy:
    def __init__(
        self,
        clock: Clock,
        *,
        allowed_registries: tuple[str, ...],
        max_image_bytes: int,
        pulls_per_organization: int,
        lookup: Lookup = system_lookup,
        tls: ssl.SSLContext | None = None,
        head_within_s: float = _HEAD_WITHIN_S,
    ) -> None:
        """`head_within_s`: how long a connection may take to say the head of a request, its first one or the next."""
        self.allowed_registries = allowed_registries
        self.max_image_bytes = max_image_bytes
        self._clock = clock
        self._lookup = lookup
        self._tls = tls
        self._head_within_s = head_within_s
        self._shares = Shares(pulls_per_organization)
        self._server = PullServer()
        self._thread = LoopThread("pull-proxy")
        self.port: int | None = None
        """On loopback, once it listens."""

    async def __aenter__(self) -> Self:
        self._thread.start()
        self.port = await self._thread.run(self._start())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._thread.run(self._runner.cleanup())
        await self._thread.stop()

    async def open_door(self, host: str, port: int) -> None:
        """Listens there too, where machines that joined reach it through the tunnel. Raises `OSError` where it cannot."""
        await self._thread.run(web.TCPSite(self._runner, host, port).start())

    @asynccontextmanager
    async def ticket(self, order: PullOrder) -> AsyncIterator[Ticket]:
        """Asks the registry for the image as `order` says, and lets an engine pull it for as long as this lasts.
        Raises `ImageError`; waits while the organization has as many pulls to that machine as it may."""
        pull = Pull(order)
        kept_open = self._thread.submit(self._keep_open(pull))
        try:
            image = await asyncio.wrap_future(pull.ready)
            yield Ticket(pull, image, f"{_LOOPBACK}:{self.port}")
        finally:
            kept_open.cancel()

    async def _start(self) -> int:
        # A connection that the engine gives up takes ours to the registry with it.
        self._runner = web.AppRunner(
            self._server.application(),
            access_log=None,
            # It counts from the connection's beginning, and half a head does not stop it. An engine that meant to use
            # the connection again opens another.
            keepalive_timeout=self._head_within_s,
            handler_cancellation=True,
            shutdown_timeout=_SHUTDOWN_S,
        )
        await self._runner.setup()
        # Loopback alone: engines accept plain HTTP there, and only this machine can ask. Which of its users may, the
        # firewall says (`engines/docker/firewall.py`): somebody who only connects holds a descriptor of ours for a while.
        await web.TCPSite(self._runner, _LOOPBACK, 0).start()
        return int(self._runner.addresses[0][1])

    async def _keep_open(self, pull: Pull) -> None:
        try:
            async with self._shares.place(pull.order.share):
                await self._serve(pull)
        except ImageError as exc:
            pull.ready.set_exception(exc)
        except Exception as exc:
            # Whoever waits for it must hear of what nobody foresaw, too.
            pull.ready.set_exception(exc)
            raise
        finally:
            if not pull.ready.done():
                pull.ready.set_exception(EngineError(f"pull {pull.order.reference}: the pull was ended"))

    async def _serve(self, pull: Pull) -> None:
        order = pull.order
        image = ImageName.parse(order.reference)
        with transport_errors_of(image, order.credentials):
            async with registry_session(
                image,
                order.credentials,
                self.allowed_registries,
                clock=self._clock,
                lookup=self._lookup,
                tls=self._tls,
            ) as (session, transport):
                resolved = await resolve_image(session, order.architecture, self.max_image_bytes)
                transport.lift_deadline()
                pull.open(session, resolved, self.max_image_bytes)
                with self._server.serving(pull):
                    pull.ready.set_result(resolved)
                    await asyncio.Event().wait()  # until it is cancelled
