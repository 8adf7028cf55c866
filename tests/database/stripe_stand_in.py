"""A payment provider that speaks Stripe's API over HTTP and remembers what happened.

Checkout pages, idempotency keys, payments, refunds and disputes, and events signed as Stripe signs them. Whoever tests
decides when an event is delivered, how often and in which order.
"""

import hashlib
import hmac
import itertools
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.ports import free_port

SECRET_KEY = "sk_test_stand_in"
WEBHOOK_SECRET = "whsec_stand_in"

Event = dict[str, Any]


Answer = tuple[int, dict[str, Any]]


class Stripe:
    def __init__(self) -> None:
        self.url = ""
        self.customers: dict[str, dict[str, Any]] = {}
        self.sessions: dict[str, dict[str, Any]] = {}
        self.intents: dict[str, dict[str, Any]] = {}
        self.methods: dict[str, dict[str, Any]] = {}
        self.refunds: list[dict[str, Any]] = []
        self.disputes: list[dict[str, Any]] = []
        self.by_key: dict[str, tuple[str, dict[str, str], Answer]] = {}
        self.refusal: str | None = None
        """The code with which cards are refused when nobody is present; None: they are charged."""
        self.lost_answers = 0
        """So many answers are not sent, although what was asked for is done."""
        self.down = False
        """Every request is answered with 500, and nothing is done."""
        self.connections = 0
        self.page_size = 100
        self._numbers = itertools.count(1)

    def create_session(self, form: dict[str, str]) -> Answer:
        session_id = f"cs_test_{next(self._numbers)}"
        session: dict[str, Any] = {
            "id": session_id,
            "object": "checkout.session",
            "mode": form["mode"],
            "status": "open",
            "url": f"{self.url}/pay/{session_id}",
            "customer": form.get("customer"),
            "payment_intent": None,
        }
        if form["mode"] == "payment":
            session |= {
                "client_reference_id": form["client_reference_id"],
                "amount_total": int(form["line_items[0][price_data][unit_amount]"]),
                "currency": form["line_items[0][price_data][currency]"],
                "payment_status": "unpaid",
                "intent_metadata": _metadata(form, "payment_intent_data[metadata]"),
            }
        elif form["customer"] not in self.customers:
            return 404, _error("invalid_request_error", "No such customer.")
        self.sessions[session_id] = session
        return 200, session

    def create_customer(self, form: dict[str, str]) -> Answer:
        customer_id = f"cus_{next(self._numbers)}"
        metadata = {"organization_id": form["metadata[organization_id]"]}
        self.customers[customer_id] = {"id": customer_id, "object": "customer", "metadata": metadata}
        return 200, self.customers[customer_id]

    def create_intent(self, form: dict[str, str]) -> Answer:
        """A card is charged with nobody present."""
        method = self.methods.get(form["payment_method"])
        if method is None or method["customer"] != form["customer"] or form["off_session"] != "true":
            return 400, _error("invalid_request_error", "The customer has no such card.")
        intent_id = f"pi_{next(self._numbers)}"
        intent = {
            "id": intent_id,
            "object": "payment_intent",
            "status": "requires_payment_method" if self.refusal else "succeeded",
            "currency": form["currency"],
            "amount_received": 0 if self.refusal else int(form["amount"]),
            "customer": form["customer"],
            "created": int(time.time()),
            "metadata": _metadata(form, "metadata"),
            "latest_charge": _charge(method["card"]["last4"]),
        }
        self.intents[intent_id] = intent
        if self.refusal is None:
            return 200, intent
        refused = _error("card_error", f"Your card was refused ({self.refusal}).")
        refused["error"] |= {"code": self.refusal, "payment_intent": intent}
        return 402, refused

    def save_card(self, session_id: str, last4: str = "4242") -> Event:
        """Somebody enters a card on a page that charges nothing."""
        session = self.sessions[session_id]
        number = next(self._numbers)
        self.methods[f"pm_{number}"] = {
            "id": f"pm_{number}",
            "object": "payment_method",
            "type": "card",
            "customer": session["customer"],
            "created": number,
            "card": {
                "brand": "visa",
                "last4": last4,
                "exp_month": 12,
                "exp_year": 2030,
                "fingerprint": f"fingerprint_{last4}",
            },
        }
        return self._event("checkout.session.completed", session)

    def charged(self) -> list[int]:
        """Of payments that went through, in cents."""
        return [one["amount_received"] for one in self.intents.values() if one["status"] == "succeeded"]

    def pay(self, session_id: str, last4: str = "4242", **changes: Any) -> Event:
        """Somebody enters a card that works on the page."""
        session = self.sessions[session_id]
        intent_id = f"pi_{next(self._numbers)}"
        self.intents[intent_id] = {
            "id": intent_id,
            "object": "payment_intent",
            "status": "succeeded",
            "currency": session["currency"],
            "amount_received": session["amount_total"],
            "created": int(time.time()),
            "metadata": dict(session["intent_metadata"]),
            "latest_charge": _charge(last4),
            **changes,
        }
        session.update(status="complete", payment_status="paid", payment_intent=intent_id)
        return self._event("checkout.session.completed", session)

    def refund(self, intent_id: str, cents: int) -> Event:
        refund = {
            "id": f"re_{next(self._numbers)}",
            "object": "refund",
            "amount": cents,
            "status": "succeeded",
            "payment_intent": intent_id,
        }
        self.refunds.append(refund)
        charge = {"id": f"ch_{intent_id}", "object": "charge", "payment_intent": intent_id}
        return self._event("charge.refunded", charge)

    def dispute(self, intent_id: str, cents: int) -> Event:
        dispute = {
            "id": f"dp_{next(self._numbers)}",
            "object": "dispute",
            "amount": cents,
            "status": "needs_response",
            "payment_intent": intent_id,
        }
        self.disputes.append(dispute)
        return self._event("charge.dispute.created", dispute)

    def close_dispute(self, won: bool, number: int = -1) -> Event:
        self.disputes[number]["status"] = "won" if won else "lost"
        return self._event("charge.dispute.closed", self.disputes[number])

    def intent_of(self, session_id: str) -> str:
        return str(self.sessions[session_id]["payment_intent"])

    def _event(self, kind: str, about: dict[str, Any]) -> Event:
        # What was true when it happened: a late delivery tells of the past.
        return {
            "id": f"evt_{next(self._numbers)}",
            "object": "event",
            "type": kind,
            "data": {"object": dict(about)},
        }

    def event_of(self, intent_id: str) -> Event:
        succeeded = self.intents[intent_id]["status"] == "succeeded"
        kind = "payment_intent.succeeded" if succeeded else "payment_intent.payment_failed"
        return self._event(kind, self.intents[intent_id])

    def answer(self, method: str, path: str, form: dict[str, str], key: str | None) -> Answer:
        """A repeated key gets the answer of the first time, refusals included."""
        if self.down:
            return 500, _error("api_error", "Out of order.")
        if method != "POST" or key is None:
            return self._answer(method, path, form)
        if key not in self.by_key:
            status, body = self._answer(method, path, form)
            self.by_key[key] = (path, form, (status, json.loads(json.dumps(body))))
        known_path, known_form, answer = self.by_key[key]
        if (known_path, known_form) != (path, form):
            return 400, _error("idempotency_error", "Keys can only be used with the same parameters.")
        return answer

    def _list_intents(self, path: str, form: dict[str, str]) -> dict[str, Any]:
        """Newest first, a page at a time, as Stripe does."""
        every = [
            one
            for one in reversed(self.intents.values())
            if form.get("customer") in (None, one.get("customer"))
            and one["created"] >= int(form.get("created[gte]", 0))
        ]
        ids = [one["id"] for one in every]
        first = ids.index(form["starting_after"]) + 1 if "starting_after" in form else 0
        last = first + min(int(form["limit"]), self.page_size)
        return {"object": "list", "data": every[first:last], "has_more": last < len(every), "url": path}

    def _answer(self, method: str, path: str, form: dict[str, str]) -> Answer:
        match [method, *path.strip("/").split("/")]:
            case ["POST", "v1", "customers"]:
                return self.create_customer(form)
            case ["POST", "v1", "checkout", "sessions"]:
                return self.create_session(form)
            case ["POST", "v1", "payment_intents"]:
                return self.create_intent(form)
            case ["GET", "v1", "payment_methods"]:
                mine = [one for one in self.methods.values() if one["customer"] == form["customer"]]
                return 200, {"object": "list", "data": mine, "has_more": False, "url": path}
            case ["POST", "v1", "payment_methods", method_id, "detach"] if method_id in self.methods:
                self.methods[method_id]["customer"] = None
                return 200, self.methods[method_id]
            case ["GET", "v1", "checkout", "sessions", session_id] if session_id in self.sessions:
                return 200, self.sessions[session_id]
            case ["GET", "v1", "payment_intents"]:
                return 200, self._list_intents(path, form)
            case ["GET", "v1", "payment_intents", intent_id] if intent_id in self.intents:
                return 200, self.intents[intent_id]
            case ["GET", "v1", "refunds" | "disputes" as kind]:
                every = self.refunds if kind == "refunds" else self.disputes
                mine = [one for one in every if one["payment_intent"] == form["payment_intent"]]
                return 200, {"object": "list", "data": mine, "has_more": False, "url": path}
        return 404, _error("invalid_request_error", f"No such object: {path}")


