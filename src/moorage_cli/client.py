"""The one HTTP client: requests below `/api/v1`, answers as JSON, failures as `CliError`.

A GET is repeated for up to two seconds when the connection breaks, because the API may be restarting; so is the POST of
somebody who is signed in, under one Idempotency-Key, so that it happens once. Anything else is repeated only while no
connection could be made at all: then it cannot have happened twice.
"""

import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from moorage_cli.errors import ApiError, CliError, UnreachableError, UsageError, api_error
from moorage_cli.http import http_client
from moorage_cli.server_sent_events import Event, events_of, lines_of

Record = dict[str, Any]

API_PREFIX = "/api/v1"
RETRY_FOR_S = 2.0
_RETRY_PAUSE_S = 0.1
_MAX_PAGES = 100
_PAGE_SIZE = 200
_TIMEOUT = httpx.Timeout(30.0, connect=5.0)
# The stream sends a comment now and then; a minute of silence means that the other side is gone.
_STREAM_TIMEOUT = httpx.Timeout(60.0, connect=5.0)


@dataclass(frozen=True)
class Answer:
    status: int
    body: Any


class ApiClient:
    def __init__(self, url: str, token: str | None = None, *, retry_for_s: float = RETRY_FOR_S) -> None:
        self.url = url
        self._retry_for_s = retry_for_s
        self._is_signed_in = token is not None
        try:
            self._http = http_client(url, token, _TIMEOUT)
        except (ValueError, httpx.InvalidURL) as exc:
            raise UsageError(f"{url!r} or the token cannot be used: {exc}.") from exc

    def close(self) -> None:
        self._http.close()

    def get(self, path: str, params: Mapping[str, Any] | None = None) -> Any:
        return self.request("GET", path, params=params).body

    def post(self, path: str, body: Record | None = None) -> Any:
        return self.request("POST", path, body=body).body

    def request(
        self, method: str, path: str, *, params: Mapping[str, Any] | None = None, body: Record | None = None
    ) -> Answer:
        response = self._send(method, f"{API_PREFIX}{path}", params=params, body=body)
        if response.is_success:
            return Answer(response.status_code, self._json(response) if response.content else None)
        raise self._refusal(response)

    def download(self, path: str) -> bytes:
        """An answer that is a file."""
        response = self._send("GET", f"{API_PREFIX}{path}")
        if response.is_success:
            return response.content
        raise self._refusal(response)

    def pages(self, path: str, params: Mapping[str, Any] | None = None) -> Iterator[Record]:
        """All items of a list, page after page."""
        wanted = {name: value for name, value in (params or {}).items() if value is not None}
        asked: Record = {"limit": _PAGE_SIZE, **wanted}
        for _ in range(_MAX_PAGES):
            page = self.get(path, asked)
            yield from page["items"]
            if not page.get("next_cursor"):
                return
            asked["cursor"] = page["next_cursor"]
        raise CliError(f"There are more than {_MAX_PAGES} pages of {path}.", code="too_many")

    def is_ready(self) -> bool:
        """By `/readyz`, at the root: 503 is an answer too."""
        response = self._send("GET", "/readyz", repeat_on_status=False)
        body = self._json(response)
        if not isinstance(body, dict) or "status" not in body:
            raise self._foreign(response)
        return bool(body["status"] == "ready")

    @contextmanager
    def events(
        self, path: str, params: Mapping[str, Any], last_event_id: str | None = None
    ) -> Iterator[Iterator[Event]]:
        """A stream of events. A connection that breaks raises `UnreachableError`; the caller reconnects."""
        headers = {"Accept": "text/event-stream"}
        if last_event_id is not None:
            headers["Last-Event-ID"] = last_event_id
        asked = {name: value for name, value in params.items() if value is not None}
        try:
            with self._http.stream(
                "GET", f"{API_PREFIX}{path}", params=asked, headers=headers, timeout=_STREAM_TIMEOUT
            ) as response:
                if not response.is_success:
                    response.read()
                    raise self._refusal(response)
                yield events_of(lines_of(response.iter_bytes()))
        except httpx.TransportError as exc:
            raise UnreachableError(self.url, _why(exc)) from exc

    def _send(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: Record | None = None,
        repeat_on_status: bool = True,
    ) -> httpx.Response:
        deadline = time.monotonic() + self._retry_for_s
        asked = {name: value for name, value in (params or {}).items() if value is not None}
        headers = {}
        if method == "POST" and self._is_signed_in:
            headers["Idempotency-Key"] = str(uuid.uuid4())
        repeatable = method == "GET" or "Idempotency-Key" in headers
        while True:
            try:
                response = self._http.request(method, path, params=asked or None, json=body, headers=headers)
            except httpx.TransportError as exc:
                once_more = repeatable or isinstance(exc, httpx.ConnectError)
                if not once_more or isinstance(exc, httpx.TimeoutException) or time.monotonic() > deadline:
                    raise UnreachableError(self.url, _why(exc)) from exc
            else:
                # A proxy in front of the API says so when nothing is behind it for a moment.
                restarting = response.status_code in (502, 503, 504) and repeatable and repeat_on_status
                if not restarting or time.monotonic() > deadline:
                    return response
            time.sleep(_RETRY_PAUSE_S)

    def _json(self, response: httpx.Response) -> Any:
        try:
            return response.json()
        except ValueError:
            raise self._foreign(response) from None

    def _refusal(self, response: httpx.Response) -> CliError:
        try:
            problem = response.json()
        except ValueError:
            problem = None
        if isinstance(problem, dict) and "status" in problem:
            return api_error(response.status_code, problem)
        return self._foreign(response)

    def _foreign(self, response: httpx.Response) -> CliError:
        return CliError(
            f"{self.url} answered {response.status_code}, but not as Moorage does.",
            code="not_moorage",
            hint="Check the address (--url, MOORAGE_URL, or `moor login --url`).",
        )


def is_absent(error: CliError) -> bool:
    return isinstance(error, ApiError) and error.status == 404


def _why(error: httpx.TransportError) -> str:
    if isinstance(error, httpx.TimeoutException):
        return "no answer in time"
    text = str(error).partition("] ")[2] or str(error) or type(error).__name__
    return text.rstrip(".").lower()
