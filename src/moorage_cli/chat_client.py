"""Chat with a container through the gateway, as any OpenAI-compatible client would."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx

from moorage_cli.client import Record
from moorage_cli.errors import CliError, ExitCode, UnreachableError
from moorage_cli.http import http_client
from moorage_cli.server_sent_events import events_of, lines_of

PATH = "/api/v1/chat/completions"
"""The promised one; with the setting api_path it reaches servers that have their API at /v1 as well."""
OWN_PATH = "/v1/chat/completions"
"""Of such a server, whose setting was not made: it is asked there, and somebody is told."""
_TIMEOUT = httpx.Timeout(600.0, connect=5.0)
_RETRY_PAUSE_S = 0.2


@dataclass
class Reply:
    """Filled while it arrives."""

    request_id: str | None = None
    time_to_first_token_s: float | None = None
    total_s: float = 0.0
    parts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.parts)

    def to_json(self) -> Record:
        return {
            "request_id": self.request_id,
            "time_to_first_token_s": self.time_to_first_token_s,
            "total_s": self.total_s,
        }


class ChatClient:
    def __init__(self, endpoint_url: str, key: str, *, key_is_new: bool = False) -> None:
        self._endpoint_url = endpoint_url
        self._path = PATH
        # A gateway learns of a new key within seconds; until then it refuses it.
        self._patient_until_s = time.monotonic() + (10.0 if key_is_new else 0.0)
        self._http = http_client(endpoint_url, key, _TIMEOUT)

    @property
    def serves_v1(self) -> bool:
        """It was not at the promised path, and is asked at its own."""
        return self._path == OWN_PATH

    def close(self) -> None:
        self._http.close()

    def ask(self, body: Record, on_text: Callable[[str], None]) -> Reply:
        """The whole reply; each part of it also goes to `on_text` as it arrives."""
        while True:
            try:
                return self._ask_once(self._path, body, on_text)
            except _Refused as refused:
                if refused.status == 404 and self._path == PATH and not refused.from_gateway:
                    return self._ask_at_own_path(body, on_text, refused)
                if refused.status == 401 and time.monotonic() < self._patient_until_s:
                    time.sleep(_RETRY_PAUSE_S)
                else:
                    raise refused.error from refused

    def _ask_at_own_path(self, body: Record, on_text: Callable[[str], None], refused: "_Refused") -> Reply:
        """It may serve /v1, or know the promised path and not the model: only an answer shows the first."""
        try:
            reply = self._ask_once(OWN_PATH, body, on_text)
        except _Refused as there_too:
            known_here = there_too.status == 404 and (refused.is_explained or not there_too.is_explained)
            raise (refused if known_here else there_too).error from there_too
        self._path = OWN_PATH
        return reply

    def _ask_once(self, path: str, body: Record, on_text: Callable[[str], None]) -> Reply:
        reply, began_s = Reply(), time.monotonic()
        try:
            with self._http.stream("POST", path, json=body) as response:
                reply.request_id = response.headers.get("x-request-id")
                if not response.is_success:
                    response.read()
                    raise _Refused(response)
                for text in _texts(response):
                    if reply.time_to_first_token_s is None:
                        reply.time_to_first_token_s = time.monotonic() - began_s
                    reply.parts.append(text)
                    on_text(text)
        except httpx.ConnectError as exc:
            raise UnreachableError(self._endpoint_url, "connection refused") from exc
        except httpx.TransportError as exc:
            raise CliError(
                f"The connection to {self._endpoint_url} broke: {exc or type(exc).__name__}.",
                code="connection_lost",
                request_id=reply.request_id,
            ) from exc
        reply.total_s = time.monotonic() - began_s
        return reply


class _Refused(Exception):  # noqa: N818 - never leaves this module
    def __init__(self, response: httpx.Response) -> None:
        super().__init__(response.status_code)
        self.status = response.status_code
        error = _error_of(response)
        code = str(error.get("code") or error.get("type") or f"http_{self.status}")
        self.is_explained = bool(error.get("message"))
        # The gateway's own words carry its request id; a container's 404 does not.
        self.from_gateway = "request_id" in error
        message = str(error.get("message") or f"The container answered {self.status}.")
        exit_codes = {401: ExitCode.NOT_SIGNED_IN, 403: ExitCode.FORBIDDEN, 404: ExitCode.NOT_FOUND}
        self.error = CliError(
            message,
            exit_codes.get(self.status, ExitCode.FAILED),
            code=code,
            hint="Give a key of the container's project with --key or MOORAGE_API_KEY."
            if self.status == 401
            else None,
            request_id=response.headers.get("x-request-id") or error.get("request_id"),
            status=self.status,
        )


def _texts(response: httpx.Response) -> Iterator[str]:
    if "text/event-stream" not in response.headers.get("content-type", ""):
        response.read()
        yield _content(_parsed(response.text), "message")
        return
    for event in events_of(lines_of(response.iter_bytes())):
        if event.data == "[DONE]":
            return
        chunk = _parsed(event.data)
        if isinstance(chunk, dict) and chunk.get("error"):
            error = chunk["error"]
            raise CliError(
                str(error.get("message") if isinstance(error, dict) else error), code="stream_error"
            )
        text = _content(chunk, "delta")
        if text:
            yield text
    raise CliError("The stream ended before the answer was complete.", code="stream_incomplete")


def _content(answer: Any, key: str) -> str:
    try:
        choices = answer["choices"]
        return str(choices[0][key].get("content") or "") if choices else ""
    except (KeyError, IndexError, TypeError, AttributeError):
        raise _not_chat() from None


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise _not_chat() from None


def _not_chat() -> CliError:
    return CliError(
        "The container's answer is not a chat completion.",
        code="not_chat",
        hint="`moor chat` speaks to OpenAI-compatible servers only.",
    )


def _error_of(response: httpx.Response) -> Record:
    try:
        body = response.json()
    except ValueError:
        return {}
    error = body.get("error") if isinstance(body, dict) else None
    if isinstance(error, dict):
        return error
    return {"message": error} if isinstance(error, str) else {}
