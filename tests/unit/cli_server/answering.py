"""How it answers: read, held to the API's description, sent."""

import json
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cli_server.state import FakeMoorage
from tests.description import Operation, completed, operation


class Answering(BaseHTTPRequestHandler):
    moorage: FakeMoorage
    _described: Operation | None = None
    protocol_version = "HTTP/1.1"
    # Headers and body leave together; apart, each answer would wait 40 ms for an acknowledgement.
    wbufsize = 65536

    @property
    def token(self) -> str:
        return (self.headers.get("Authorization") or "").removeprefix("Bearer ")

    def _route(self, path: str, query: dict[str, str], body: Any) -> None:
        raise NotImplementedError

    def _chat(self) -> None:
        raise NotImplementedError

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_PUT(self) -> None:
        self._answer()

    def do_PATCH(self) -> None:
        self._answer()

    def do_DELETE(self) -> None:
        self._answer()

    def log_message(self, *_: Any) -> None:
        pass

    def _answer(self) -> None:
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        if parts.path == "/elsewhere/api/v1/me":
            self._send(200, "text/html", b"<h1>Welcome")
            return
        self.moorage.requests.append((self.command, parts.path, query, body))
        self._described = operation(self.command, parts.path)
        if self._described is not None:
            self.moorage.drift += self._described.why_not_request(body)
        self.moorage.headers.append({name.lower(): value for name, value in self.headers.items()})
        if self.command == "GET" and self.moorage.unanswered_gets > 0:
            self.moorage.unanswered_gets -= 1
            self.close_connection = True
            return
        key = self.headers.get("Idempotency-Key")
        if key in self.moorage.done:
            self._json(*self.moorage.done[key])
            return
        if parts.path.startswith("/c/"):
            self._chat()
        elif parts.path == "/readyz":
            ready = self.moorage.ready
            self._json(200 if ready else 503, {"status": "ready" if ready else "not_ready"})
        else:
            self._route(parts.path.removeprefix("/api/v1"), query, body)

    def _page(self, items: list[dict[str, Any]], query: dict[str, str]) -> None:
        start = int(query.get("cursor", 0))
        end = start + min(int(query.get("limit", 50)), self.moorage.page_size)
        self._json(200, {"items": items[start:end], "next_cursor": str(end) if end < len(items) else None})

    def _one(self, found: list[dict[str, Any]]) -> None:
        if found:
            self._json(200, found[0])
        else:
            self._problem(404, "not_found", "There is no such thing.")

    def _problem(self, status: int, code: str, detail: str) -> None:
        self._json(status, {"status": status, "code": code, "detail": detail, "request_id": "req_1"})

    def _as_described(self, status: int, body: Any) -> Any:
        asked, drift = self._described, self.moorage.drift
        if asked is None:
            if status < 400:
                drift.append(f"{self.command} {self.path} is not described")
            return body
        if status >= 400 and asked.schema(status) is None:
            if body["code"] not in asked.codes(status):
                drift.append(
                    f"{asked.method} {asked.path} is not described to answer {status} {body['code']}"
                )
            return body
        schema = asked.schema(status)
        told = completed(schema, body) if schema is not None else body
        drift += asked.why_not_answer(status, told)
        return told

    def _json(self, status: int, body: Any) -> None:
        body = self._as_described(status, body)
        key = self.headers.get("Idempotency-Key")
        if key is not None:
            self.moorage.done[key] = status, body
        if self.command == "POST" and self.moorage.unanswered_posts > 0:
            self.moorage.unanswered_posts -= 1
            self.close_connection = True
            return
        self._send(status, "application/json", b"" if body is None else json.dumps(body).encode())

    def _send(self, status: int, kind: str, content: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)
