"""Says for whom each request is, so that one client takes no more than its share of the loop's time and of the connections
to the database.

A token that was found good a moment ago shares by its person; everybody else by the address, because
whoever makes tokens up has as many of them as they like.
"""

import hashlib
from collections import Counter, OrderedDict

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from moorage.entrypoints.change_pace import ChangePace
from moorage.entrypoints.errors import refusal
from moorage.entrypoints.turns import Turns
from moorage.kit.clients import Client, current_client, source_of
from moorage.kit.clock import Clock
from moorage.kit.errors import TooManyRequestsError, UnavailableError
from moorage.kit.fair_slots import FairSlots
from moorage.kit.web import SAFE_METHODS

ACCEPTED = (201, 202)
"""Something new, or something that a reconciler makes true."""
MOST_KNOWN = 10_000
MOST_WAITING = 100
"""Requests of one client that wait for a connection."""
WAIT_S = 10.0
REFUSED_AFTER_S = 2.0
"""Whoever asks again as soon as it is refused keeps us busy with refusals; to let it wait costs nothing."""
MOST_REFUSED_LATER = 500
"""Requests of one client that wait for their refusal; the others hear it at once."""


class ShareMiddleware:
    def __init__(
        self, app: ASGIApp, connections: int, share_percent: int, turns: Turns, clock: Clock
    ) -> None:
        self._app = app
        self._turns = turns
        self._clock = clock
        share = max(connections * share_percent // 100, 1)
        self._connections = FairSlots(connections, share, MOST_WAITING, WAIT_S)
        self._known: OrderedDict[bytes, str] = OrderedDict()
        self._refused: Counter[str] = Counter()
        self._changes = ChangePace(clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        credentials = _credentials(scope)
        name = self._known.get(credentials) or source_of(scope["client"][0] if scope.get("client") else "")
        changes = scope["method"] not in SAFE_METHODS
        client = Client(name, self._connections, lambda found: self._note(credentials, found))
        begun = False

        async def send_noted(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] in ACCEPTED:
                self._changes.accepted(client.name)
            await send(message)

        async def answer() -> None:
            nonlocal begun
            begun = True
            await self._app(scope, receive, send_noted if changes else send)

        before = current_client.set(client)
        try:
            if changes and self._turns.others_ask(name):
                await self._changes.wait(name)
            await self._turns.run(name, answer())
        except (TooManyRequestsError, UnavailableError) as error:
            if begun:
                raise
            if isinstance(error, TooManyRequestsError):
                await self._let_wait(name)
            await refusal(Request(scope), error)(scope, receive, send)
        finally:
            current_client.reset(before)

    async def _let_wait(self, client: str) -> None:
        if self._refused[client] >= MOST_REFUSED_LATER:
            return
        self._refused[client] += 1
        try:
            await self._clock.sleep(REFUSED_AFTER_S)
        finally:
            self._refused[client] -= 1
            if not self._refused[client]:
                del self._refused[client]

    def _note(self, credentials: bytes, name: str) -> None:
        self._known[credentials] = name
        self._known.move_to_end(credentials)
        if len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)


def _credentials(scope: Scope) -> bytes:
    headers = Headers(scope=scope)
    return hashlib.sha256(f"{headers.get('authorization')}\n{headers.get('cookie')}".encode()).digest()
