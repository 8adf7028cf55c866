"""The gateway's own answers, as HAProxy's configuration spells them. Pure.

Endpoints speak the shape that OpenAI clients read, the management address the API's own (RFC 9457).
The texts stand in single quotes in the configuration: no apostrophes, no percent signs.
"""

from dataclasses import dataclass

_REQUEST_ID = "%[unique-id]"


@dataclass(frozen=True)
class _Answer:
    status: int
    message: str
    type: str


@dataclass(frozen=True)
class EndpointAnswer:
    """One of them, as a page lists it."""

    code: str
    status: int
    message: str


_SERVER_ERROR = "server_error"

_ENDPOINT_ANSWERS = {
    "bad_request": _Answer(
        400, "The request is not valid HTTP, or ended before it was complete.", "invalid_request_error"
    ),
    "request_timeout": _Answer(408, "The request did not arrive in time.", "invalid_request_error"),
    "authentication_failed": _Answer(
        401, "Invalid or missing API key. Send it as: Authorization: Bearer <API_KEY>", "authentication_error"
    ),
    "not_found": _Answer(404, "Invalid container ID or endpoint path", "not_found_error"),
    "container_not_running": _Answer(
        503, "The container is not running, or none of its replicas is ready.", _SERVER_ERROR
    ),
    "container_asleep": _Answer(
        503,
        "The container is asleep, and what wakes it does not answer right now. Try again in a few seconds.",
        _SERVER_ERROR,
    ),
    "wake_interrupted": _Answer(
        502,
        "The gateway was restarted while this request waited for the container to wake. Send it again.",
        _SERVER_ERROR,
    ),
    "wake_timeout": _Answer(504, "The container did not wake in time.", _SERVER_ERROR),
    "queue_full": _Answer(
        503,
        "All replicas are busy and the queue is full or the wait was too long. Try again later.",
        _SERVER_ERROR,
    ),
    "rate_limited": _Answer(
        429,
        "This key, or its organization, sends more requests than it may. Try again in a second.",
        "rate_limit_error",
    ),
    "too_many_at_once": _Answer(
        429, "Too many requests are open at once. Wait until some of them have ended.", "rate_limit_error"
    ),
    "body_too_large": _Answer(
        413,
        "The request body is larger than this container accepts (limits.max_body_bytes).",
        "invalid_request_error",
    ),
    "container_unreachable": _Answer(
        503, "No replica of the container accepted a connection.", _SERVER_ERROR
    ),
    "container_closed_connection": _Answer(
        502, "The container closed the connection without a valid answer.", _SERVER_ERROR
    ),
    "container_timeout": _Answer(504, "The container did not answer in time.", _SERVER_ERROR),
    "internal_error": _Answer(500, "The gateway failed.", _SERVER_ERROR),
}

_MANAGEMENT_ANSWERS = {
    400: ("Bad Request", "bad_request", "The request is not valid HTTP, or ended before it was complete."),
    408: ("Request Timeout", "request_timeout", "The request did not arrive in time. Send it again, faster."),
    429: (
        "Too Many Requests",
        "too_many_at_once",
        "Too many requests come from your address. Wait for answers, and send fewer.",
    ),
    500: ("Internal Server Error", "internal_error", "The gateway failed."),
    502: ("Bad Gateway", "unavailable", "The API closed the connection. Try again in a few seconds."),
    503: ("Service Unavailable", "unavailable", "The API is not running. Try again in a few seconds."),
    504: ("Gateway Timeout", "unavailable", "The API did not answer in time."),
}


def endpoint_answers() -> list[EndpointAnswer]:
    return [EndpointAnswer(code, one.status, one.message) for code, one in _ENDPOINT_ANSWERS.items()]


def endpoint_error(code: str | None, *, messages_map: str | None = None) -> str:
    """`content-type … lf-string …`. With no code: whichever of the 503 causes it is (see `status_503_by_cause`)."""
    if code is not None:
        answer = _ENDPOINT_ANSWERS[code]
        return _lf_string(_endpoint_body(answer.message, answer.type, code))
    # Two expressions that print nothing and leave the cause in txn.code: the second one only succeeds,
    # and so only overwrites it, when a server had been chosen.
    cause = (
        "%[nbsrv,bool,iif(queue_full,container_not_running),set-var(txn.code),bytes(0,0)]"
        "%[srv_id,bool,iif(container_unreachable,),set-var(txn.code),bytes(0,0)]"
    )
    message = f"%[var(txn.code),map_str({messages_map})]"
    return _lf_string(cause + _endpoint_body(message, _SERVER_ERROR, "%[var(txn.code)]"))


def status_503_by_cause() -> dict[str, str]:
    """Messages of the answers whose cause is only known when they are written."""
    causes = ("queue_full", "container_not_running", "container_unreachable")
    return {code: _ENDPOINT_ANSWERS[code].message for code in causes}


def management_error(status: int) -> str:
    title, code, detail = _MANAGEMENT_ANSWERS[status]
    body = (
        f'{{"type":"about:blank","title":"{title}","status":{status},"code":"{code}",'
        f'"detail":"{detail}","request_id":"{_REQUEST_ID}"}}'
    )
    retry_after = " hdr Retry-After 2" if status == 503 else ""
    return f"content-type application/problem+json lf-string '{body}'{retry_after}"


def _endpoint_body(message: str, error_type: str, code: str) -> str:
    return (
        f'{{"error":{{"message":"{message}","type":"{error_type}","code":"{code}",'
        f'"request_id":"{_REQUEST_ID}"}}}}'
    )


def _lf_string(body: str) -> str:
    assert "'" not in body
    return f"content-type application/json lf-string '{body}'"
