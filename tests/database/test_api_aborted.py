"""A client that leaves in the middle of its request is no error of ours, and costs no room in the log."""

import pytest
from api_support import Api
from api_support import api_fixture as api_fixture


@pytest.mark.parametrize(
    ("path", "signed_in"),
    [
        ("/sign-in", False),
        ("/api/v1/auth/device", False),
        ("/api/v1/auth/email/start", False),
        ("/api/v1/webhooks/stripe", False),
        ("/api/v1/organizations", True),
    ],
)
async def test_an_aborted_request_leaves_no_trace_in_the_log(
    api: Api, capfd: pytest.CaptureFixture[str], path: str, signed_in: bool
) -> None:
    messages = iter(
        [{"type": "http.request", "body": b'{"email": "', "more_body": True}, {"type": "http.disconnect"}]
    )

    async def receive() -> dict[str, object]:
        return next(messages, {"type": "http.disconnect"})

    async def send(message: object) -> None:
        pass

    headers = {"content-type": "application/json", "content-length": "100", "host": "127.0.0.1:8080"}
    if signed_in:
        headers |= {**api.operator.headers, "idempotency-key": "once"}
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
        "path": path, "raw_path": path.encode(), "query_string": b"", "client": ("127.0.0.1", 1), "root_path": "",
        "server": ("127.0.0.1", 8080),
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
    }  # fmt: skip
    await api.app(scope, receive, send)
    out, err = capfd.readouterr()
    assert out + err == ""
