"""A stand-in for the Docker engine that knows who calls: enough of its API, on a Unix socket, for the controller as it runs
in production. Its replicas really listen.

The kernel says which process is at the other end of a connection. So each request is counted with its caller, and the caller
can be stopped in the middle of it: before the engine has done anything, or after, with the answer on its way.
"""

import asyncio
import contextlib
import hashlib
import json
import socket
import struct
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from aiohttp import web

from moorage.engines.docker.create import LABEL_CONTAINER, LABEL_GENERATION, LABEL_REPLICA, LABEL_SLOT
from moorage.kit.clock import system_clock

NEVER = "0001-01-01T00:00:00Z"
When = Literal["before", "after"]
_CREDENTIALS = struct.Struct("3i")


@dataclass(frozen=True)
class Call:
    """A request that changes something; and the look that a start begins with, which changes nothing."""

    pid: int
    what: str
    """`create`, `start`, `stop`, `remove`, `network`, `look`."""
    of: str


@dataclass
class Process:
    id: str
    name: str
    body: dict[str, Any]
    status: str = "created"
    started_at: str = NEVER
    finished_at: str = NEVER
    exit_code: int = 0
    server: asyncio.Server | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def labels(self) -> dict[str, str]:
        labels: dict[str, str] = self.body["Labels"]
        return labels

    @property
    def slot(self) -> tuple[str, str, str]:
        return self.labels[LABEL_CONTAINER], self.labels[LABEL_GENERATION], self.labels[LABEL_SLOT]

    @property
    def host_port(self) -> int:
        ((binding,),) = self.body["HostConfig"]["PortBindings"].values()
        return int(binding["HostPort"])


async def _nothing(_call: Call, _when: When) -> None:
    return None


