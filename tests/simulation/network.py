"""Ports of replicas: whoever listens takes the connection, says nothing, and hears nothing. Others are somebody's who
receives (`receivers.py`)."""

import asyncio
from collections.abc import Callable
from typing import Any

from tests.simulation.loop import SimulationLoop
from tests.simulation.machine import Machine
from tests.simulation.receivers import HOOKS_PORT, SMTP_PORT, Receivers


class _SilentTransport(asyncio.Transport):
    def __init__(self, loop: SimulationLoop, protocol: Any) -> None:
        super().__init__()
        self._loop = loop
        self._protocol = protocol
        self._closing = False

    def is_closing(self) -> bool:
        return self._closing

    def write(self, data: Any) -> None:
        pass

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._loop.call_soon(self._protocol.connection_lost, None)

    abort = close

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default


def connector(
    loop: SimulationLoop, machine: Machine, receivers: Receivers
) -> Callable[[Callable[[], asyncio.BaseProtocol], Any], tuple[asyncio.Transport, asyncio.BaseProtocol]]:
    def connect(
        protocol_factory: Callable[[], asyncio.BaseProtocol], port: Any
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        if port in (SMTP_PORT, HOOKS_PORT):
            return receivers.connect(protocol_factory, port)  # type: ignore[no-any-return]
        if machine.answers_at(port) is None:
            raise ConnectionRefusedError(f"nobody listens at {port}")
        protocol = protocol_factory()
        transport = _SilentTransport(loop, protocol)
        protocol.connection_made(transport)
        return transport, protocol

    return connect