def _metadata(form: dict[str, str], name: str) -> dict[str, str]:
    return {key[len(name) + 1 : -1]: value for key, value in form.items() if key.startswith(f"{name}[")}


def _charge(last4: str) -> dict[str, Any]:
    card = {"last4": last4, "fingerprint": f"fingerprint_{last4}"}
    return {"object": "charge", "payment_method_details": {"type": "card", "card": card}}


def signed(event: Event, *, secret: str = WEBHOOK_SECRET, age_s: int = 0) -> tuple[bytes, str]:
    """The body as it is sent, and its `Stripe-Signature`."""
    body = json.dumps(event).encode()
    at = int(time.time()) - age_s
    digest = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return body, f"t={at},v1={digest}"


@contextmanager
def serving() -> Iterator[Stripe]:
    stripe = Stripe()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 65536

        def setup(self) -> None:
            super().setup()
            stripe.connections += 1

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            if parts.path.startswith("/pay/"):
                page = b"<form method=post><button>Pay</button></form>"
                return self._send(200, "text/html", page)
            return self._api(parts.path, dict(parse_qsl(parts.query)))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            path = urlsplit(self.path).path
            if path.startswith("/pay/"):
                stripe.pay(path.removeprefix("/pay/"))
                return self._send(200, "text/html", b"Thank you")
            return self._api(path, dict(parse_qsl(body)))

        def _api(self, path: str, form: dict[str, str]) -> None:
            if self.headers.get("Authorization") != f"Bearer {SECRET_KEY}":
                return self._json(401, _error("authentication_error", "Invalid API key."))
            answer = stripe.answer(self.command, path, form, self.headers.get("Idempotency-Key"))
            if stripe.lost_answers > 0:
                stripe.lost_answers -= 1
                self.close_connection = True
                return None
            return self._json(*answer)

        def _json(self, status: int, body: dict[str, Any]) -> None:
            self._send(status, "application/json", json.dumps(body).encode())

        def _send(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", free_port()), Handler)
    stripe.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield stripe
    finally:
        server.shutdown()
        thread.join(5)
        server.server_close()


def _error(kind: str, message: str) -> dict[str, Any]:
    return {"error": {"type": kind, "message": message}}
