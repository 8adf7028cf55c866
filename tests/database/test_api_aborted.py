"""A client that leaves in the middle of its request is no error of ours, and costs no room in the log."""

import pytest
from api_support import Api
from api_support import api_fixture as api_fixture


@pytest.mark.parametrize(
    "path", ["/sign-in", "/api/v1/auth/device", "/api/v1/auth/email/start", "/api/v1/webhooks/stripe"]
)
async def test_an_aborted_request_leaves_no_trace_in_the_log(
    api: Api, capfd: pytest.CaptureFixture[str], path: str
) -> None:
    messages = iter(
        [{"type": "http.request", "body": b'{"email": "', "more_body": True}, {"type": "http.disconnect"}]
    )

    async def receive() -> dict[str, object]:
        return next(messages, {"type": "http.disconnect"})

    async def send(message: object) -> None:
        pass

    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
        "path": path, "raw_path": path.encode(), "query_string": b"", "client": ("127.0.0.1", 1), "root_path": "",
        "server": ("127.0.0.1", 8080),
        "headers": [(b"content-type", b"application/json"), (b"content-length", b"100"), (b"host", b"127.0.0.1:8080")],
    }  # fmt: skip
    await api.app(scope, receive, send)
    out, err = capfd.readouterr()
    assert out + err == ""
