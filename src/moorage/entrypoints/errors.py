"""From our errors to HTTP: RFC 9457 problem documents with a stable `code`, and a page for somebody who opened an address
in a browser. The only place that knows both."""

import json
from collections.abc import Mapping, Sequence
from html import escape
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from moorage.kit.database import DatabaseAwayError, is_lost
from moorage.kit.errors import (
    ConflictError,
    FieldError,
    ForbiddenError,
    InsufficientCreditError,
    InvalidInputError,
    MoorageError,
    NotAuthenticatedError,
    NotFoundError,
    TooManyRequestsError,
    UnavailableError,
)
from moorage.kit.pages import page
from moorage.kit.web import SAFE_METHODS

log = structlog.get_logger()

MOST_FIELDS_TOLD = 20
"""Of those that are wrong: nobody reads more, and an answer must not be larger than what was sent."""
_RETRY_AFTER_S = 5
_MOST_NAME_CHARACTERS, _MOST_MESSAGE_CHARACTERS = 100, 300

_BOUNDS = {
    "greater_than_equal": ("ge", "must be at least {}"),
    "greater_than": ("gt", "must be more than {}"),
    "less_than_equal": ("le", "must be at most {}"),
    "less_than": ("lt", "must be less than {}"),
}
"""As people say what pydantic says like a formula: which value of its context, and the words around it."""

# What Postgres says of NUL, in text and in JSON: the one character that it cannot keep.
_NUL_SQL_STATES = ("22021", "22P05")

_STATUSES: dict[type[MoorageError], HTTPStatus] = {
    InvalidInputError: HTTPStatus.UNPROCESSABLE_ENTITY,
    NotAuthenticatedError: HTTPStatus.UNAUTHORIZED,
    ForbiddenError: HTTPStatus.FORBIDDEN,
    NotFoundError: HTTPStatus.NOT_FOUND,
    ConflictError: HTTPStatus.CONFLICT,
    InsufficientCreditError: HTTPStatus.PAYMENT_REQUIRED,
    TooManyRequestsError: HTTPStatus.TOO_MANY_REQUESTS,
    UnavailableError: HTTPStatus.SERVICE_UNAVAILABLE,
}


def install_error_handlers(app: FastAPI, support_contact: str) -> None:
    @app.exception_handler(MoorageError)
    async def expected(request: Request, error: MoorageError) -> Response:
        is_told = status_of(type(error)) is not None
        return refusal(request, error) if is_told else unexpected_answer(request, error)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        wrong = error.errors()
        fields = tuple(FieldError(_field(one), _message(one)) for one in wrong[:MOST_FIELDS_TOLD])
        more = f"; and {len(wrong) - len(fields)} more" if len(wrong) > len(fields) else ""
        detail = "; ".join(f"{one.field}: {one.message}" for one in fields) + f"{more}."
        return problem(request, HTTPStatus.UNPROCESSABLE_ENTITY, "invalid_input", detail, fields)

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        status = HTTPStatus(error.status_code)
        if status == HTTPStatus.BAD_REQUEST:
            # FastAPI's word for a body that is not even text, or nested deeper than anybody means.
            fields = (FieldError("body", "must be JSON"),)
            return problem(
                request, HTTPStatus.UNPROCESSABLE_ENTITY, "invalid_input", "The body must be JSON.", fields
            )
        codes = {404: "not_found", 405: "method_not_allowed"}
        detail = {
            404: "There is nothing at this path.",
            405: "This path does not accept that method.",
        }
        answer = problem(
            request, status, codes.get(status, "http_error"), detail.get(status, str(error.detail))
        )
        answer.headers.update(error.headers or {})
        return answer

    @app.exception_handler(DBAPIError)
    async def refused_by_database(request: Request, error: DBAPIError) -> Response:
        if is_lost(error):
            return await database_away(request, error)
        if getattr(error.orig, "sqlstate", None) not in _NUL_SQL_STATES:
            raise error
        if any("\x00" in str(value) for value in request.path_params.values()):
            return problem(request, HTTPStatus.NOT_FOUND, "not_found", "There is nothing at this path.")
        detail = "Text must not contain the character NUL."
        return problem(request, HTTPStatus.UNPROCESSABLE_ENTITY, "invalid_input", detail)

    @app.exception_handler(ClientDisconnect)
    async def client_left(request: Request, _: ClientDisconnect) -> Response:
        # Nobody reads it, and nothing went wrong here: a client must not fill our log by leaving.
        detail = "The request ended before it was complete."
        return problem(request, HTTPStatus.BAD_REQUEST, "bad_request", detail)

    @app.exception_handler(DatabaseAwayError)
    async def database_away(request: Request, error: Exception) -> Response:
        log.warning("database_away", error=str(error)[:200], request_id=_request_id(request))
        undecided = (
            "" if request.method in SAFE_METHODS else " First check whether the request was carried out."
        )
        message = (
            f"The service cannot reach its database. Send the request again in a few seconds.{undecided}"
        )
        return refusal(request, UnavailableError(message))

    @app.exception_handler(PoolTimeoutError)
    async def no_connection(request: Request, error: PoolTimeoutError) -> Response:
        log.warning("database_pool_exhausted", request_id=_request_id(request))
        return await expected(
            request, UnavailableError("The service is very busy. Send the request again later.", code="busy")
        )

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> Response:
        return unexpected_answer(request, error)

    def unexpected_answer(request: Request, error: Exception) -> Response:
        log.error("request_failed", path=request.url.path, request_id=_request_id(request), exc_info=error)
        detail = (
            f"Something went wrong on our side. If it happens again, tell {support_contact} the request id."
        )
        return problem(request, HTTPStatus.INTERNAL_SERVER_ERROR, "internal_error", detail)