@dataclass
class StandIn:
    on_call: Callable[[Call, When], Awaitable[None]] = _nothing
    """Heard before and after each call."""
    calls: list[Call] = field(default_factory=list)
    """Those that change something, or would if what they name were still there."""
    processes: dict[str, Process] = field(default_factory=dict)
    twins: list[str] = field(default_factory=list)
    """Whenever two processes ran for one slot of one generation."""
    networks: list[dict[str, Any]] = field(default_factory=list)
    _listeners: set[asyncio.Queue[bytes]] = field(default_factory=set)
    _looked_at: set[str] = field(default_factory=set)
    _made: int = 0

    @contextlib.asynccontextmanager
    async def serving(self, path: Path) -> AsyncIterator[None]:
        app = web.Application()
        version = "/{version:v[0-9.]+}"
        for prefix in ("", version):
            app.router.add_get(f"{prefix}/_ping", self._ping)
            app.router.add_get(f"{prefix}/version", self._version)
            app.router.add_get(f"{prefix}/info", self._info)
            app.router.add_get(f"{prefix}/networks", self._networks)
            app.router.add_post(f"{prefix}/networks/create", self._create_network)
            app.router.add_get(f"{prefix}/images/json", self._images)
            app.router.add_get(f"{prefix}/images/{{name:.*}}/json", self._image)
            app.router.add_get(f"{prefix}/containers/json", self._list)
            app.router.add_post(f"{prefix}/containers/create", self._create)
            app.router.add_get(f"{prefix}/containers/{{id}}/json", self._inspect)
            app.router.add_get(f"{prefix}/containers/{{id}}/logs", self._logs)
            app.router.add_post(f"{prefix}/containers/{{id}}/start", self._start)
            app.router.add_post(f"{prefix}/containers/{{id}}/stop", self._stop)
            app.router.add_delete(f"{prefix}/containers/{{id}}", self._remove)
            app.router.add_get(f"{prefix}/events", self._events)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.UnixSite(runner, str(path)).start()
        try:
            yield
        finally:
            for process in self.processes.values():
                self._end(process, 137)
            await runner.cleanup()

    def running(self) -> list[Process]:
        return [one for one in self.processes.values() if one.status == "running"]

    def of(self, container_id: str) -> list[Process]:
        return [one for one in self.processes.values() if one.labels[LABEL_CONTAINER] == container_id]

    async def _ping(self, _: web.Request) -> web.Response:
        return web.Response(text="OK")

    async def _version(self, _: web.Request) -> web.Response:
        return web.json_response({"ApiVersion": "1.41", "Version": "20.10", "Arch": "amd64"})

    async def _info(self, _: web.Request) -> web.Response:
        return web.json_response(
            {
                "ID": "stand-in",
                "Name": "stand-in",
                "NCPU": 64,
                "MemTotal": 2**38,
                "Architecture": "x86_64",
                "Driver": "overlay2",
                "DriverStatus": [],
                "DockerRootDir": "/nonexistent",
                "Runtimes": {"runc": {}},
            }
        )

    async def _networks(self, _: web.Request) -> web.Response:
        return web.json_response(self.networks)

    async def _create_network(self, request: web.Request) -> web.Response:
        body = await request.json()
        async with self._call(request, "network", body["Name"]):
            self.networks.append(body)
        return web.json_response({"Id": body["Name"], "Warning": ""}, status=201)

    async def _images(self, _: web.Request) -> web.Response:
        return web.json_response([])

    async def _image(self, request: web.Request) -> web.Response:
        image_id = hashlib.sha256(request.match_info["name"].encode()).hexdigest()
        return web.json_response(
            {
                "Id": f"sha256:{image_id}",
                "Size": 1_000_000,
                "Architecture": "amd64",
                "Config": {"ExposedPorts": {"8000/tcp": {}}},
            }
        )

    async def _list(self, _: web.Request) -> web.Response:
        return web.json_response(
            [
                {"Id": one.id, "Names": [f"/{one.name}"], "Labels": one.labels}
                for one in self.processes.values()
            ]
        )

    async def _create(self, request: web.Request) -> web.Response:
        body, name = await request.json(), request.query["name"]
        async with self._call(request, "create", body["Labels"][LABEL_REPLICA]):
            if any(one.name == name for one in self.processes.values()):
                return _refusal(409, f"The name {name} is in use.")
            self._made += 1
            made = Process(hashlib.sha256(f"{self._made} {name}".encode()).hexdigest(), name, body)
            self.processes[made.id] = made
        return web.json_response({"Id": made.id, "Warnings": []}, status=201)

    async def _inspect(self, request: web.Request) -> web.Response:
        name = request.match_info["id"]
        found = self._found(name)
        if name.startswith("rep_") and name not in self._looked_at:
            # A pass looks by the engine's name; a start, before it creates anything, by the id.
            self._looked_at.add(name)
            async with self._call(request, "look", name):
                pass
        if found is None:
            return _refusal(404, "No such container.")
        return web.json_response(
            {
                "Id": found.id,
                "Name": f"/{found.name}",
                "Config": {"Labels": found.labels},
                "State": {
                    "Status": found.status,
                    "StartedAt": found.started_at,
                    "FinishedAt": found.finished_at,
                    "ExitCode": found.exit_code,
                    "OOMKilled": False,
                    "Pid": 0,
                },
                "HostConfig": found.body["HostConfig"],
                **dict.fromkeys(("HostsPath", "HostnamePath", "ResolvConfPath"), "/nonexistent"),
            }
        )

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        found = self._found(request.match_info["id"])
        if found is None:
            return _refusal(404, "No such container.")
        answer = web.StreamResponse()
        await answer.prepare(request)
        if request.query.get("follow") == "1":
            await found.ended.wait()
        return answer

    async def _start(self, request: web.Request) -> web.Response:
        found = self._found(request.match_info["id"])
        async with self._call(request, "start", request.match_info["id"]):
            if found is None:
                return _refusal(404, "No such container.")
            if found.status == "created" and found.id in self.processes:
                found.server = await asyncio.start_server(_answer, "127.0.0.1", found.host_port)
                found.status, found.started_at = "running", _now()
                for slot, count in Counter(one.slot for one in self.running()).items():
                    if count > 1:
                        self.twins.append(f"{count} processes for {slot}")
        return web.Response(status=204)

    async def _stop(self, request: web.Request) -> web.Response:
        found = self._found(request.match_info["id"])
        async with self._call(request, "stop", request.match_info["id"]):
            if found is None:
                return _refusal(404, "No such container.")
            self._end(found, 143)
        return web.Response(status=204)

    async def _remove(self, request: web.Request) -> web.Response:
        found = self._found(request.match_info["id"])
        async with self._call(request, "remove", request.match_info["id"]):
            if found is None:
                return _refusal(404, "No such container.")
            self._end(found, 137)
            if self.processes.pop(found.id, None) is not None:
                self._say("destroy", found)
        return web.Response(status=204)

    async def _events(self, request: web.Request) -> web.StreamResponse:
        answer, heard = web.StreamResponse(), asyncio.Queue[bytes](10_000)
        await answer.prepare(request)
        self._listeners.add(heard)
        try:
            with contextlib.suppress(ConnectionResetError):
                while True:
                    await answer.write(await heard.get())
        finally:
            self._listeners.discard(heard)
        return answer

    @contextlib.asynccontextmanager
    async def _call(self, request: web.Request, what: str, of: str) -> AsyncIterator[None]:
        assert request.transport is not None
        peer = request.transport.get_extra_info("socket")
        pid, _, _ = _CREDENTIALS.unpack(
            peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        )
        call = Call(pid, what, of)
        if what != "look":
            self.calls.append(call)
        await self.on_call(call, "before")
        yield
        await self.on_call(call, "after")

    def _found(self, name_or_id: str) -> Process | None:
        return next((one for one in self.processes.values() if name_or_id in (one.id, one.name)), None)

    def _end(self, process: Process, exit_code: int) -> None:
        if process.status == "running":
            assert process.server is not None
            process.server.close()
            process.status, process.exit_code, process.finished_at = "exited", exit_code, _now()
            self._say("die", process)
        process.ended.set()

    def _say(self, event: str, process: Process) -> None:
        line = json.dumps({"Type": "container", "Action": event, "Actor": {"Attributes": process.labels}})
        for heard in self._listeners:
            heard.put_nowait(f"{line}\n".encode())


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    writer.close()


def _refusal(status: int, message: str) -> web.Response:
    return web.json_response({"message": message}, status=status)


def _now() -> str:
    return system_clock.now().isoformat().replace("+00:00", "Z")
