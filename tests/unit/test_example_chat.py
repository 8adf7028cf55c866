"""The example server as a process of its own, over loopback: what the rest of the suite relies on."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai
import pytest

SERVER = Path(__file__).parents[2] / "examples" / "chat" / "server.py"
DEADLINE_S = 10
HAIL = {"messages": [{"role": "user", "content": "Where do I moor?"}]}


@dataclass(frozen=True)
class Server:
    process: subprocess.Popen[str]
    port: int

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_S)

    def request(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        connection = self.connect()
        data = body if body is None or isinstance(body, bytes) else json.dumps(body)
        connection.request(method, path, data)
        response = connection.getresponse()
        content = response.read()
        connection.close()
        return response.status, json.loads(content)

    def raw(self, data: bytes) -> bytes:
        """Everything the server says to these bytes until it closes the connection."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=DEADLINE_S) as connection:
            connection.sendall(data)
            return b"".join(iter(lambda: connection.recv(65536), b""))


def launch(**switches: str) -> subprocess.Popen[str]:
    environment = {"PATH": os.environ["PATH"], "CHAT_BIND": "127.0.0.1", "PORT": "0", **switches}
    return subprocess.Popen(
        [sys.executable, "-E", "-s", "-S", str(SERVER)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@contextmanager
def running(**switches: str) -> Iterator[Server]:
    process = launch(**switches)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if found := re.fullmatch(r"chat: listening on \S+:(\d+)\n", line):
                yield Server(process, int(found[1]))
                break
        else:
            pytest.fail("the server ended without listening")
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running() as started:
        yield started


def test_a_server_that_has_its_api_at_v1_alone() -> None:
    with running(CHAT_V1_ONLY="1") as server:
        assert server.request("GET", "/v1/models")[0] == 200
        assert server.request("GET", "/api/v1/models")[0] == 404


@pytest.mark.parametrize("prefix", ["/api/v1", "/v1"])
def test_openai_client(server: Server, prefix: str) -> None:
    with openai.OpenAI(
        base_url=f"http://127.0.0.1:{server.port}{prefix}", api_key="x", max_retries=0
    ) as client:
        assert [model.id for model in client.models.list()] == ["harbour-pilot"]
        plain = client.chat.completions.create(model="any", messages=[{"role": "user", "content": "Ahoy!"}])
        content = plain.choices[0].message.content
        assert content is not None
        assert "“Ahoy!”" in content
        assert "not a model" in content
        assert plain.choices[0].finish_reason == "stop"
        assert plain.usage is not None
        assert plain.usage.prompt_tokens == 1
        assert plain.usage.total_tokens == 1 + plain.usage.completion_tokens

        chunks = list(
            client.chat.completions.create(
                model="any",
                messages=[{"role": "user", "content": [{"type": "text", "text": "Ahoy!"}]}],
                stream=True,
                stream_options={"include_usage": True},
            )
        )
        assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == content
        assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"
        assert chunks[-1].usage == plain.usage

        with pytest.raises(openai.BadRequestError) as refused:
            client.chat.completions.create(model="any", messages=[])
        assert refused.value.param == "messages"
        with pytest.raises(openai.NotFoundError):
            client.embeddings.create(model="any", input="x")


def test_max_tokens_cuts_the_answer(server: Server) -> None:
    _, answer = server.request("POST", "/v1/chat/completions", {**HAIL, "max_tokens": 3})
    assert answer["choices"][0]["message"]["content"] == "Harbour pilot here."
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"]["completion_tokens"] == 3


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[" * 100_000,
        [],
        {},
        {"messages": "hello"},
        {"messages": ["hello"]},
        {"messages": [{"content": "hello"}]},
        {"messages": [{"role": "user", "content": 7}]},
        {**HAIL, "max_tokens": 0},
        {**HAIL, "max_tokens": True},
        {**HAIL, "n": 2},
        {**HAIL, "stream": "yes"},
        {**HAIL, "model": {}},
    ],
)
def test_bad_completion_request(server: Server, body: Any) -> None:
    status, answer = server.request("POST", "/api/v1/chat/completions", body)
    assert status == 400
    assert answer["error"]["type"] == "invalid_request_error"
    assert answer["error"]["message"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/health", 200),
        ("GET", "/health?x=1", 200),
        ("POST", "/health", 405),
        ("GET", "/", 404),
        ("GET", "/api/health", 404),
        ("GET", "/v1/chat/completions", 405),
        ("GET", "/sse?n=-1", 400),
        ("GET", "/sse?n=x", 400),
        ("GET", "/sse?delay_ms=nan", 400),
    ],
)
def test_status(server: Server, method: str, path: str, status: int) -> None:
    assert server.request(method, path)[0] == status