def status_of(kind: type[MoorageError]) -> HTTPStatus | None:
    """None for what a client can do nothing about: that is answered as an unexpected error."""
    return next((status for told, status in _STATUSES.items() if issubclass(kind, told)), None)


def refusal(request: Request, error: MoorageError) -> Response:
    """The answer to one of the errors that a client can do something about."""
    status = status_of(type(error))
    assert status is not None, "everything else is unexpected"
    fields = error.fields if isinstance(error, InvalidInputError) else ()
    more = {"missing_microusd": error.missing_microusd} if isinstance(error, InsufficientCreditError) else {}
    answer = problem(request, status, error.code, error.message, fields, more)
    if isinstance(error, TooManyRequestsError):
        answer.headers["Retry-After"] = str(error.retry_after_s)
    if isinstance(error, UnavailableError):
        answer.headers["Retry-After"] = str(_RETRY_AFTER_S)
    if isinstance(error, NotAuthenticatedError):
        answer.headers["WWW-Authenticate"] = "Bearer"
    return answer


def problem(
    request: Request,
    status: HTTPStatus,
    code: str,
    detail: str,
    fields: Sequence[FieldError] = (),
    more: Mapping[str, int] | None = None,
) -> Response:
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": status.phrase,
        "status": status.value,
        "code": code,
        "detail": detail,
        "request_id": _request_id(request),
        **(more or {}),
    }
    if fields:
        body["errors"] = [{"field": one.field, "message": one.message} for one in fields]
    answer: Response = ProblemResponse(body, status_code=status.value)
    # Only a browser that opens an address asks for HTML; the console and every program read the document.
    if "text/html" in request.headers.get("accept", ""):
        answer = page(status.phrase, f"<p>{escape(detail)}</p>{_mention(body['request_id'])}", status.value)
    # An unexpected error is answered outside of the middleware that would set it.
    answer.headers["X-Request-ID"] = body["request_id"] or ""
    return answer


class ProblemResponse(JSONResponse):
    media_type = "application/problem+json"

    def render(self, content: Any) -> bytes:
        # Only ASCII: what was wrong may be half a surrogate pair, which UTF-8 cannot carry.
        return json.dumps(content).encode("ascii")


def _mention(request_id: str | None) -> str:
    return f"<p>Request <code>{escape(request_id)}</code></p>" if request_id else ""


def _request_id(request: Request) -> str | None:
    return getattr(request.state, "request_id", None)


def _field(error: Mapping[str, Any]) -> str:
    # FastAPI puts "body", "query" or "path" first; for a JSON mistake the rest is only an offset.
    names = [] if error["type"] == "json_invalid" else [str(part) for part in error["loc"][1:]]
    return _cut(".".join(names), _MOST_NAME_CHARACTERS) or "body"


def _message(error: Mapping[str, Any]) -> str:
    if error["type"] == "json_invalid":
        return f"must be JSON; at character {error['loc'][1]}: {error['ctx']['error'].lower()}"
    if error["type"] in _BOUNDS:
        name, words = _BOUNDS[error["type"]]
        return words.format(error["ctx"][name])
    message: str = error["msg"].removeprefix("Value error, ")
    return _cut(message[:1].lower() + message[1:], _MOST_MESSAGE_CHARACTERS)


def _cut(text: str, most_characters: int) -> str:
    """What is wrong may be as long as the body, and is the client's own text."""
    return text if len(text) <= most_characters else f"{text[:most_characters]}…"
