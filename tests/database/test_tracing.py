"""Traces arrive at a receiver that speaks OTLP over HTTP; without one, OpenTelemetry is not even imported."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from api_support import KEYRING, Api
from api_support import api_fixture as api_fixture
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from test_driver import Numbers, running, until

from moorage.engines.docker.connection import DockerConnection
from moorage.entrypoints.api import create_app
from moorage.kit.errors import EngineError
from moorage.kit.tracing import tracing


class Receiver(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.services: set[str] = set()
        self.spans: list[Span] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def named(self, name: str) -> list[dict[str, str]]:
        return [
            {
                one.key.removeprefix("moorage."): one.value.string_value or str(one.value.int_value)
                for one in span.attributes
            }
            for span in self.spans
            if span.name == name
        ]


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        assert self.path == "/v1/traces"
        body = self.rfile.read(int(self.headers["Content-Length"]))
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            for attribute in resource.resource.attributes:
                if attribute.key == "service.name":
                    self.server.services.add(attribute.value.string_value)
            for scope in resource.scope_spans:
                self.server.spans += scope.spans
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Not on the test's output."""


@contextmanager
def receiving() -> Iterator[Receiver]:
    receiver = Receiver()
    thread = threading.Thread(target=receiver.serve_forever)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.shutdown()
        thread.join()
        receiver.server_close()


async def test_requests_passes_and_engine_calls(api: Api) -> None:
    await api.execute("CREATE TABLE numbers (id text PRIMARY KEY, due_at timestamptz)")
    await api.execute("INSERT INTO numbers VALUES ('good', now()), ('bad', now())")
    numbers = Numbers(api.database, bad={"bad"})
    with receiving() as receiver:
        settings = api.settings.model_copy(update={"otlp_endpoint": receiver.url})
        traced = Api(create_app(settings, api.database, KEYRING), api.database, settings)
        with tracing(receiver.url, "moorage-test"):
            answer = await traced.get(traced.operator, "/containers/ctr_typed_by_a_client")
            assert answer.status_code == 404
            async with running(api.database, numbers):
                await until(lambda: numbers.passes.keys() == {"good", "bad"} and bool(numbers.postponed))
            nobody = DockerConnection("unix:///nowhere.sock")
            with pytest.raises(EngineError):
                async with nobody.call("ask for nothing") as docker:
                    await docker.version()
            await nobody.close()
        # All were sent before it ended.
        (request,) = receiver.named("api request")
        passes, calls = receiver.named("reconcile"), receiver.named("engine call")
    assert request == {
        "method": "GET",
        "status": "404",
        "route": "/containers/{container_id}",
        "request_id": answer.headers["x-request-id"],
    }
    assert {one["key"] for one in passes} == {"good", "bad"}
    failed = {span.name for span in receiver.spans if span.status.code == Status.STATUS_CODE_ERROR}
    assert failed == {"reconcile", "engine call"}
    assert calls == [{"what": "ask for nothing"}]
    assert receiver.services == {"moorage-test"}


@pytest.mark.long
async def test_a_receiver_that_is_gone_disturbs_nobody(api: Api) -> None:
    settings = api.settings.model_copy(update={"otlp_endpoint": "http://127.0.0.1:9"})
    traced = Api(create_app(settings, api.database, KEYRING), api.database, settings)
    with tracing(settings.otlp_endpoint, "moorage-test"):
        assert (await traced.ask(traced.operator, "GET", "/healthz")).status_code == 200


async def test_nothing_is_imported_without_a_receiver() -> None:
    code = (
        "import sys; from moorage.kit.tracing import span, tracing\n"
        "with tracing(None, 'x'), span('y'): pass\n"
        "assert not any(name.startswith('opentelemetry') for name in sys.modules)"
    )
    await asyncio.to_thread(subprocess.run, [sys.executable, "-c", code], check=True, timeout=60)