def test_whoami_shows_names_but_no_values() -> None:
    with running(SECRET_NAME="secret-value") as server:
        status, answer = server.request("GET", "/whoami")
        assert status == 200
        assert answer["pid"] == server.process.pid
        assert answer["hostname"] == socket.gethostname()
        assert "SECRET_NAME" in answer["environment_names"]
        assert "secret-value" not in json.dumps(answer)


def test_echo_shows_the_request_as_it_came(server: Server) -> None:
    answer = server.raw(
        b"PUT /echo/a%20b?c=d HTTP/1.1\r\nHost: h\r\nX-Twice: 1\r\nx-twice: 2\r\nConnection: close\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;note=1\r\nde\r\n0\r\n\r\n"
    )
    seen = json.loads(answer.partition(b"\r\n\r\n")[2])
    assert (seen["method"], seen["path"], seen["body"]) == ("PUT", "/echo/a%20b?c=d", "abcde")
    assert ["X-Twice", "1"] in seen["headers"]
    assert ["x-twice", "2"] in seen["headers"]


def test_events_are_numbered_and_not_held_back(server: Server) -> None:
    connection = server.connect()
    connection.request("GET", "/sse?n=5&delay_ms=300")
    response = connection.getresponse()
    assert response.getheader("Content-Type", "").startswith("text/event-stream")
    sent_s, arrived_s, numbers = [], [], []
    while line := response.readline():
        if line.startswith(b"data: "):
            event = json.loads(line[6:])
            numbers.append(event["n"])
            sent_s.append(event["monotonic_ns"] / 1e9)
            arrived_s.append(time.monotonic())
    connection.close()
    assert numbers == [1, 2, 3, 4, 5]
    assert arrived_s[0] < sent_s[-1], "the first is here before the last is sent"


def test_one_connection_carries_many_requests(server: Server) -> None:
    connection = server.connect()
    connection.connect()
    local_port = connection.sock.getsockname()[1]
    for path in ("/health", "/sse?n=2", "/nope", "/health"):
        connection.request("GET", path)
        connection.getresponse().read()
        assert connection.sock.getsockname()[1] == local_port
    connection.request("HEAD", "/health")
    response = connection.getresponse()
    assert (response.status, response.read()) == (200, b"")
    connection.close()


def test_pipelined_requests_and_http_1_0(server: Server) -> None:
    both = server.raw(
        b"GET /health HTTP/1.1\r\nHost: h\r\n\r\nGET /nope HTTP/1.1\r\nConnection: close\r\n\r\n"
    )
    assert re.findall(rb"HTTP/1.1 (\d+)", both) == [b"200", b"404"]
    old = server.raw(b"GET /sse?n=1 HTTP/1.0\r\n\r\n")
    assert b"chunked" not in old
    assert old.endswith(b"\n\n")


def test_expect_continue(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_S) as connection:
        connection.sendall(
            b"POST /echo HTTP/1.1\r\nContent-Length: 2\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n"
        )
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"hi")
        assert b'"body": "hi"' in b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\r\n", 400),
        (b"GET /health\r\n\r\n", 400),
        (b"GET /health HTTP/2.0\r\n\r\n", 505),
        (b"GET /health HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\nHost : h\r\n\r\n", 400),
        (b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 200 + b"\r\n", 431),
        (b"POST /echo HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST /echo HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx", 400),
        (b"POST /echo HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"POST /echo HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
        (b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", 400),
        (b"POST /echo HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", 413),
    ],
)
def test_malformed_request_closes_the_connection(server: Server, data: bytes, status: int) -> None:
    answer = server.raw(data)
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["message"]


def test_sigterm_finishes_the_stream_and_frees_idle_connections() -> None:
    with running(CHAT_TOKEN_DELAY_MS="20") as server:
        idle = server.connect()
        idle.request("GET", "/health")
        idle.getresponse().read()
        busy = server.connect()
        busy.request("POST", "/v1/chat/completions", json.dumps({**HAIL, "stream": True}))
        response = busy.getresponse()
        first = response.readline()
        server.process.send_signal(signal.SIGTERM)
        rest = response.read()
        assert (first + rest).endswith(b"data: [DONE]\n\n")
        assert server.process.wait(DEADLINE_S) == 0
        with pytest.raises(ConnectionRefusedError):
            server.raw(b"GET /health HTTP/1.1\r\n\r\n")


