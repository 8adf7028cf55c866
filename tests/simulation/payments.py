"""The payment provider, behind the transport of the real `stripe` library, and how its events arrive.

What it knows is what was really paid: the invariants compare the books with it (`invariants_payments.py`).
"""

import asyncio
import contextlib
import contextvars
import copy
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

import httpx
import stripe

from tests.database.stripe_stand_in import SECRET_KEY, WEBHOOK_SECRET, Event, Stripe, signed
from tests.simulation.faults import Faults
from tests.simulation.loop import PROCESS, SimulationLoop
from tests.simulation.world import World

SETTINGS = {
    "stripe_secret_key": SECRET_KEY,
    "stripe_webhook_secret": WEBHOOK_SECRET,
    "stripe_api_base": "http://payments.test",
}
TIMEOUT_S = 20.0
PAGE_LIVES_S = 24 * 3600.0
KEY_LIVES_S = 24 * 3600.0
"""For so long a repeated request is recognized."""


class Bank(Stripe):
    """The provider with times: pages and keys that end, and when each thing happened."""

    def __init__(self, loop: SimulationLoop) -> None:
        super().__init__()
        self._loop = loop
        self.url = "http://payments.test"
        self.happened_at_s: dict[str, float] = {}
        """By the id of an intent, a refund or a dispute: since when the provider says what it says."""
        self.tell: Callable[[Event], None] = lambda event: None
        """Of what happened without a page."""
        self.charges: list[bool] = []
        """With nobody present: whether the bank allowed it."""
        self._opened_at_s: dict[str, float] = {}
        self._keys_at_s: dict[str, float] = {}

    def answer(self, method: str, path: str, form: dict[str, str], key: str | None) -> Any:
        now_s = self._loop.time()
        for session_id, session in self.sessions.items():
            if session["status"] == "open" and now_s - self._opened_at_s[session_id] > PAGE_LIVES_S:
                session["status"] = "expired"
        if key is not None and now_s - self._keys_at_s.setdefault(key, now_s) > KEY_LIVES_S:
            self.by_key.pop(key, None)
            self._keys_at_s[key] = now_s
        status, body = super().answer(method, path, form, key)
        # What was asked before is answered as it was then: nothing of ours is handed out.
        return status, copy.deepcopy(body)

    def create_session(self, form: dict[str, str]) -> Any:
        status, session = super().create_session(form)
        if status == 200:
            self._opened_at_s[session["id"]] = self._loop.time()
        return status, session

    def create_intent(self, form: dict[str, str]) -> Any:
        status, body = super().create_intent(form)
        intent = body if status == 200 else body["error"].get("payment_intent")
        if intent is not None:
            intent["created"] = int(self._loop.time())
            self.happened_at_s[intent["id"]] = self._loop.time()
            self.charges.append(status == 200)
            self.tell(self.event_of(intent["id"]))
        return status, body

    def is_open(self, session_id: str) -> bool:
        young = self._loop.time() - self._opened_at_s[session_id] <= PAGE_LIVES_S
        return self.sessions[session_id]["status"] == "open" and young

    def pay(self, session_id: str, last4: str = "4242", **changes: Any) -> Event:
        event = super().pay(session_id, last4, created=int(self._loop.time()), **changes)
        self.happened_at_s[self.intent_of(session_id)] = self._loop.time()
        return event

    def refund(self, intent_id: str, cents: int) -> Event:
        event = super().refund(intent_id, cents)
        self.happened_at_s[self.refunds[-1]["id"]] = self._loop.time()
        return event

    def dispute(self, intent_id: str, cents: int) -> Event:
        event = super().dispute(intent_id, cents)
        self.happened_at_s[self.disputes[-1]["id"]] = self._loop.time()
        return event

    def close_dispute(self, won: bool, number: int = -1) -> Event:
        event = super().close_dispute(won, number)
        self.happened_at_s[self.disputes[number]["id"]] = self._loop.time()
        return event

    def paid(self) -> dict[str, tuple[int, float]]:
        """By payment of ours: how many cents were paid in all, and when last."""
        found: dict[str, tuple[int, float]] = {}
        for intent_id, intent in self.intents.items():
            if intent["status"] == "succeeded":
                top_up_id = intent["metadata"]["top_up_id"]
                cents, at_s = found.get(top_up_id, (0, 0.0))
                since_s = max(at_s, self.happened_at_s[intent_id])
                found[top_up_id] = (cents + intent["amount_received"], since_s)
        return found


