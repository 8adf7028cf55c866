"""Sockets of one machine between its processes: in memory, with what the kernel does when one end dies.

What is written arrives in the context of the process at the other end: one that is dead hears nothing, one that is stopped hears it
when it goes on.
"""

import asyncio
import contextvars
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.simulation.loop import PROCESS, Process, SimulationLoop

Connection = tuple["PipeTransport", Any]


class PipeTransport(asyncio.Transport):
    """One end."""

    def __init__(self, loop: SimulationLoop, context: contextvars.Context) -> None:
        super().__init__()
        self._loop = loop
        self._context = context
        self._closing = False
        self.protocol: Any = None
        self.peer: PipeTransport | None = None

    def write(self, data: Any) -> None:
        if not self._closing:
            self._tell(self._of_peer()._hear, bytes(data))

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(bytes(one) for one in list_of_data))

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._loop.call_soon(self.protocol.connection_lost, None, context=self._context)
            self._tell(self._of_peer()._hear_end)

    abort = close

    def die(self) -> None:
        """Its process has: nobody here is told anything any more."""
        if not self._closing:
            self._closing = True
            self._tell(self._of_peer()._hear_end)

    def is_closing(self) -> bool:
        return self._closing

    def _of_peer(self) -> "PipeTransport":
        assert self.peer is not None, "both ends are made at once"
        return self.peer

    def _tell(self, what: Callable[..., None], *data: bytes) -> None:
        self._loop.call_soon(what, *data, context=self._of_peer()._context)

    def _hear(self, data: bytes) -> None:
        if not self._closing:
            self.protocol.data_received(data)

    def _hear_end(self) -> None:
        if not self._closing:
            self.protocol.eof_received()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def is_reading(self) -> bool:
        return not self._closing

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def can_write_eof(self) -> bool:
        return False


@dataclass
class PipeServer:
    """Whoever listens at a path."""

    pipes: "Pipes"
    path: str
    factory: Callable[[], Any]
    context: contextvars.Context
    process: Process | None

    def close(self) -> None:
        if self.pipes.servers.get(self.path) is self:
            del self.pipes.servers[self.path]


@dataclass
class Pipes:
    loop: SimulationLoop
    servers: dict[str, PipeServer] = field(default_factory=dict)

    def listen(self, factory: Callable[[], Any], path: str) -> PipeServer:
        process = PROCESS.get()
        server = PipeServer(self, path, factory, contextvars.copy_context(), process)
        self.servers[path] = server
        Path(path).touch()  # Whoever listens sets who may connect.
        if process is not None:
            process.at_death.append(server.close)
        return server

    def connect(self, factory: Callable[[], Any], path: str) -> Connection:
        server = self.servers.get(path)
        if server is None:
            raise ConnectionRefusedError(f"nobody listens at {path}")
        near = PipeTransport(self.loop, contextvars.copy_context())
        # A context of its own: the tasks that begin in it must not share what they set.
        far = PipeTransport(self.loop, server.context.copy())
        near.peer, far.peer = far, near
        near.protocol, far.protocol = factory(), server.context.copy().run(server.factory)
        for end, process in ((near, PROCESS.get()), (far, server.process)):
            if process is not None:
                process.at_death.append(end.die)
        near.protocol.connection_made(near)
        self.loop.call_soon(far.protocol.connection_made, far, context=far._context)
        return near, near.protocol