def test_one_log_line_for_each_request() -> None:
    with running(CHAT_LOG_LINES="2") as server:
        server.request("GET", "/nope?\x1b[31m".replace("\x1b", "%1b"))
        server.raw(b"GET /\xff\x07 HTTP/1.1\r\nConnection: close\r\n\r\n")
        server.process.send_signal(signal.SIGTERM)
        output, _ = server.process.communicate(timeout=DEADLINE_S)
    *requests, last = output.splitlines()
    # A line is written after its answer, by the connection's own thread: either may be first.
    bytes_made_visible, escaped = sorted(requests)
    assert re.fullmatch(r"GET /nope\?%1b\[31m 404 [\d.]+ms", escaped)
    assert re.fullmatch(r"GET /\\xff\\x07 404 [\d.]+ms", bytes_made_visible)
    assert last == "chat: stopped"


def test_health_switches() -> None:
    with running(CHAT_HEALTH_STATUS="503") as server:
        assert server.request("GET", "/health")[0] == 503
    with running(CHAT_FAIL_AFTER_REQUESTS="1") as server:
        seen = [server.request("GET", path)[0] for path in ("/health", "/v1/models", "/health", "/v1/models")]
        assert seen == [200, 200, 500, 500]


def test_hanging_health_check_leaves_the_rest_alone_and_stops_cleanly() -> None:
    with running(CHAT_HEALTH_HANG="1") as server:
        hanging = server.connect()
        hanging.request("GET", "/health")
        assert server.request("GET", "/v1/models")[0] == 200
        assert hanging.sock is not None
        hanging.sock.setblocking(False)
        with pytest.raises(BlockingIOError):
            hanging.sock.recv(1)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(DEADLINE_S) == 0
        hanging.close()


def test_token_delay_applies_to_plain_answers() -> None:
    with running(CHAT_TOKEN_DELAY_MS="50") as server:
        started_s = time.monotonic()
        server.request("POST", "/v1/chat/completions", {**HAIL, "max_tokens": 4})
        assert time.monotonic() - started_s >= 0.2


def test_start_delay_and_memory_come_before_listening() -> None:
    started_s = time.monotonic()
    with running(CHAT_START_DELAY_S="0.5", CHAT_MEMORY_HOG_MB="64") as server:
        assert time.monotonic() - started_s >= 0.5
        status = Path(f"/proc/{server.process.pid}/status")
        if not status.exists():
            pytest.skip("no /proc here, so a process's memory cannot be read")
        found = re.search(r"VmRSS:\s+(\d+) kB", status.read_text())
        assert found is not None
        assert int(found[1]) >= 64 * 1024


@pytest.mark.parametrize(
    ("switches", "exit_code"),
    [
        ({"CHAT_CRASH": "at-start"}, 1),
        ({"CHAT_CRASH": "at-start", "CHAT_EXIT_CODE": "7"}, 7),
        ({"CHAT_CRASH": "0.2", "CHAT_EXIT_CODE": "3"}, 3),
    ],
)
def test_crash(switches: dict[str, str], exit_code: int) -> None:
    process = launch(**switches)
    process.communicate(timeout=DEADLINE_S)
    assert process.returncode == exit_code


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORT", "eight"),
        ("PORT", "65536"),
        ("CHAT_BIND", "not an address"),
        ("CHAT_START_DELAY_S", "-1"),
        ("CHAT_START_DELAY_S", "nan"),
        ("CHAT_CRASH", "later"),
        ("CHAT_EXIT_CODE", "256"),
        ("CHAT_MEMORY_HOG_MB", "1.5"),
        ("CHAT_HEALTH_STATUS", "0"),
        ("CHAT_HEALTH_HANG", "yes"),
        ("CHAT_V1_ONLY", "yes"),
        ("CHAT_TOKEN_DELAY_MS", "fast"),
        ("CHAT_LOG_LINES", "-5"),
        ("CHAT_FAIL_AFTER_REQUESTS", "never"),
    ],
)
def test_bad_switch_is_one_clear_line(name: str, value: str) -> None:
    process = launch(**{name: value})
    _, problem = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 2
    assert problem.count("\n") == 1
    assert value in problem