@dataclass
class BankTransport(httpx.AsyncBaseTransport):
    """One call of a process to the provider, with everything that may happen to it."""

    bank: Bank
    faults: Faults
    chance: random.Random
    _earlier: dict[str, httpx.Response] = field(default_factory=dict)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        faults, rates = self.faults, self.faults.rates
        words = f"{request.method} {request.url.path}"
        delay_s = self.chance.choice((0.05, 0.2, 0.6))
        if faults.happens(rates.provider_slow):
            faults.story.count("provider slow")
            delay_s = self.chance.uniform(1.0, 40.0)
        await asyncio.sleep(min(delay_s, TIMEOUT_S))
        late = delay_s > TIMEOUT_S and self.chance.random() < 0.5
        await self._perhaps_die(words, "before")
        if delay_s > TIMEOUT_S and not late:
            raise httpx.ReadTimeout("no answer in time", request=request)
        if faults.happens(rates.provider_fails):
            faults.story.count("provider fails")
            raise httpx.ConnectError("not reachable", request=request)
        response = await self._answer(request)
        await self._perhaps_die(words, "after")
        if late or faults.happens(rates.provider_reply_lost):
            faults.story.count("provider reply lost")
            faults.story.tell(self._process_name(), f"provider: {words} is done, the reply lost")
            raise httpx.ReadError("the connection broke", request=request)
        return self._perhaps_stale(request, response)

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        body = (await request.aread()).decode()
        form = dict(parse_qsl(body if request.method == "POST" else request.url.query.decode()))
        key = request.headers.get("Idempotency-Key")
        status, answer = self.bank.answer(request.method, request.url.path, form, key)
        return httpx.Response(status, json=answer, request=request)

    def _perhaps_stale(self, request: httpx.Request, response: httpx.Response) -> httpx.Response:
        if request.method != "GET":
            return response
        earlier = self._earlier.get(str(request.url), response)
        self._earlier[str(request.url)] = response
        if self.faults.happens(self.faults.rates.provider_stale):
            self.faults.story.count("provider answer stale")
            return httpx.Response(earlier.status_code, content=earlier.content, request=request)
        return response

    async def _perhaps_die(self, words: str, when: str) -> None:
        process = PROCESS.get()
        if process is not None and self.faults.dies(self.faults.rates.crash_at_provider):
            self.faults.story.count(f"crash {when} provider call")
            self.faults.story.tell(process.name, f"dies {when} {words} at the provider")
            self.faults.crash(process)
            await asyncio.Future()

    def _process_name(self) -> str:
        process = PROCESS.get()
        return process.name if process is not None else "nobody"


@contextlib.contextmanager
def payments_at(transport: BankTransport) -> Iterator[None]:
    """Whoever makes a client of the `stripe` library from here on speaks to the simulated provider."""
    real = stripe.HTTPXClient

    class SimulatedClient(real):  # type: ignore[misc,valid-type]
        def __init__(self, timeout: float) -> None:
            super().__init__(timeout=timeout, verify_ssl_certs=False)
            self._client_async = httpx.AsyncClient(transport=transport)

    stripe.HTTPXClient = SimulatedClient  # type: ignore[misc]
    try:
        yield
    finally:
        stripe.HTTPXClient = real  # type: ignore[misc]


@dataclass
class Events:
    """The provider's deliveries: late, twice, in any order, or never."""

    world: World
    sent: set[asyncio.Task[None]] = field(default_factory=set)

    def send(self, event: Event, chance: random.Random) -> None:
        if chance.random() < 0.2:
            self.world.story.count("event lost")
            return
        times = 2 if chance.random() < 0.2 else 1
        self.world.story.counts["event repeated"] += times - 1
        for _ in range(times):
            delay_s = chance.choice((0.1, 2.0, 30.0, 900.0, 9000.0))
            self._later(event, delay_s, tries_left=4)

    def _later(self, event: Event, delay_s: float, tries_left: int) -> None:
        if delay_s > 600:
            self.world.story.count("event late")
        self.world.loop.call_later(delay_s, self._begin, event, tries_left, context=contextvars.Context())

    def _begin(self, event: Event, tries_left: int) -> None:
        task = self.world.loop.create_task(self._deliver(event, tries_left), context=contextvars.Context())
        self.sent.add(task)
        task.add_done_callback(self.sent.discard)

    async def _deliver(self, event: Event, tries_left: int) -> None:
        body, signature = signed(event)
        answer = await self.world.post_bytes("/webhooks/stripe", body, {"Stripe-Signature": signature})
        self.world.story.tell("provider", f"tells of {event['type']}: {answer.status or 'no answer'}")
        if answer.status == 500 and self.world.is_calm():
            self.world.crashes.append(f"{event['type']}: {answer.body}")
        if answer.status != 200 and tries_left:
            self._later(event, 120.0, tries_left - 1)
